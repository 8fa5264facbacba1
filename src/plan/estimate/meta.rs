//! From the meta model and the cluster of a recipe to the plain numbers of an estimate.

use super::machine::{Link, Machine, Reached};
use super::shape::{AttentionShape, FfnShape, LayerShape, Run, Shape};
use crate::model::{FfnModule, LayerModule, Model};
use crate::recipe;

impl Shape {
    /// The shape of `model`: what is trained of it, multi-token prediction only where it is.
    pub fn of(model: &Model) -> Shape {
        let mut runs: Vec<Run> = Vec::new();
        for layer in model.layers.iter().map(layer) {
            match runs.last_mut() {
                Some(run) if run.layer == layer => run.count += 1,
                _ => runs.push(Run { layer, count: 1 }),
            }
        }
        let mtp = model.trained_mtp();
        Shape {
            hidden: model.hidden as f64,
            vocab: model.vocab as f64,
            tied: model.head == model.embed,
            runs,
            mtp: mtp.iter().map(|mtp| layer(&mtp.layer)).collect(),
            mtp_heads: mtp.iter().filter(|mtp| mtp.head.is_some()).count() as u64,
        }
    }
}

fn layer(layer: &LayerModule) -> LayerShape {
    let a = &layer.attention.config;
    let heads = match &a.latent {
        None => AttentionShape {
            value: (a.kv_heads * a.value_dim) as f64,
            out: (a.heads * a.value_dim) as f64,
            ..AttentionShape::grouped(a.heads, a.kv_heads, a.head_dim)
        },
        Some(latent) => {
            let dims = [a.head_dim - latent.rope, latent.rope, a.value_dim];
            AttentionShape::latent(a.heads, [latent.q_rank.unwrap_or(0), latent.kv_rank], dims)
        }
    };
    let attention = AttentionShape {
        gate: layer.attention.gate.is_some(),
        window: a.window.map(|tokens| tokens as f64),
        ..heads
    };
    let ffn = match &layer.ffn {
        FfnModule::Dense(mlp) => FfnShape::Dense { inner: mlp.config.inner as f64 },
        FfnModule::Moe(moe) => FfnShape::Moe {
            experts: moe.config.experts as f64,
            top_k: moe.config.top_k as f64,
            inner: moe.config.inner as f64,
            shared: moe.config.shared.as_ref().map_or(0.0, |mlp| mlp.inner as f64),
        },
    };
    LayerShape { attention, ffn }
}

impl Machine {
    /// The devices and links of `cluster`.
    pub fn of(cluster: &recipe::Cluster) -> Machine {
        let device = &cluster.device;
        let link = |link: &recipe::Link| Link { bandwidth: link.bandwidth, latency: link.latency };
        Machine {
            memory: device.memory as f64,
            flops: device.flops_bf16,
            bandwidth: device.bandwidth,
            devices_per_node: cluster.devices_per_node,
            intra: link(&cluster.intra_node),
            inter: link(&cluster.inter_node),
            reached: Reached {
                compute: device.efficiency.compute,
                memory: device.efficiency.memory,
                link: device.efficiency.link,
                launch: device.launch,
            },
        }
    }
}

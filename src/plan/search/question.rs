//! A recipe in the terms of the estimate: shape, machine and job.

use super::fields::Candidate;
use crate::base::DType;
use crate::model::{FfnModule, LayerModule, Model};
use crate::plan::estimate::{
    self, AttentionShape, CrossEntropy, Engine, FfnShape, Job, Layout, LayerShape, Link, Loss, Machine, Offload,
    Optimizer, Precision, Reached, Run, Shape, Time,
};
use crate::plan::lower::chunk_rows;
use crate::recipe::{self, DeviceKind, Recipe};

/// Seconds to enqueue a kernel from our own runtime, and from Python in front of an NPU or a GPU.
const LAUNCH_NATIVE: f64 = 5e-6;
const LAUNCH_NPU: f64 = 50e-6;
const LAUNCH_GPU: f64 = 5e-6;

/// Everything that stays the same over all layouts.
pub struct Question {
    pub engine: Engine,
    pub shape: Shape,
    pub machine: Machine,
    devices: u64,
    global_batch: u64,
    sequence: u64,
    precision: Precision,
    /// Rows of logits that the native head makes at a time.
    chunk: u64,
}

impl Question {
    /// What is asked about `recipe` on `engine`.
    pub fn new(recipe: &Recipe, model: &Model, engine: Engine) -> Question {
        let p = &recipe.parallel.precision;
        let bytes = |dtype: DType| dtype.size() as f64;
        Question {
            engine,
            shape: shape(model),
            machine: machine(recipe, engine),
            devices: recipe.cluster.devices(),
            global_batch: recipe.train.global_batch,
            sequence: recipe.data.sequence,
            precision: Precision {
                stored: bytes(p.optimizer),
                compute: bytes(p.params),
                reduce: bytes(p.reduce),
                moment: bytes(p.optimizer),
                master: 0.0,
                eight_bit: false,
            },
            chunk: chunk_rows(model.vocab),
        }
    }

    /// The job that `c` is.
    pub fn job(&self, c: &Candidate) -> Job {
        let native = self.engine == Engine::Native;
        let layout = Layout {
            replicate: self.devices / c.fsdp,
            fsdp: c.fsdp,
            ep: c.ep,
            ep_fsdp: c.ep_fsdp,
            tp: 1,
            cp: 1,
            pp: 1,
            chunks: 1,
            last_layers: None,
            sequence_parallel: false,
            loss_parallel: false,
        };
        let chunks = (c.micro_batch * self.sequence).div_ceil(self.chunk);
        Job {
            engine: self.engine,
            layout,
            micro_batch: c.micro_batch,
            accumulate: self.global_batch / (c.micro_batch * layout.data()),
            sequence: self.sequence,
            recompute: match c.recompute {
                recipe::Recompute::None => estimate::Recompute::None,
                recipe::Recompute::Full => estimate::Recompute::Full,
            },
            loss: if native { Loss::Chunks(chunks) } else { Loss::Plain },
            optimizer: if native { Optimizer::Fused } else { Optimizer::PerTensor },
            precision: self.precision,
            offload: Offload::default(),
            cross_entropy: if native { CrossEntropy::Fused } else { CrossEntropy::Eager },
            compile: native,
            reshard: true,
            reduce_last: false,
            imbalance: 1.0,
        }
    }

    /// The time of a step with the layout `c`.
    pub fn time(&self, c: &Candidate) -> Time {
        let job = self.job(c);
        let mut time = estimate::time(&self.shape, &job, &self.machine);
        if c.prefetch == 0 {
            // Nothing is gathered beside compute; gradients are still reduced there.
            let p = &self.precision;
            let gathers = 2.0 * p.compute / (2.0 * p.compute + p.reduce);
            let waited = (time.communication - time.exposed).max(0.0) * gathers;
            time.exposed += waited;
            time.step += waited;
        }
        time
    }
}

/// The trained part of a model, equal neighbours counted together.
fn shape(model: &Model) -> Shape {
    let mut runs: Vec<Run> = Vec::new();
    for layer in &model.layers {
        let layer = layer_shape(layer);
        match runs.last_mut().filter(|run| run.layer == layer) {
            Some(run) => run.count += 1,
            None => runs.push(Run { layer, count: 1 }),
        }
    }
    Shape {
        hidden: model.hidden as f64,
        vocab: model.vocab as f64,
        tied: model.head == model.embed,
        runs,
        mtp: Vec::new(),
    }
}

fn layer_shape(layer: &LayerModule) -> LayerShape {
    let a = &layer.attention.config;
    let attention = AttentionShape {
        gate: layer.attention.gate.is_some(),
        window: a.window.map(|window| window as f64),
        ..AttentionShape::grouped(a.heads, a.kv_heads, a.head_dim)
    };
    let ffn = match &layer.ffn {
        FfnModule::Dense(mlp) => FfnShape::Dense { inner: mlp.config.inner as f64 },
        FfnModule::Moe(moe) => FfnShape::Moe {
            experts: moe.config.experts as f64,
            top_k: moe.config.top_k as f64,
            inner: moe.config.inner as f64,
            shared: moe.config.shared.as_ref().map_or(0.0, |shared| shared.inner as f64),
        },
    };
    LayerShape { attention, ffn }
}

fn machine(recipe: &Recipe, engine: Engine) -> Machine {
    let cluster = &recipe.cluster;
    let device = &cluster.device;
    let link = |link: &recipe::Link| Link { bandwidth: link.bandwidth, latency: link.latency };
    let exact = recipe.parallel.precision.params == DType::F32;
    Machine {
        memory: device.memory as f64,
        flops: if exact { device.flops_f32 } else { device.flops_bf16 },
        bandwidth: device.bandwidth,
        devices_per_node: cluster.devices_per_node,
        intra: link(&cluster.intra_node),
        inter: link(&cluster.inter_node),
        reached: Reached {
            compute: device.efficiency.compute,
            memory: device.efficiency.memory,
            link: device.efficiency.link,
            launch: match (engine, device.kind) {
                (_, DeviceKind::Cpu) => 0.0,
                (Engine::Native, _) => LAUNCH_NATIVE,
                (_, DeviceKind::Npu) => LAUNCH_NPU,
                (_, DeviceKind::Gpu) => LAUNCH_GPU,
            },
        },
    }
}

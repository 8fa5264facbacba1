//! What autograd keeps of one layer for one token of a rank, and what its backward pass needs beside it.

use super::coefficients as c;
use super::job::{Context, Engine, Job, Recompute};
use super::shape::{FfnShape, LayerShape};
use super::stage::expert_tp;

/// Bytes a token of one layer, on one device.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Kept {
    /// From the forward pass to the backward pass of the layer.
    pub forward: f64,
    /// While the layer's backward pass runs: what it recomputes, and gradients of its intermediate results.
    pub backward: f64,
    /// Of `forward`: rows that travel to experts.
    pub dispatch: f64,
    /// Of `backward`: such rows, and their gradients.
    pub dispatch_again: f64,
    /// While the layer's backward pass runs: what ranks that share a sequence send each other.
    pub exchanged: f64,
}

/// Channels of one token, by how they are split.
struct Widths {
    /// Residual stream: over `tp` with sequence parallelism.
    stream: f64,
    /// Results of norms, as matrix products read them: gathered over `tp` but in Megatron.
    normed: f64,
    /// Queries, keys, values, result and latents of attention.
    attention: f64,
    /// Queries and values alone: what selective recomputation keeps of the projections.
    every_other: f64,
    out: f64,
    /// Inner width of the dense or shared feed-forward.
    inner: f64,
    /// Rows of routed experts a token has here.
    rows: f64,
    routed_inner: f64,
    router: f64,
}

fn widths(layer: &LayerShape, hidden: f64, job: &Job) -> Widths {
    let layout = &job.layout;
    let tp = layout.tp as f64;
    let stream = if layout.sequence_parallel { hidden / tp } else { hidden };
    let normed = if job.engine == Engine::Megatron { stream } else { hidden };
    let a = &layer.attention;
    // torchtitan repeats keys and values to the heads of the queries before attention.
    let repeated = job.engine == Engine::TorchtitanFsdp2 && !job.compile;
    let (key, value) = if repeated { (a.query, a.out) } else { (a.key, a.value) };
    let latents = a.latent.map_or(0.0, |[q, kv]| 2.0 * (q + kv));
    let (inner, rows, routed_inner, router) = match layer.ffn {
        FfnShape::Dense { inner } => (inner, 0.0, 0.0, 0.0),
        FfnShape::Moe { experts, top_k, inner, shared } => {
            let split = expert_tp(layout);
            let spread = if layout.sequence_parallel && split == 1.0 { tp } else { 1.0 };
            (shared, top_k * job.imbalance / spread, inner / split, experts)
        }
    };
    let exchanged = match layout.context {
        Context::Ulysses if layout.cp > 1 => {
            // The result of attention by heads and again by positions; keys and values repeated to the ranks.
            (a.out + 2.0 * (a.spread_key(layout.cp * layout.tp) - a.key)) / tp
        }
        _ => 0.0,
    };
    Widths {
        stream,
        normed,
        attention: (a.query + key + value + a.out) / tp + latents + exchanged,
        every_other: (a.query + a.value) / tp,
        out: a.out / tp,
        inner: inner / tp,
        rows,
        routed_inner,
        router,
    }
}

/// What `job` keeps of `layer` of a model `hidden` wide.
pub(super) fn kept(layer: &LayerShape, hidden: f64, job: &Job) -> Kept {
    let w = widths(layer, hidden, job);
    let size = job.precision.compute;
    // gate, up, activation and product; fused kernels write no activation of their own.
    let fused = job.compile || job.engine == Engine::Megatron;
    let inners = if fused { 3.0 } else { 4.0 };
    let routed = w.rows * (2.0 * hidden + inners * w.routed_inner) * size + w.router * c::ROUTER_BYTES;
    let statistics = layer.attention.heads * job_statistics(job) / job.layout.tp as f64;
    let plain = 2.0 * w.stream + 2.0 * w.normed + w.attention + inners * w.inner;
    let all = plain * size + routed + statistics;
    let dispatch = w.rows * 2.0 * hidden * size;
    let (forward, sent) = match job.recompute {
        Recompute::None | Recompute::Layers(_) => (all, dispatch),
        Recompute::Full => (w.stream * size, 0.0),
        Recompute::FullButProjection => ((w.stream + w.stream) * size, 0.0),
        Recompute::Selective => {
            let ffn = w.inner + if w.inner > 0.0 { w.stream } else { 0.0 };
            let selected = w.stream + w.out + w.every_other + ffn;
            (selected * size + w.router * c::ROUTER_BYTES, 0.0)
        }
        Recompute::Activations => (all - (w.inner + w.rows * w.routed_inner) * size, dispatch),
        Recompute::Norms => (all - 2.0 * w.normed * size, dispatch),
    };
    let (forward, sent) = if job.offload.activations { (0.0, 0.0) } else { (forward, sent) };
    let gradients = (3.0 * w.inner + 2.0 * w.normed + w.rows * (hidden + 3.0 * w.routed_inner)) * size;
    let backward = (all - forward).max(0.0) + gradients;
    let dispatch_again = dispatch - sent + w.rows * hidden * size;
    let exchanged = travelling(layer, job) * size;
    Kept { forward, backward, dispatch: sent, dispatch_again, exchanged }
}

/// Channels a token in the buffers between ranks that share a sequence: of a ring, the keys and values that arrive and
/// those that leave, and their gradients; of Ulysses, queries, keys and values as they are sent.
fn travelling(layer: &LayerShape, job: &Job) -> f64 {
    let (a, layout) = (&layer.attention, &job.layout);
    let tp = layout.tp as f64;
    match layout.context {
        _ if layout.cp == 1 => 0.0,
        Context::Ring => 4.0 * (a.key + a.value) / tp,
        Context::Ulysses => (a.query + 2.0 * a.spread_key(layout.cp * layout.tp)) / tp,
    }
}

/// Bytes a token of a layer whose input alone is kept.
pub(super) fn input_only(hidden: f64, job: &Job) -> f64 {
    let tp = if job.layout.sequence_parallel { job.layout.tp as f64 } else { 1.0 };
    hidden / tp * job.precision.compute
}

/// Bytes a head and token for the softmax statistics: NPU attention returns two vectors of eight floats.
fn job_statistics(job: &Job) -> f64 {
    match job.engine {
        Engine::TorchtitanFsdp2 | Engine::Native => 4.0,
        Engine::MindspeedFsdp2 | Engine::Megatron => 64.0,
    }
}

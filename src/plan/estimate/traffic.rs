//! Bytes a device sends for one micro-batch and for one step, and how long the links need for them.

use super::job::{Context, Engine, Job, Optimizer, Recompute};
use super::machine::Machine;
use super::shape::{FfnShape, LayerShape};
use super::stage::{Stage, expert_shards, expert_tp};

/// Seconds on the links, by what for.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Traffic {
    /// A micro-batch: tensor parallelism, which compute waits for.
    pub tensor: f64,
    /// A micro-batch: keys and values of other parts of a sequence, beside attention.
    pub context: f64,
    /// A micro-batch: heads exchanged for positions, which attention waits for.
    pub heads: f64,
    /// A micro-batch: tokens to experts and back.
    pub experts: f64,
    /// A micro-batch: units gathered and gradients reduced beside compute.
    pub gather: f64,
    /// A step: what is left of gradients and parameters after the last micro-batch.
    pub update: f64,
    /// A micro-batch: activations to the next stage.
    pub pipeline: f64,
}

/// Ranks of a collective: how many, and how many devices lie between two neighbours.
#[derive(Clone, Copy)]
struct Group {
    size: u64,
    stride: u64,
}

impl Group {
    /// Seconds to gather or reduce `bytes` in all. A ring crosses a node's border once, over the links of all its
    /// members in the node.
    fn ring(self, machine: &Machine, bytes: f64) -> f64 {
        let inside = (machine.devices_per_node / self.stride).clamp(1, self.size) as f64;
        let bandwidth = (machine.inter.bandwidth * inside).min(machine.intra.bandwidth);
        self.seconds(machine, bytes * self.others(), bandwidth)
    }

    /// Seconds to send parts of `bytes` to every other rank.
    fn all_to_all(self, machine: &Machine, bytes: f64) -> f64 {
        self.seconds(machine, bytes * self.others(), machine.inter.bandwidth)
    }

    /// The share of the other ranks.
    fn others(self) -> f64 {
        1.0 - 1.0 / self.size.max(1) as f64
    }

    fn seconds(self, machine: &Machine, bytes: f64, between_nodes: f64) -> f64 {
        if self.size <= 1 {
            return 0.0;
        }
        let crosses = self.size * self.stride > machine.devices_per_node;
        let (bandwidth, latency) = match crosses {
            true => (between_nodes, machine.inter.latency),
            false => (machine.intra.bandwidth, machine.intra.latency),
        };
        bytes / (bandwidth * machine.reached.link) + latency
    }
}

/// Collectives of one layer and micro-batch of `tokens`.
fn layer(layer: &LayerShape, hidden: f64, job: &Job, machine: &Machine, tokens: f64, into: &mut Traffic) {
    let l = &job.layout;
    let size = job.precision.compute;
    let again = match job.recompute {
        Recompute::Full | Recompute::FullButProjection => 1.0,
        _ => 0.0,
    };
    // Forward: two gathers and two reductions of the hidden state; backward: as many, and two gathers for weight gradients.
    let rounds = 4.0 + 6.0 + 4.0 * again;
    let row = tokens * hidden * size;
    into.tensor += rounds * Group { size: l.tp, stride: 1 }.ring(machine, row);
    if l.cp > 1 {
        let (a, group) = (&layer.attention, Group { size: l.cp, stride: l.tp });
        let bytes = tokens / l.tp as f64 * size;
        match l.context {
            // Forward: keys and values; backward: both again, and their gradients.
            Context::Ring => {
                let keys = bytes * (a.key + a.value) * l.cp as f64;
                into.context += (3.0 + again) * group.ring(machine, keys);
            }
            // Queries, keys, values and the result, and backward the gradient of each.
            Context::Ulysses => {
                let all = a.query + 2.0 * a.spread_key(l.cp * l.tp) + a.out;
                into.heads += (2.0 + again) * group.all_to_all(machine, bytes * all);
            }
        }
    }
    if let (FfnShape::Moe { top_k, .. }, true) = (&layer.ffn, l.ep > 1) {
        let split = if expert_tp(l) == 1.0 { l.tp as f64 } else { 1.0 };
        let sent = row * top_k * job.imbalance / split;
        into.experts += (4.0 + 2.0 * again) * Group { size: l.ep, stride: 1 }.all_to_all(machine, sent);
    }
}

/// All collectives of a stage.
pub(super) fn traffic(
    layers: impl Iterator<Item = (LayerShape, f64)>,
    hidden: f64,
    job: &Job,
    machine: &Machine,
    stage: &Stage,
    tokens: f64,
) -> Traffic {
    let l = &job.layout;
    let p = &job.precision;
    let mut sum = Traffic::default();
    for (one, count) in layers {
        let mut of = Traffic::default();
        layer(&one, hidden, job, machine, tokens, &mut of);
        sum.tensor += of.tensor * count;
        sum.context += of.context * count;
        sum.heads += of.heads * count;
        sum.experts += of.experts * count;
    }
    let inside = expert_shards(l);
    // Where experts lie whole over all ranks of a stage, those of `tp` are among them.
    let (tp, folded) = if l.whole_experts { (1, l.tp) } else { (l.tp, 1) };
    let dense = Group { size: l.fsdp, stride: l.tp };
    let experts = Group { size: inside, stride: tp * l.ep };
    let replicas = Group { size: l.replicate, stride: l.tp * l.fsdp };
    let moved =
        |bytes: f64| dense.ring(machine, bytes * stage.dense) + experts.ring(machine, bytes * stage.experts);
    // Copies of a shard are summed: those of a dense parameter, and those of an expert's.
    let [dense_shard, expert_shard] = stage.shards(l);
    let expert_copies = match l.ep {
        1 if !l.whole_experts => l.replicate,
        ep => (l.replicate * l.fsdp * folded / (ep * inside)).max(1),
    };
    let expert_replicas = Group { size: expert_copies, stride: tp * l.ep * inside };
    let copies = |bytes: f64| {
        let dense = replicas.ring(machine, bytes * dense_shard);
        2.0 * (dense + expert_replicas.ring(machine, bytes * expert_shard))
    };
    match (job.engine, job.reshard && !job.reduce_last) {
        (Engine::Megatron, _) => {
            let whole = p.reduce * (stage.dense + stage.experts);
            sum.update = moved(p.reduce + p.compute) + 2.0 * replicas.ring(machine, whole);
        }
        // Our own program sums the copies once, behind the last micro-batch.
        (Engine::Native, _) => {
            sum.gather = moved(2.0 * p.compute + p.reduce);
            sum.update = copies(p.reduce);
        }
        // Gathered for the forward and for the backward pass, reduced after it.
        (_, true) => sum.gather = moved(2.0 * p.compute + p.reduce) + copies(p.reduce),
        (_, false) => {
            let gathers = if job.reshard { 2.0 } else { 0.0 };
            sum.gather = moved(gathers * p.compute);
            sum.update =
                moved((if job.reshard { 0.0 } else { 1.0 }) * p.compute + p.reduce) + copies(p.reduce);
        }
    }
    if let Optimizer::Muon { .. } = job.optimizer {
        // Each momentum to the rank that makes its update, and the update back.
        let each = 2.0 * p.compute;
        sum.update += dense.ring(machine, each * stage.matrices.dense);
        sum.update += experts.ring(machine, each * stage.matrices.experts);
    }
    let stream = tokens * hidden * p.compute / if l.sequence_parallel { l.tp as f64 } else { 1.0 };
    let stages = Group { size: l.pp, stride: l.tp * l.fsdp * l.replicate };
    sum.pipeline = 2.0 * stages.all_to_all(machine, stream);
    sum
}

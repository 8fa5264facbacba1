//! The time of a step: a roofline for compute, the links for communication, and what of it overlaps.

use super::coefficients as c;
use super::job::{Engine, Job, Loss, Optimizer, Recompute};
use super::kept::kept;
use super::machine::Machine;
use super::shape::{FfnShape, LayerShape, Shape};
use super::stage::{Stage, expert_shards, expert_tp, layers_of, stage, unit_of};
use super::traffic::{Traffic, traffic};
use serde::{Deserialize, Serialize};

/// The time of a step, in seconds, and what it is made of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Time {
    /// The whole step.
    pub step: f64,
    /// Matrix products at the reached share of the peak.
    pub matmul: f64,
    /// Kernels that device memory bounds.
    pub memory: f64,
    /// Waiting for the host to enqueue kernels.
    pub launch: f64,
    /// Waiting for offloaded activations.
    pub host_link: f64,
    /// Communication that compute waits for.
    pub exposed: f64,
    /// All communication.
    pub communication: f64,
    /// Waiting for other pipeline stages.
    pub bubble: f64,
    /// The optimizer's update.
    pub optimizer: f64,
    /// FLOPs of the model a step and device, recomputation left out.
    pub flops: f64,
    /// Tokens a step and device.
    pub tokens: f64,
    /// The machine's peak.
    pub peak: f64,
    /// A node's own links carry all communication.
    pub one_node: bool,
}

/// What bounds a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bound {
    Compute,
    Memory,
    Host,
    IntraNode,
    InterNode,
    Bubble,
}

impl Bound {
    /// The word for it in plans.
    pub fn word(self) -> &'static str {
        match self {
            Bound::Compute => "compute",
            Bound::Memory => "device memory",
            Bound::Host => "host",
            Bound::IntraNode => "links in a node",
            Bound::InterNode => "links between nodes",
            Bound::Bubble => "pipeline bubble",
        }
    }
}

impl Time {
    /// A step of the slowest stage, which sets the pace, and what it waits for the others at both ends.
    pub fn of(shape: &Shape, job: &Job, machine: &Machine) -> Time {
        let l = &job.layout;
        let mut slowest = Pace::default();
        let (mut flops, mut all) = (0.0, 0.0);
        for index in 0..l.pp {
            let pace = stage_time(shape, job, machine, index);
            flops += pace.time.flops;
            all += pace.micro_batch;
            if pace.micro_batch >= slowest.micro_batch {
                slowest = pace;
            }
        }
        let bubble = (all - slowest.micro_batch) / l.chunks as f64;
        Time {
            bubble,
            step: slowest.time.step + bubble,
            flops: flops / l.pp as f64,
            tokens: (job.micro_batch * job.sequence * job.accumulate * l.data()) as f64 / l.devices() as f64,
            ..slowest.time
        }
    }

    /// Tokens a second and device.
    pub fn throughput(&self) -> f64 {
        self.tokens / self.step
    }

    /// Model FLOPs utilisation.
    pub fn mfu(&self) -> f64 {
        self.flops / self.step / self.peak
    }

    /// The largest part of the step.
    pub fn bound(&self) -> Bound {
        let most = self.spent().into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        most.map_or(Bound::Compute, |part| part.0)
    }

    /// The step divided up by what it spends its time on, seconds.
    pub fn spent(&self) -> [(Bound, f64); 5] {
        let link = if self.one_node { Bound::IntraNode } else { Bound::InterNode };
        [
            (Bound::Compute, self.matmul),
            (Bound::Memory, self.memory + self.optimizer),
            (Bound::Host, self.launch + self.host_link),
            (link, self.exposed),
            (Bound::Bubble, self.bubble),
        ]
    }
}

/// The time of one stage alone.
#[derive(Debug, Clone, Copy, Default)]
struct Pace {
    /// A step of it, without waiting for other stages.
    time: Time,
    /// Seconds from the start of a micro-batch's passes to their end.
    micro_batch: f64,
}

/// Work of one layer for one micro-batch.
#[derive(Debug, Clone, Copy, Default)]
struct Work {
    /// FLOPs of the forward pass: of dense matrix products, of routed experts, of attention scores.
    dense: f64,
    experts: f64,
    scores: f64,
    /// Bytes that element-wise kernels read and write, forward and backward.
    bytes: f64,
    /// Kernels, forward and backward.
    kernels: f64,
    /// The narrowest width of an expert's matrices.
    narrow: f64,
}

impl Work {
    fn flops(&self) -> f64 {
        self.dense + self.experts + self.scores
    }

    /// FLOPs, weighted with the time they take against those of wide matrix products.
    fn weighted(&self, job: &Job) -> f64 {
        let eight_bit = if job.precision.eight_bit { c::EIGHT_BIT } else { 1.0 };
        let narrow = if self.narrow > 0.0 { 1.0 + c::NARROW / self.narrow } else { 1.0 };
        self.dense * eight_bit + self.experts * narrow * eight_bit + self.scores * c::SCORES
    }
}

fn layer_work(layer: &LayerShape, hidden: f64, job: &Job, tokens: f64) -> Work {
    let l = &job.layout;
    let tp = l.tp as f64;
    let split = expert_tp(l);
    let active = layer.ffn.active_params(hidden) * job.imbalance / tp;
    let a = &layer.attention;
    let reach = job.sequence as f64 / 2.0;
    let reach = a.window.map_or(reach, |window| window.min(reach));
    let plain = kept(layer, hidden, &Job { recompute: Recompute::None, ..*job });
    let each = if job.compile { c::KERNELS_COMPILED } else { c::KERNELS_EAGER };
    let (kernels, narrow) = match layer.ffn {
        FfnShape::Dense { .. } => (each, 0.0),
        FfnShape::Moe { experts, inner, .. } => {
            // Without expert parallelism the models of Hugging Face go through their experts one by one.
            let one_by_one = job.engine == Engine::MindspeedFsdp2 && l.ep == 1;
            let loops = if one_by_one { experts * c::KERNELS_EXPERT } else { 0.0 };
            (each + c::KERNELS_MOE + loops, inner / split)
        }
    };
    // Every tensor that is kept is written once and read once, and its gradient the same.
    let gradients = unit_of(layer, hidden, l).all() * 2.0 * job.precision.reduce;
    Work {
        dense: 2.0 * tokens * layer.dense_params(hidden) / tp,
        experts: 2.0 * tokens * active,
        scores: 2.0 * tokens * reach * (a.query + a.out) / tp,
        bytes: plain.forward * tokens * c::PASSES + gradients,
        kernels,
        narrow,
    }
}

fn stage_time(shape: &Shape, job: &Job, machine: &Machine, index: u64) -> Pace {
    let stage = stage(shape, job, index);
    let l = &job.layout;
    let tokens = (job.micro_batch * job.sequence) as f64 / l.cp as f64;
    let (flops_rate, bytes_rate) =
        (machine.flops * machine.reached.compute, machine.bandwidth * machine.reached.memory);
    let again = recomputed(job, &stage);
    let mut time =
        Time { peak: machine.flops, one_node: l.devices() <= machine.devices_per_node, ..Time::default() };
    let mut add = |layer: &LayerShape, count: f64| {
        let work = layer_work(layer, shape.hidden, job, tokens);
        let matmul = work.weighted(job) * (3.0 + again) / flops_rate;
        let memory = work.bytes * (1.0 + again / 3.0) / bytes_rate;
        let device = matmul + memory;
        // What is offloaded crosses the host link twice, beside compute.
        let offloaded =
            if job.offload.activations { work.bytes / c::PASSES * 2.0 / c::HOST_LINK } else { 0.0 };
        let busy = device.max(offloaded);
        let launch = work.kernels * (1.0 + again / 3.0) * machine.reached.launch;
        time.matmul += matmul * count;
        time.memory += memory * count;
        time.host_link += (busy - device) * count;
        // The host runs ahead of the device, or the device waits for the host.
        time.launch += (launch - busy).max(0.0) * count;
        time.flops += 3.0 * work.flops() * count;
    };
    layers_of(shape, l, index).for_each(|run| add(&run.layer, run.count as f64));
    if stage.last {
        shape.mtp.iter().for_each(|layer| add(layer, 1.0));
        let heads = 1.0 + shape.mtp.len() as f64;
        let logits = tokens * shape.vocab / l.tp as f64 * heads;
        time.matmul += 6.0 * logits * shape.hidden / flops_rate;
        time.flops += 6.0 * logits * shape.hidden;
        time.memory += logits * c::LOGIT_TRAFFIC / bytes_rate;
        if let Loss::Chunks(n) = job.loss {
            time.launch += n as f64 * c::KERNELS_CHUNK * machine.reached.launch;
        }
    }
    time.launch += c::KERNELS_MICRO_BATCH * machine.reached.launch;
    let layers = layers_of(shape, l, index).map(|run| (run.layer, run.count as f64));
    let links = traffic(layers, shape.hidden, job, machine, &stage, tokens);
    finish(time, job, machine, &stage, &links)
}

/// From one micro-batch of a stage to a step.
fn finish(mut time: Time, job: &Job, machine: &Machine, stage: &Stage, links: &Traffic) -> Pace {
    time.host_link += host_shards(job, stage, time.matmul + time.memory + time.launch);
    let compute = time.matmul + time.memory + time.launch + time.host_link;
    let waited = links.tensor
        + links.heads
        + links.experts
        + links.pipeline
        + (links.context - time.matmul / 3.0).max(0.0);
    // With nothing gathered ahead of its use, only gradients travel beside compute.
    let gathers = 2.0 * job.precision.compute;
    let ahead = if job.prefetch > 0 { 1.0 } else { job.precision.reduce / (gathers + job.precision.reduce) };
    let exposed = waited + links.gather * (1.0 - ahead) + (links.gather * ahead - compute).max(0.0);
    let micro_batches = job.accumulate as f64;
    for part in [&mut time.matmul, &mut time.memory, &mut time.launch, &mut time.host_link, &mut time.flops] {
        *part *= micro_batches;
    }
    time.exposed = exposed * micro_batches + links.update;
    let beside = links.tensor + links.heads + links.experts + links.pipeline + links.context + links.gather;
    time.communication = beside * micro_batches + links.update;
    let shard: f64 = stage.shards(&job.layout).iter().sum();
    let p = &job.precision;
    let state = 2.0 * (p.stored + p.master + 2.0 * p.moment) + 2.0 * p.reduce;
    let rate = if job.offload.optimizer { c::HOST_LINK } else { machine.bandwidth * machine.reached.memory };
    time.optimizer = shard * state / rate + orthogonalising(job, machine, stage);
    time.step = time.matmul + time.memory + time.launch + time.host_link + time.exposed + time.optimizer;
    Pace { time, micro_batch: compute + exposed }
}

/// Seconds of Muon's Newton–Schulz iterations: matrices are dealt out over the ranks that shard them.
fn orthogonalising(job: &Job, machine: &Machine, stage: &Stage) -> f64 {
    let Optimizer::Muon { iterations } = job.optimizer else { return 0.0 };
    let m = &stage.matrices;
    let dealt = m.dense_flops / job.layout.fsdp as f64 + m.expert_flops / expert_shards(&job.layout) as f64;
    iterations as f64 * dealt / (machine.flops * machine.reached.compute)
}

/// Seconds that a micro-batch waits because parameters live in host memory: a shard goes to the device for each of its two
/// gathers and its gradient back, beside compute.
fn host_shards(job: &Job, stage: &Stage, compute: f64) -> f64 {
    if !job.offload.params {
        return 0.0;
    }
    let shard: f64 = stage.shards(&job.layout).iter().sum();
    let moved = shard * (2.0 * job.precision.compute + job.precision.reduce);
    (moved / c::HOST_LINK - compute).max(0.0)
}

/// Forward passes of layers that run again in the backward pass, of all.
fn recomputed(job: &Job, stage: &Stage) -> f64 {
    match job.recompute {
        Recompute::None | Recompute::Activations | Recompute::Norms => 0.0,
        Recompute::Full | Recompute::FullButProjection => 1.0,
        Recompute::Layers(n) => (n as f64 / stage.layers).min(1.0),
        Recompute::Selective => 0.5,
    }
}

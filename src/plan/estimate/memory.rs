//! Memory of a device at the moments of a step that can be its peak.

use super::coefficients as c;
use super::job::{CrossEntropy, Engine, Job, Loss, Optimizer, Recompute};
use super::kept::{Kept, input_only, kept};
use super::machine::Machine;
use super::shape::{LayerShape, Shape};
use super::stage::{Stage, layers_of, stage};
use crate::plan::memory::Category;
use serde::{Deserialize, Serialize};

/// Bytes of a device at one moment, by what they are for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Bytes {
    pub parameters: f64,
    /// A master copy beside the stored parameters.
    pub master: f64,
    pub gradients: f64,
    /// The two moments.
    pub optimizer: f64,
    /// What the optimizer's kernels need beside its state.
    pub temporaries: f64,
    /// Parameters of gathered units, and their gradients before they are reduced.
    pub gathered: f64,
    /// What the forward pass keeps for the backward pass.
    pub activations: f64,
    /// What the backward pass of one layer recomputes and makes.
    pub working: f64,
    /// Logits, the loss, and their gradients.
    pub logits: f64,
    /// Of the activations, tokens on their way to experts and back: counted here, not there.
    pub dispatch: f64,
    /// Flat buffers of collectives.
    pub buffers: f64,
}

impl Bytes {
    /// The same as a plan shows it.
    pub fn categories(&self) -> [(Category, f64); 10] {
        [
            (Category::Parameters, self.parameters),
            (Category::Master, self.master),
            (Category::Gradients, self.gradients),
            (Category::Optimizer, self.optimizer),
            (Category::Gathered, self.gathered),
            (Category::Activations, self.activations),
            (Category::Dispatch, self.dispatch),
            (Category::Logits, self.logits),
            (Category::Buffers, self.buffers),
            (Category::Workspace, self.temporaries + self.working),
        ]
    }

    /// The sum.
    pub fn total(&self) -> f64 {
        self.categories().iter().map(|(_, bytes)| bytes).sum()
    }

    /// What lives as long as the training.
    fn lasting(&self) -> f64 {
        self.parameters + self.master + self.optimizer
    }
}

/// A moment of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Moment {
    /// The forward pass is over and the loss is being differentiated.
    Loss,
    /// The backward pass of the first layer it meets.
    BackwardBegin,
    /// The backward pass of the last layer it meets: all gradients are there.
    BackwardEnd,
    /// The optimizer's update.
    Optimizer,
}

impl Moment {
    /// All of them, in order.
    pub const ALL: [Moment; 4] =
        [Moment::Loss, Moment::BackwardBegin, Moment::BackwardEnd, Moment::Optimizer];

    /// When it is, in a sentence.
    pub fn word(self) -> &'static str {
        match self {
            Moment::Loss => "the loss",
            Moment::BackwardBegin => "the beginning of the backward pass",
            Moment::BackwardEnd => "the end of the backward pass",
            Moment::Optimizer => "the update of the optimizer",
        }
    }
}

/// Memory of the fullest device.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// One for each of [`Moment::ALL`].
    pub moments: [Bytes; 4],
    /// Unused parts of the allocator's blocks.
    pub fragments: f64,
    /// Cached blocks that serve another stream or another moment; given back when memory is short.
    pub idle: f64,
    /// Communicators of the collective library, outside the allocator.
    pub communicators: f64,
    /// The stage of the fullest device.
    pub stage: u64,
    /// Elements of parameters that it holds between steps.
    pub held: f64,
}

impl Memory {
    /// Memory of the fullest device of `job` on `shape`.
    pub fn of(shape: &Shape, job: &Job) -> Memory {
        let mut fullest = stage_memory(shape, job, 0);
        for index in 1..job.layout.pp {
            let next = stage_memory(shape, job, index);
            if next.reserved() > fullest.reserved() {
                fullest = next;
            }
        }
        fullest
    }

    /// Whether `machine` has room for it, with a share of its memory left free.
    pub fn fits(&self, machine: &Machine, headroom: f64) -> bool {
        self.needed() <= machine.memory * (1.0 - headroom)
    }

    /// The moment of the peak.
    pub fn peak(&self) -> (Moment, &Bytes) {
        let at = (0..4).max_by(|&a, &b| self.moments[a].total().total_cmp(&self.moments[b].total()));
        let at = at.unwrap_or_default();
        (Moment::ALL[at], &self.moments[at])
    }

    /// The largest sum of what is allocated at once.
    pub fn allocated(&self) -> f64 {
        self.peak().1.total()
    }

    /// What the caching allocator holds at most.
    pub fn reserved(&self) -> f64 {
        self.allocated() + self.fragments + self.idle
    }

    /// What a device must have: without the cached blocks that the allocator gives back before it fails.
    pub fn needed(&self) -> f64 {
        self.allocated() + self.fragments + self.communicators
    }

    /// What of a device is in use, communicators included.
    pub fn used(&self) -> f64 {
        self.reserved() + self.communicators
    }

    /// All that a device must have at the moment of `bytes`, by category: they add up to [`Memory::needed`] at the peak.
    pub fn categories(&self, bytes: &Bytes) -> Vec<(Category, f64)> {
        let mut all = bytes.categories().to_vec();
        all.push((Category::Slack, self.fragments));
        if let Some((_, buffers)) = all.iter_mut().find(|(category, _)| *category == Category::Buffers) {
            *buffers += self.communicators;
        }
        all.retain(|(_, bytes)| *bytes > 0.0);
        all
    }

    /// The largest category at the peak.
    pub fn dominating(&self) -> (Category, f64) {
        let categories = self.peak().1.categories();
        categories.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((Category::Parameters, 0.0))
    }

    /// The peak of the first step, whose forward and backward pass run before the optimizer has made its moments.
    pub fn allocated_in_first_step(&self) -> f64 {
        let of = |i: usize| {
            let m = &self.moments[i];
            if Moment::ALL[i] == Moment::Optimizer { m.total() } else { m.total() - m.optimizer }
        };
        (0..4).map(of).fold(0.0, f64::max)
    }
}

/// Micro-batches whose activations a stage holds at once.
fn in_flight(job: &Job, index: u64) -> f64 {
    let l = &job.layout;
    let steps = if l.chunks > 1 {
        let ahead = (l.pp - 1 - index) * 2 + (l.chunks - 1) * l.pp + 1;
        ahead as f64 / l.chunks as f64
    } else {
        (l.pp - index) as f64
    };
    steps.min(job.accumulate as f64)
}

fn stage_memory(shape: &Shape, job: &Job, index: u64) -> Memory {
    let stage = stage(shape, job, index);
    let tokens = (job.micro_batch * job.sequence) as f64 / job.layout.cp as f64;
    let layers = layer_bytes(shape, job, index, &stage);
    let held = held(job, &stage);
    let units = units(shape, job, &stage);
    let flight = in_flight(job, index);
    let activations = layers.kept.forward * tokens * flight;
    let dispatch = layers.kept.dispatch * tokens * flight;
    let logits = if stage.last { logits(shape, job, tokens) } else { 0.0 };
    let base = Bytes {
        parameters: held.parameters,
        master: held.master,
        gradients: held.early_gradients,
        optimizer: held.moments,
        gathered: units.forward,
        buffers: units.buffers,
        activations: activations - dispatch,
        dispatch,
        ..Bytes::default()
    };
    let loss = Bytes { logits, ..base };
    let again = layers.dispatch_again * tokens;
    let working = layers.working * tokens - again;
    let buffers = units.buffers + layers.exchanged * tokens;
    let begin = Bytes { working, dispatch: dispatch + again, gathered: units.backward, buffers, ..base };
    let end = Bytes {
        activations: layers.input * tokens,
        dispatch: again,
        working,
        gradients: held.gradients,
        gathered: units.backward,
        buffers,
        ..base
    };
    let optimizer = Bytes {
        parameters: held.parameters,
        master: held.master,
        gradients: held.sharded_gradients,
        optimizer: held.moments,
        temporaries: held.temporaries,
        ..Bytes::default()
    };
    let moments = [loss, begin, end, optimizer];
    let alone = Memory {
        moments,
        fragments: 0.0,
        idle: 0.0,
        communicators: communicators(job),
        stage: index,
        held: held.elements,
    };
    with_allocator(alone, job, &held, &units)
}

/// What the allocator holds beside the allocated peak.
///
/// Every stream has blocks of its own: sharded gradients and flat buffers live on the communication stream and stay
/// reserved when the peak on the compute stream comes. On that, logits and a layer's working set differ so much in the
/// size of their blocks that they use each other's only in part.
fn with_allocator(memory: Memory, job: &Job, held: &Held, units: &Units) -> Memory {
    if job.engine == Engine::Native {
        return memory;
    }
    let of = |m: &Bytes| {
        let exchanged = (m.buffers - units.buffers).max(0.0);
        m.temporaries + m.gathered + m.activations + m.working + m.logits + m.dispatch + exchanged
    };
    let compute = memory.moments.iter().map(of).fold(0.0, f64::max);
    let [loss, _, end, _] = &memory.moments;
    let apart = match job.recompute {
        Recompute::Full | Recompute::FullButProjection => {
            c::APART * loss.logits.min(end.working + end.dispatch)
        }
        _ => 0.0,
    };
    let alone = job.engine == Engine::Megatron || job.layout.devices() == 1;
    let gradients = match () {
        () if alone => 0.0,
        () if held.early_gradients > held.sharded_gradients => held.early_gradients + held.sharded_gradients,
        () => held.sharded_gradients,
    };
    let fragments = c::FRAGMENTATION * compute;
    let reserved = end.lasting() + gradients + units.buffers + compute + fragments + apart;
    Memory { fragments, idle: (reserved - memory.allocated() - fragments).max(0.0), ..memory }
}

/// What a device holds of the model between steps, and of gradients.
struct Held {
    elements: f64,
    parameters: f64,
    master: f64,
    moments: f64,
    /// While the forward pass of the last micro-batch runs.
    early_gradients: f64,
    /// At the end of the backward pass.
    gradients: f64,
    /// After the reduction.
    sharded_gradients: f64,
    temporaries: f64,
}

fn held(job: &Job, stage: &Stage) -> Held {
    let p = &job.precision;
    let [dense, experts] = stage.shards(&job.layout);
    let (whole, shard) = (stage.dense + stage.experts, dense + experts);
    // Muon keeps one moment of each matrix.
    let moments = match job.optimizer {
        Optimizer::Muon { .. } => 2.0 * shard - stage.muon_shards(&job.layout).iter().sum::<f64>(),
        _ => 2.0 * shard,
    };
    let here = |offloaded: bool| if offloaded { 0.0 } else { 1.0 };
    let (on_device, params) = (here(job.offload.optimizer), here(job.offload.params));
    let temporaries = match job.optimizer {
        Optimizer::Fused => 0.0,
        // Element-wise kernels work on one tensor's part of the shard at a time.
        Optimizer::PerTensor => p.moment * stage.tensor.min(shard),
        Optimizer::Foreach => p.moment * shard,
        // The update and the products of Newton–Schulz, in bf16, of the largest matrix.
        Optimizer::Muon { .. } => 2.0 * 4.0 * stage.matrix,
    };
    let megatron = job.engine == Engine::Megatron;
    let sharded = match job.engine {
        Engine::Megatron => p.reduce * whole,
        Engine::Native => p.reduce * shard * params,
        // FSDP2 turns what it has reduced into the type of the parameter.
        _ => p.stored * shard * params,
    };
    let unsharded = job.reduce_last && job.accumulate > 1 && (job.layout.fsdp > 1 || job.layout.tp > 1);
    let early = match () {
        () if megatron => sharded,
        () if unsharded => p.reduce * whole,
        () if job.accumulate > 1 => sharded,
        () => 0.0,
    };
    let elements = if megatron { whole } else { shard };
    Held {
        elements,
        parameters: p.stored * params * elements,
        master: p.master * shard * on_device,
        moments: p.moment * moments * on_device,
        early_gradients: early,
        gradients: if unsharded && !megatron { early.max(sharded) } else { sharded },
        sharded_gradients: sharded,
        temporaries: temporaries * on_device,
    }
}

/// Bytes of gathered units and of the buffers they travel in.
struct Units {
    forward: f64,
    backward: f64,
    buffers: f64,
}

fn units(shape: &Shape, job: &Job, stage: &Stage) -> Units {
    if job.engine == Engine::Megatron || job.layout.replicate == job.layout.devices() {
        return Units { forward: 0.0, backward: 0.0, buffers: 0.0 };
    }
    let p = &job.precision;
    let table = shape.vocab * shape.hidden / job.layout.tp as f64;
    // Experts that nobody shards further are not gathered.
    let whole = job.layout.ep > 1 && job.layout.ep_fsdp == 1;
    let layer = if whole { stage.unit.dense } else { stage.unit.all() };
    let largest = if stage.first || stage.last { layer.max(table) } else { layer };
    let ends = if stage.last { table } else { 0.0 };
    let ahead = (job.prefetch as f64).min(stage.layers);
    if !job.reshard {
        let all = (stage.dense + stage.experts) * p.compute;
        return Units { forward: all, backward: all + layer * p.compute, buffers: largest * p.compute };
    }
    Units {
        // The head and what is gathered ahead: the layers before it, which the backward pass needs first.
        forward: (ends + ahead * layer) * p.compute,
        // A layer, those prefetched, and the gradient of one.
        backward: (2.0 + ahead) * layer * p.compute,
        // The flat result of an all-gather, and the flat input of a reduce-scatter.
        buffers: largest * p.compute + layer * p.reduce,
    }
}

/// Sums over the layers of a stage, and the largest of one layer, in bytes a token.
#[derive(Default)]
struct LayerBytes {
    kept: Kept,
    working: f64,
    /// Of `working`: tokens on their way to experts and back.
    dispatch_again: f64,
    exchanged: f64,
    input: f64,
}

fn layer_bytes(shape: &Shape, job: &Job, index: u64, stage: &Stage) -> LayerBytes {
    let mut sum = LayerBytes::default();
    let input = input_only(shape.hidden, job);
    let recomputed = match job.recompute {
        Recompute::Layers(n) => n as f64,
        _ => 0.0,
    };
    let mut add = |layer: &LayerShape, count: f64| {
        let one = kept(layer, shape.hidden, job);
        let share = (recomputed / stage.layers).min(1.0);
        sum.kept.forward += (one.forward * (1.0 - share) + input * share) * count;
        sum.kept.dispatch += one.dispatch * (1.0 - share) * count;
        let working = if share == 1.0 { one.backward + one.forward } else { one.backward };
        if working > sum.working {
            let dispatched = if share == 1.0 { one.dispatch } else { 0.0 };
            (sum.working, sum.dispatch_again) = (working, one.dispatch_again + dispatched);
        }
        sum.exchanged = sum.exchanged.max(one.exchanged);
        sum.input = input;
    };
    layers_of(shape, &job.layout, index).for_each(|run| add(&run.layer, run.count as f64));
    if stage.last {
        shape.mtp.iter().for_each(|layer| add(layer, 1.0));
    }
    sum
}

/// Logits of the last stage, with what the loss makes of them.
fn logits(shape: &Shape, job: &Job, tokens: f64) -> f64 {
    let split = if job.layout.loss_parallel { job.layout.tp as f64 } else { 1.0 };
    let each = match (job.engine, job.cross_entropy) {
        (Engine::Megatron, _) => c::LOGIT_MEGATRON,
        (_, CrossEntropy::Fused) => c::LOGIT_COMPILED,
        (_, CrossEntropy::Half) => c::LOGIT_HALF,
        (_, CrossEntropy::Eager) => c::LOGIT_EAGER,
    };
    // Gathered from a head that is split, with this rank's own part beside them.
    let own = if split < job.layout.tp as f64 { job.precision.compute / job.layout.tp as f64 } else { 0.0 };
    let each = each + own;
    let heads = 1.0 + shape.mtp.len() as f64;
    let all = tokens * shape.vocab / split * each;
    match job.loss {
        Loss::Plain => all * heads,
        // The chunk's logits, the gradient of the hidden states, and of the head's weight in fp32.
        Loss::Chunks(n) => {
            let head = shape.vocab * shape.hidden / job.layout.tp as f64 * job.precision.reduce;
            all / n as f64 + tokens * shape.hidden * job.precision.compute + head
        }
    }
}

/// Buffers of the collective library, two of 200 MB for every communicator.
fn communicators(job: &Job) -> f64 {
    let l = &job.layout;
    let groups = [l.replicate, l.fsdp, l.ep, l.tp, l.cp, l.pp].iter().filter(|&&size| size > 1).count();
    2.0 * 200e6 * groups as f64
}

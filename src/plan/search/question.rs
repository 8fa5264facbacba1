//! A recipe in the terms of the estimate: shape, machine and job.

use super::fields::Candidate;
use crate::base::DType;
use crate::model::Model;
use crate::plan::estimate::{
    self, CrossEntropy, Engine, Job, Layout, Loss, Machine, Memory, Offload, Optimizer, Precision, Shape,
    Time,
};
use crate::plan::lower::chunk_rows;
use crate::recipe::{self, DeviceKind, Recipe};

/// Seconds to enqueue a kernel from our own runtime: a call into the driver, with no Python before it.
const LAUNCH_NATIVE: f64 = 5e-6;

/// Everything that stays the same over all layouts.
pub struct Question {
    pub engine: Engine,
    pub shape: Shape,
    pub machine: Machine,
    /// The recipe's own layout: what the search does not change of it is that of all.
    layout: Layout,
    /// Ranks that hold a dense parameter, over the copies of it: `fsdp` × `replicate`.
    dense: u64,
    global_batch: u64,
    sequence: u64,
    precision: Precision,
    /// Rows of logits at a time; 0: all of them.
    chunk: u64,
    reshard: bool,
    optimizer: Optimizer,
    offload: bool,
    imbalance: f64,
}

impl Question {
    /// What is asked about `recipe` on `engine`.
    pub fn new(recipe: &Recipe, model: &Model, engine: Engine) -> Question {
        let p = &recipe.parallel.precision;
        let bytes = |dtype: DType| dtype.size() as f64;
        let (parallel, native) = (&recipe.parallel, engine == Engine::Native);
        let dense = parallel.stage_ranks(&recipe.cluster) / parallel.tp;
        Question {
            engine,
            shape: Shape::of(model),
            machine: machine(recipe, engine),
            layout: Layout {
                replicate: dense / parallel.fsdp,
                fsdp: parallel.fsdp,
                ep: parallel.ep,
                ep_fsdp: parallel.ep_fsdp,
                tp: parallel.tp,
                cp: parallel.cp,
                pp: parallel.pp,
                chunks: 1,
                last_layers: None,
                sequence_parallel: parallel.tp > 1,
                loss_parallel: false,
            },
            dense,
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
            chunk: if native { chunk_rows(model.vocab) } else { recipe.train.loss_chunk.unwrap_or(0) },
            reshard: parallel.reshard_after_forward,
            optimizer: match recipe.train.optimizer {
                recipe::Optimizer::AdamW(_) if native => Optimizer::Fused,
                recipe::Optimizer::AdamW(_) => Optimizer::PerTensor,
                recipe::Optimizer::Muon(_) => Optimizer::Muon,
            },
            offload: parallel.offload != recipe::Offload::None,
            imbalance: parallel.ep_imbalance.unwrap_or(1.0),
        }
    }

    /// The job that `c` is.
    pub fn job(&self, c: &Candidate) -> Job {
        let native = self.engine == Engine::Native;
        let Candidate { fsdp, ep, ep_fsdp, .. } = *c;
        let layout = Layout { replicate: self.dense / fsdp, fsdp, ep, ep_fsdp, ..self.layout };
        Job {
            engine: self.engine,
            layout,
            micro_batch: c.micro_batch,
            accumulate: self.global_batch / (c.micro_batch * layout.data()),
            sequence: self.sequence,
            recompute: match c.recompute {
                recipe::Recompute::None => estimate::Recompute::None,
                recipe::Recompute::Selective => estimate::Recompute::Selective,
                recipe::Recompute::Full => estimate::Recompute::Full,
            },
            loss: match self.chunk {
                0 => Loss::Plain,
                rows => Loss::Chunks((c.micro_batch * self.sequence).div_ceil(rows)),
            },
            optimizer: self.optimizer,
            precision: self.precision,
            offload: Offload { optimizer: self.offload, activations: false },
            cross_entropy: if native { CrossEntropy::Fused } else { CrossEntropy::Eager },
            compile: native,
            reshard: self.reshard,
            reduce_last: false,
            imbalance: if ep > 1 { self.imbalance } else { 1.0 },
        }
    }

    /// The memory of the layout `c` by the estimate.
    pub fn memory(&self, c: &Candidate) -> Memory {
        Memory::of(&self.shape, &self.job(c))
    }

    /// The time of a step with the layout `c`.
    pub fn time(&self, c: &Candidate) -> Time {
        let job = self.job(c);
        let mut time = Time::of(&self.shape, &job, &self.machine);
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

fn machine(recipe: &Recipe, engine: Engine) -> Machine {
    let device = &recipe.cluster.device;
    let mut machine = Machine::of(&recipe.cluster);
    if recipe.parallel.precision.params == DType::F32 {
        machine.flops = device.flops_f32;
    }
    if engine == Engine::Native && device.kind != DeviceKind::Cpu {
        machine.reached.launch = LAUNCH_NATIVE;
    }
    machine
}

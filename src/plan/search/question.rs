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
            shape: Shape::of(model),
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

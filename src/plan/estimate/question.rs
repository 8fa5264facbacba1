//! A recipe in the terms of the estimate: the one place where fields of the language become a shape, a machine and a job.

use super::job::{
    Context, CrossEntropy, Engine, Job, Layout, Loss, Offload, Optimizer, Precision, Recompute,
};
use super::{Estimate, Machine, Shape};
use crate::base::DType;
use crate::model::Model;
use crate::plan::lower::chunk_rows;
use crate::recipe::{self, CpKind, DeviceKind, Parallel, Recipe};

/// Seconds to enqueue a kernel from our own runtime: a call into the driver, with no Python before it.
const LAUNCH_NATIVE: f64 = 5e-6;

/// A recipe on an engine. What a layout changes of it is given to [`Question::job`]; everything else stays the same.
pub struct Question {
    pub engine: Engine,
    pub shape: Shape,
    pub machine: Machine,
    /// The recipe's own division of the work.
    pub parallel: Parallel,
    /// The recipe's own micro batch, sequences.
    pub micro_batch: u64,
    devices: u64,
    global_batch: u64,
    sequence: u64,
    /// Rows of logits at a time; `None`: all of them.
    chunk: Option<u64>,
    optimizer: Optimizer,
}

impl Question {
    /// What is asked about `recipe` on `engine`.
    pub fn new(recipe: &Recipe, model: &Model, engine: Engine) -> Question {
        let native = engine == Engine::Native;
        let train = &recipe.train;
        Question {
            engine,
            shape: Shape::of(model),
            machine: machine(recipe, engine),
            parallel: recipe.parallel.clone(),
            micro_batch: train.micro_batch,
            devices: recipe.cluster.devices(),
            global_batch: train.global_batch,
            sequence: recipe.data.sequence,
            // Only our own program chooses for itself how many rows it takes at a time.
            chunk: train.loss_chunk.or_else(|| native.then(|| chunk_rows(recipe))),
            optimizer: match &train.optimizer {
                recipe::Optimizer::AdamW(_) if native => Optimizer::Fused,
                recipe::Optimizer::AdamW(_) => Optimizer::PerTensor,
                recipe::Optimizer::Muon(muon) => Optimizer::Muon { iterations: muon.iterations },
            },
        }
    }

    /// The recipe's own job.
    pub fn own(&self) -> Job {
        self.job(&self.parallel, self.micro_batch)
    }

    /// The job with the work divided as in `parallel`, `micro_batch` sequences at a time.
    pub fn job(&self, parallel: &Parallel, micro_batch: u64) -> Job {
        let native = self.engine == Engine::Native;
        let layout = layout(self.engine, parallel, self.devices);
        let tokens = micro_batch * self.sequence / layout.cp;
        Job {
            engine: self.engine,
            layout,
            micro_batch,
            accumulate: self.global_batch / (micro_batch * layout.data()),
            sequence: self.sequence,
            recompute: match parallel.recompute {
                recipe::Recompute::None => Recompute::None,
                recipe::Recompute::Selective => Recompute::Selective,
                recipe::Recompute::Full => Recompute::Full,
            },
            loss: self.chunk.map_or(Loss::Plain, |rows| Loss::Chunks(tokens.div_ceil(rows))),
            optimizer: self.optimizer,
            precision: precision(self.engine, parallel),
            offload: Offload {
                optimizer: parallel.offload != recipe::Offload::None,
                params: parallel.offload == recipe::Offload::Params,
                activations: false,
            },
            cross_entropy: if native { CrossEntropy::Fused } else { CrossEntropy::Eager },
            compile: native,
            reshard: parallel.reshard_after_forward,
            reduce_last: false,
            prefetch: parallel.prefetch,
            imbalance: 1.0,
        }
    }

    /// Memory and time of `job`.
    pub fn estimate(&self, job: &Job) -> Estimate {
        Estimate::of(&self.shape, job, &self.machine)
    }
}

/// The axes of `parallel` over `devices`. As the language has it, experts lie whole on all ranks of a stage, and between
/// attention and feed-forward the ranks of `tp` split the sequence.
fn layout(engine: Engine, parallel: &Parallel, devices: u64) -> Layout {
    let Parallel { fsdp, ep, ep_fsdp, tp, cp, pp, .. } = *parallel;
    Layout {
        replicate: devices / (pp * tp) / fsdp,
        fsdp,
        ep,
        ep_fsdp,
        tp,
        cp,
        pp,
        context: match parallel.cp_kind {
            CpKind::Ulysses => Context::Ulysses,
            CpKind::Ring => Context::Ring,
        },
        chunks: 1,
        last_layers: None,
        sequence_parallel: tp > 1,
        // Models of Hugging Face return whole logits.
        loss_parallel: tp > 1 && engine != Engine::MindspeedFsdp2,
        whole_experts: true,
    }
}

/// What is kept in which type. FSDP2 updates the very parameters that it gathers; Megatron, and our own program where the
/// master weights wait in the host, have the parameters in the type of products and master weights beside them.
fn precision(engine: Engine, parallel: &Parallel) -> Precision {
    let p = &parallel.precision;
    let bytes = |dtype: DType| dtype.size() as f64;
    let offloaded = engine == Engine::Native && parallel.offload != recipe::Offload::None;
    let apart = (engine == Engine::Megatron || offloaded) && p.params != p.optimizer;
    Precision {
        stored: bytes(if apart { p.params } else { p.optimizer }),
        compute: bytes(p.params),
        reduce: bytes(p.reduce),
        moment: bytes(p.optimizer),
        master: if apart { bytes(p.optimizer) } else { 0.0 },
        eight_bit: false,
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

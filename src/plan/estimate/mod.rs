//! Estimates of memory and time for any engine, from a few numbers of the model.
//!
//! Input: a [`Shape`] (of the meta model, or written down from a paper), a [`Job`] and a [`Machine`], all plain data.
//! Output: an [`Estimate`] with every category of memory at every moment that can be the peak, and a step's time by what
//! it waits for. It does not walk a program: what eager autograd keeps, what an optimizer's kernels and the caching
//! allocator need beside it, and how communication overlaps follow from rules for each engine, checked against published
//! measurements (`docs/accuracy.md`).
//!
//! A search builds the shape and the machine once and asks for thousands of jobs. One estimate allocates nothing and
//! visits the runs of equal layers of every pipeline stage once: its cost does not depend on devices.

mod coefficients;
mod job;
mod kept;
mod machine;
mod memory;
mod meta;
mod muon;
mod question;
mod shape;
mod stage;
#[cfg(test)]
mod tests;
mod time;
mod traffic;

pub use job::{Context, CrossEntropy, Engine, Job, Layout, Loss, Offload, Optimizer, Precision, Recompute};
pub use machine::{LAUNCH_GPU, LAUNCH_NPU, Link, Machine, Reached};
pub use memory::{Bytes, Memory, Moment};
pub use question::Question;
pub use shape::{AttentionShape, FfnShape, LayerShape, Run, Shape};
pub use time::{Bound, Time};

/// Published measurements that estimates are held against, in `docs/accuracy.md`.
pub const MEASURED: usize = 116;

/// What a job needs of the fullest device, and how long a step takes.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Estimate {
    pub memory: Memory,
    pub time: Time,
}

impl Estimate {
    /// Estimates one job.
    pub fn of(shape: &Shape, job: &Job, machine: &Machine) -> Estimate {
        Estimate { memory: Memory::of(shape, job), time: Time::of(shape, job, machine) }
    }
}

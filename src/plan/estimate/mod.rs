//! Estimates of memory and time for any engine, from a few numbers of the model.
//!
//! Input: a [`Shape`] (from the meta model or from a paper), a [`Job`] and a [`Machine`], all plain data. Output: a
//! [`Memory`] with every category at every moment that can be the peak. Nothing here walks a program or allocates: a search calls it for thousands of layouts.

mod coefficients;
mod job;
mod kept;
mod machine;
mod memory;
mod shape;
mod stage;
mod time;
mod traffic;

pub use job::{CrossEntropy, Engine, Job, Layout, Loss, Offload, Optimizer, Precision, Recompute};
pub use machine::{Link, Machine, Reached};
pub use self::memory::{Bytes, Memory, Moment};
pub use self::time::{Bound, Time};
pub use shape::{AttentionShape, FfnShape, LayerShape, Run, Shape};

/// Memory of the fullest device of `job`.
pub fn memory(shape: &Shape, job: &Job) -> Memory {
    memory::memory(shape, job)
}

/// The time of a step of `job` on `machine`.
pub fn time(shape: &Shape, job: &Job, machine: &Machine) -> Time {
    time::time(shape, job, machine)
}

//! Runs a plan: ranks walk the program over a device and talk through collectives.
//!
//! Input: a verified [`Plan`](crate::plan::Plan), a [`Feed`] of token sequences and, unless it is trained from
//! scratch, a folder of weights. Output: a report for every step, trained parameters, and the peak of memory that was
//! really used. Everything a rank needs is allocated before the first step; a step allocates nothing.

mod ascend;
mod blame;
mod cpu;
mod device;
mod fill;
mod init;
mod job;
mod peers;
mod rank;
mod rope;
mod schedule;
mod snapshot;

pub use ascend::{Ascend, Npus};
pub use cpu::Cpu;
pub use device::{Device, Fill, Scalars};
pub use job::{Checkpoints, Feed, Job, Loaded, Outcome, StepReport, forward, load};
pub use rank::{Rank, Start};
pub use schedule::learning_rate;
pub use snapshot::{Kind, Snapshot};

//! Collectives between the ranks of a job: all-gather, reduce-scatter, all-reduce, broadcast, barrier and the
//! all-to-all of expert parallelism.
//!
//! [`Communicator`] is what a rank sees. [`local()`] implements it for ranks that are threads of one process.
//! Reductions add in rank order, so a result depends neither on timing nor on the machine. A collective never
//! allocates and never hangs: a mismatch, a rank that fails and a rank that stays silent are errors on every
//! rank.

mod communicator;
mod error;
mod local;
mod rendezvous;
mod routing;
#[cfg(test)]
mod tests;

pub use communicator::{Communicator, Group};
pub use error::{Call, CommError, Op};
pub use local::{LocalComm, local, local_with_limit};
pub use routing::Routing;

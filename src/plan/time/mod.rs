//! How long a step takes: a roofline per instruction, two streams, the dependencies that the buffers imply.
//!
//! In: a program, its mesh and the figures of the cluster. Out: a [`Schedule`], the start and end of every instruction, and
//! [`Time`], what a user asks for: step time, model FLOP/s utilization, and what the step waits for.
//!
//! | file | what it answers |
//! | --- | --- |
//! | `work` | FLOPs and bytes of an instruction |
//! | `link` | how long a collective is on its way |
//! | `cost` | seconds of an instruction and what bounds it |
//! | `schedule` | when it starts |
//! | `summary` | the step as a whole |

mod cost;
mod link;
mod schedule;
mod summary;
mod work;

pub use cost::{Bound, Cost};
pub use schedule::{Schedule, Span};
pub use summary::Time;
pub use work::Work;

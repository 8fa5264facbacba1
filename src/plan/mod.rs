//! The plan: what every rank holds, and the program that all of them run.
//!
//! Input: a typed recipe and its model on the meta device. Output: a [`Plan`], plain data that can be written to a
//! file, looked at, and run. The program is one flat list of instructions (forward, backward, collectives,
//! optimizer) over named buffers whose places in memory are fixed here; what a device does at run time is to walk it.
//! Nothing in this layer touches a tensor's data or knows a kernel.

mod arena;
mod compile;
mod demands;
pub mod estimate;
mod file;
mod fit;
mod forecast;
mod lower;
mod memory;
mod mesh;
mod meta;
mod ops;
mod placement;
mod program;
pub mod rules;
pub mod search;
mod shapes;
mod state;
mod time;
mod traffic;
mod verify;
mod workspace;

pub use compile::{Plan, Task, compile};
pub use demands::{Demand, of as demands};
pub use file::{read, write};
pub use fit::{Basis, Remedy, remedies};
pub use forecast::Forecast;
pub use memory::{Category, Memory, Term, Timeline, terms};
pub use mesh::{Axis, Mesh};
pub use meta::{Savings, WithoutEp};
pub use ops::{Access, Accumulate, Heads, Op, Stream, Sum};
pub use placement::{Piece, Placed, Placement, Unit, UnitId};
pub use program::{Buffer, BufferId, Program, Rope, Routed, Rows, SlotId, View};
pub use state::{Contents, Role, Slice, within};
pub use time::{Bound, Cost, Schedule, Span, Time, Work};
pub use traffic::Traffic;
pub use verify::verify;
pub use workspace::widened;

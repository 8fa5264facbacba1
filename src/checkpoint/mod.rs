//! Checkpoints of a run: written while training goes on, complete or not there, read by any layout.
//!
//! A checkpoint is a folder `step-000200/` with a safetensors file of every rank and a manifest. A rank's file holds the
//! parts of parameters and moments that the placement gives it to write ([`Plan::saved`](crate::plan::Plan::saved)); the
//! manifest says by which mesh and placement, so that a rank of any other layout knows from arithmetic alone which files hold
//! the elements it needs. Nothing is negotiated and nothing is gathered.
//!
//! [`Saver`] takes what the ranks hand over behind a step, [`Checkpoint`] reads it back, [`compare()`] tells what has
//! changed in between, and [`export()`] turns it into a Hugging Face folder.

mod compare;
mod desk;
mod export;
mod home;
mod manifest;
mod read;
mod save;
mod shard;

pub use compare::compare;
pub use export::{Elements, Export, Exported, Target, export};
pub use home::{Home, Listed, list, newest};
pub use manifest::{Facts, Manifest, Position, VERSION, fingerprint};
pub use read::Checkpoint;
pub use save::{Saved, Saver};

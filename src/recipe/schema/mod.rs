//! What a recipe may hold, as data: every block with its fields, their types, units, defaults, bounds and documentation.
//!
//! Nothing here is written by hand twice: the files of this folder declare each block once through the macros of
//! `declare`, which produce the Rust type, its checked extraction and the `BlockSchema` below.
//! Completion, hover, the reference manual and the JSON schema read only these tables.

pub mod data;
pub mod machine;
pub mod model;
pub mod names;
pub mod parallel;
pub mod recipe;
pub mod train;
mod types;
mod walk;

pub use types::{
    BlockSchema, Bound, ChoiceSchema, ChoiceWord, Doc, Facts, FieldSchema, Title, Type, WordSchema,
};
pub use walk::{Place, path_of, places};

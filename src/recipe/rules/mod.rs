//! What must hold between values: rules over a whole recipe, each with the places of the values involved.
//!
//! What concerns a single value stands with its declaration, as bounds. A file here holds the rules of one area.

mod all;
mod data;
pub mod divide;
mod effect;
mod keeping;
pub mod machine;
mod model;
mod parallel;
pub mod paths;
pub mod require;
mod routing;
mod size;
mod stages;
mod tensor;
mod train;
pub mod unused;

pub use all::{check, divides};

//! What must hold between values: rules over a whole recipe, each with the places of the values involved.
//!
//! What concerns a single value stands with its declaration, as bounds. A file here holds the rules of one area.

pub mod divide;
pub mod machine;
pub mod model;
pub mod parallel;
pub mod require;
pub mod train;
pub mod unused;

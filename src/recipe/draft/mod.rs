//! Recipes to begin with: from a model of the library, or from one that the file holds itself.
//!
//! Out: the commented text of a recipe. How many devices it takes is decided by whoever can plan it.

mod models;
mod text;

pub use models::{LibraryModel, models};
pub use text::{Draft, Source};

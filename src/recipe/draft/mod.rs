//! Recipes to begin with: from a model of the library, or from the `config.json` of a Hugging Face folder.
//!
//! Out: the commented text of a recipe. How many devices it takes is decided by whoever can plan it.

mod config;
mod families;
mod keys;
mod models;
mod text;

pub use config::from_config;
pub use models::{LibraryModel, models};
pub use text::Draft;

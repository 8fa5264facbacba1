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

use crate::recipe::Model;

/// A recipe before its machine is known.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// The name of the recipe.
    pub name: String,
    /// What it was made from, for the head of the file.
    pub about: String,
    /// The model of the library that it begins with.
    pub base: LibraryModel,
    /// What is changed in the model, line by line.
    pub overrides: Vec<String>,
    /// A Hugging Face folder, as the recipe will name it.
    pub weights: Option<String>,
    /// The folder holds a tokenizer as well.
    pub tokenizer: bool,
}

impl Draft {
    /// A recipe that trains a model of the library as it is.
    pub fn of(name: &str, base: LibraryModel) -> Self {
        Draft {
            name: name.to_owned(),
            about: base.about.to_owned(),
            base,
            overrides: Vec::new(),
            weights: None,
            tokenizer: false,
        }
    }

    /// The least recipe with this model, from which its architecture can be resolved.
    pub fn sketch(&self) -> String {
        text::sketch(self)
    }

    /// The whole recipe for `nodes` nodes of a cluster with `devices` devices each; `model` is its resolved architecture.
    pub fn text(&self, model: &Model, nodes: u64, devices: u64) -> String {
        text::recipe(self, model, nodes, devices)
    }
}

/// The cluster that drafts are written for; it stands in the library.
const CLUSTER: &str = "atlas_a3";

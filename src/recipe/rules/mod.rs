//! What must hold between values: rules over a whole recipe, each with the places of the values involved.
//!
//! What concerns a single value stands with its declaration, as bounds. A file here holds the rules of one area.

mod data;
mod divide;
mod effect;
mod keeping;
pub mod machine;
mod model;
mod parallel;
pub mod paths;
pub mod require;
mod routing;
mod stages;
mod tensor;
mod train;
pub mod unused;

use super::origins::Origins;
use super::schema::recipe::Recipe;
use crate::diag::Sink;

/// Holds `recipe` against the rules of every area.
pub fn check(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    model::check(recipe, origins, sink);
    routing::check(recipe, origins, sink);
    let tiled = parallel::check(recipe, origins, sink);
    keeping::check(recipe, origins, sink);
    data::check(recipe, origins, sink);
    train::check(recipe, origins, sink);
    effect::check(recipe, origins, sink);
    if tiled {
        tensor::check(recipe, origins, sink);
        stages::check(recipe, origins, sink);
        train::batch(recipe, origins, sink);
    }
}

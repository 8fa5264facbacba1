//! All rules, in an order in which none builds on what another has reported.

use super::{data, effect, keeping, model, parallel, routing, size, stages, tensor, train};
use crate::diag::Sink;
use crate::recipe::origins::Origins;
use crate::recipe::schema::recipe::Recipe;

/// Whether all comes out whole that tensor, context and pipeline parallelism divide: what a search asks about many recipes.
pub fn divides(recipe: &Recipe) -> bool {
    let (origins, mut sink) = (Origins::default(), Sink::default());
    tensor::check(recipe, &origins, &mut sink);
    stages::check(recipe, &origins, &mut sink);
    !sink.has_errors()
}

/// Holds `recipe` against the rules of every area.
pub fn check(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    size::check(recipe, origins, sink);
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

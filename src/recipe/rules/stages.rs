//! Rules on pipeline stages.

use super::divide::{divisors, some};
use crate::diag::{Diagnostic, Sink};
use crate::recipe::origins::Origins;
use crate::recipe::schema::recipe::Recipe;

/// Holds `recipe` against the rules on stages.
pub fn check(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    if recipe.parallel.pp > 1 {
        layers(recipe, origins, sink);
        tied(recipe, origins, sink);
        bubble(recipe, origins, sink);
    }
}

/// Every stage has the same number of layers.
fn layers(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    let (pp, layers) = (recipe.parallel.pp, recipe.model.layers);
    if layers.is_multiple_of(pp) {
        return;
    }
    let message = format!("`pp` = {pp} does not divide the {layers} layers of `{}`", recipe.model.name);
    let problem = Diagnostic::error("step::parallel::pp_layers", message)
        .label(origins.nearest("parallel.pp"), format!("{pp} stages"))
        .label(origins.span("model.layers"), format!("{layers} layers"));
    sink.push(problem.help(format!("`pp` can be {}", some(&divisors(layers)))));
}

/// The embedding is on the first stage, the head on the last: they cannot be one tensor.
fn tied(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    if !recipe.model.tie_embeddings {
        return;
    }
    let message = "embedding and head are one tensor, but lie on the first and on the last stage";
    let problem = Diagnostic::error("step::parallel::pp_tied", message)
        .label(origins.nearest("parallel.pp"), format!("{} stages", recipe.parallel.pp))
        .label(origins.span("model.tie_embeddings"), "tied here");
    sink.push(problem.help("write `pp = 1`, or `tie_embeddings = false`"));
}

/// Stages wait for one another while the pipeline fills and empties.
fn bubble(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    let (pp, train) = (recipe.parallel.pp, &recipe.train);
    let step = recipe.parallel.data_ranks(&recipe.cluster).saturating_mul(train.micro_batch);
    let micro_batches = train.global_batch / step.max(1);
    if micro_batches >= pp || micro_batches == 0 {
        return;
    }
    let idle = 100.0 * (pp - 1) as f64 / (micro_batches + pp - 1) as f64;
    let batches =
        if micro_batches == 1 { "1 micro batch" } else { &format!("{micro_batches} micro batches") };
    let message = format!("with {batches} a step, {pp} stages are idle {idle:.0} % of the time");
    let problem = Diagnostic::warning("step::parallel::pp_bubble", message)
        .label(origins.nearest("parallel.pp"), format!("{pp} stages"))
        .label(origins.span("train.global_batch"), format!("{} sequences a step", train.global_batch))
        .label(origins.span("train.micro_batch"), format!("{} at a time", train.micro_batch));
    let wanted = step.saturating_mul(4 * pp);
    sink.push(
        problem
            .help(format!("`global_batch = {wanted}` gives 4 micro batches a stage, or take fewer stages")),
    );
}

//! Rules on batches, learning rates and checkpoints.

use super::divide::{either, nearest_multiples};
use crate::diag::{Diagnostic, Sink};
use crate::recipe::origins::Origins;
use crate::recipe::schema::recipe::Recipe;
use crate::recipe::schema::train::{Optimizer, Schedule};

/// Holds `recipe` against the rules on batches, learning rates and checkpoints.
pub fn check(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    batch(recipe, origins, sink);
    schedule(recipe, origins, sink);
    checkpoint(recipe, origins, sink);
}

/// Every device computes the same number of whole micro batches.
fn batch(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    let (global, micro) = (recipe.train.global_batch, recipe.train.micro_batch);
    let devices = recipe.cluster.devices();
    let Some(step) = devices.checked_mul(micro) else {
        let message = format!("{devices} devices × `micro_batch` = {micro} is too large a number");
        let problem = Diagnostic::error("step::train::global_batch", message);
        sink.push(problem.label(origins.nearest("train.micro_batch"), "sequences a device"));
        return;
    };
    if global.is_multiple_of(step) {
        return;
    }
    let message =
        format!("`global_batch` = {global} is not a multiple of {devices} devices × {micro} sequences");
    let mut problem = Diagnostic::error("step::train::global_batch", message)
        .label(origins.nearest("train.global_batch"), format!("{global} sequences a step"));
    problem = problem
        .label(origins.span("train.micro_batch"), format!("{micro} a device at a time"))
        .label(origins.nearest("cluster.nodes"), format!("{devices} devices"));
    let fits = nearest_multiples(step, global);
    sink.push(problem.help(format!("nearest multiples of {step}: {}", either(&fits))));
}

/// The learning rate comes up before the end and goes down, not up.
fn schedule(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    let Optimizer::AdamW(optimizer) = &recipe.train.optimizer;
    let (warmup, floor) = match &recipe.train.schedule {
        Schedule::Constant(constant) => (constant.warmup, None),
        Schedule::Cosine(cosine) => (cosine.warmup, Some(cosine.min_lr)),
    };
    let steps = recipe.train.steps;
    if warmup >= steps {
        let message = format!("`warmup` = {warmup} leaves nothing of {steps} steps");
        let problem = Diagnostic::error("step::train::warmup", message)
            .label(origins.nearest("train.schedule.warmup"), format!("{warmup} steps"))
            .label(origins.span("train.steps"), format!("{steps} steps in all"));
        sink.push(problem.help(format!("write less than {steps}")));
    }
    if let Some(min_lr) = floor.filter(|min_lr| *min_lr > optimizer.lr) {
        let message = format!("`min_lr` = {min_lr:e} is over `lr` = {:e}", optimizer.lr);
        let problem = Diagnostic::error("step::train::min_lr", message)
            .label(origins.nearest("train.schedule.min_lr"), "where the rate ends")
            .label(origins.span("train.optimizer.lr"), "where it starts");
        sink.push(problem.help(format!("write at most {:e}", optimizer.lr)));
    }
}

fn checkpoint(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    let Some(checkpoint) = &recipe.checkpoint else { return };
    let (every, steps) = (checkpoint.every, recipe.train.steps);
    if every > steps {
        let message = format!("`every` = {every} is more than the {steps} steps: only the end is kept");
        let problem = Diagnostic::warning("step::train::checkpoint_every", message)
            .label(origins.nearest("checkpoint.every"), format!("every {every} steps"))
            .label(origins.span("train.steps"), format!("{steps} steps in all"));
        sink.push(problem.help(format!("write at most {steps}")));
    }
}

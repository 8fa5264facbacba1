//! Rules on batches, learning rates and checkpoints.

use super::divide::{divisors, either, nearest_multiples};
use super::parallel::product;
use crate::diag::{Diagnostic, Sink};
use crate::recipe::origins::Origins;
use crate::recipe::schema::recipe::Recipe;
use crate::recipe::schema::train::{Optimizer, Schedule};

/// Holds `recipe` against the rules on learning rates and checkpoints.
pub fn check(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    rate(recipe, origins, sink);
    schedule(recipe, origins, sink);
    checkpoint(recipe, origins, sink);
}

/// Every rank of data computes the same number of whole micro batches.
pub fn batch(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    let (global, micro) = (recipe.train.global_batch, recipe.train.micro_batch);
    let (devices, ranks) = (recipe.cluster.devices(), recipe.parallel.data_ranks(&recipe.cluster));
    let step = ranks.saturating_mul(micro);
    if global.is_multiple_of(step) {
        return;
    }
    let ranks_are = match ranks == devices {
        true => format!("{devices} devices"),
        false => format!("{ranks} ranks of data"),
    };
    let message = format!("`global_batch` = {global} is not a multiple of {ranks_are} × {micro} sequences");
    let mut problem = Diagnostic::error("step::train::global_batch", message)
        .label(origins.nearest("train.global_batch"), format!("{global} sequences a step"))
        .label(origins.span("train.micro_batch"), format!("{micro} a device at a time"));
    if ranks != devices {
        let keys = ["tp", "cp", "pp"];
        let others = product(recipe, &keys);
        let place = keys.iter().find_map(|key| origins.span(&format!("parallel.{key}")));
        problem = problem.label(place, format!("{devices} devices over {others}"));
    }
    problem = problem.label(origins.nearest("cluster.nodes"), format!("{devices} devices"));
    let fits = nearest_multiples(step, global);
    let mut help = format!("nearest multiples of {step}: {}", either(&fits));
    if micro > 1 && global.is_multiple_of(ranks) {
        let each = global / ranks;
        let best = divisors(each).into_iter().rev().find(|size| *size <= micro).unwrap_or(1);
        help = format!("{help}; or `micro_batch = {best}`");
    } else if global < ranks {
        help = format!("{help}; {} ranks would have nothing to do", ranks - global);
    }
    sink.push(problem.help(help));
}

/// AdamW divides the gradient by its size: a rate is the step of a weight, and weights are small.
fn rate(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    const LARGE: f64 = 0.1;
    let lr = recipe.train.optimizer.adamw().lr;
    if lr < LARGE {
        return;
    }
    let path = match recipe.train.optimizer {
        Optimizer::AdamW(_) => "train.optimizer.lr",
        Optimizer::Muon(_) => "train.optimizer.adamw.lr",
    };
    let message = format!("every step would move a weight by about {lr}");
    let problem =
        Diagnostic::warning("step::train::lr", message).label(origins.nearest(path), "AdamW's step");
    sink.push(problem.help("rates of AdamW are mostly from 1e-6 to 1e-2"));
}

/// The learning rate comes up before the end and goes down, not up.
fn schedule(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    let peak = recipe.train.optimizer.lr();
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
    if let Some(min_lr) = floor.filter(|min_lr| *min_lr > peak) {
        let message = format!("`min_lr` = {min_lr:e} is over `lr` = {peak:e}");
        let problem = Diagnostic::error("step::train::min_lr", message)
            .label(origins.nearest("train.schedule.min_lr"), "where the rate ends")
            .label(origins.span("train.optimizer.lr"), "where it starts");
        sink.push(problem.help(format!("write at most {peak:e}")));
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

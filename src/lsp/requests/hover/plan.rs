//! What a recipe comes to, from its plan.

use super::View;
use crate::diag::Severity;
use crate::model::Model;
use crate::recipe::{Cluster, Recipe, Resolved, divisors};
use crate::report::{Figures, bytes, count, duration, percent, seconds};
use std::fmt::Write;

/// How large the model is.
pub fn parameters(recipe: &Recipe) -> String {
    let counts = Model::build(&recipe.model, recipe.parallel.precision.params).counts();
    let [total, active] = [counts.total, counts.active].map(|n| count(n as f64));
    let mut text = format!("**{total}** parameters, **{active}** active a token, {} tensors", counts.tensors);
    if counts.mtp > 0 {
        let _ = write!(text, "; {} more for multi-token prediction", count(counts.mtp as f64));
    }
    text
}

/// Nodes, devices, memory.
pub fn machine(cluster: &Cluster) -> String {
    let device = &cluster.device;
    format!(
        "**{}** devices: {} nodes × {} {}, {} each",
        cluster.devices(),
        cluster.nodes,
        cluster.devices_per_node,
        device.name,
        bytes(device.memory)
    )
}

/// Tokens and time of the whole training.
pub fn training(view: &View, resolved: &Resolved) -> Vec<String> {
    let (train, data) = (&resolved.recipe.train, &resolved.recipe.data);
    let tokens = train.global_batch as f64 * data.sequence as f64;
    let mut text =
        format!("**{}** tokens a step, **{}** in all", count(tokens), count(tokens * train.steps as f64));
    if !view.is_stale() {
        let figures = Figures::of(&view.shown(resolved));
        let all = duration(figures.step * train.steps as f64);
        let _ = write!(text, "; {} a step, {all} for {} steps", seconds(figures.step), train.steps);
    }
    vec![text]
}

/// What the peak of memory is made of, and the time of a step.
pub fn memory(view: &View, resolved: &Resolved) -> Vec<String> {
    if view.is_stale() {
        return Vec::new();
    }
    let figures = Figures::of(&view.shown(resolved));
    let by = if figures.estimated { " (estimated)" } else { "" };
    let mut table = format!("| memory of a device{by} | | |\n| :-- | --: | --: |\n");
    for (category, n) in &figures.categories {
        let share = percent(*n as f64 / figures.peak.max(1) as f64);
        let _ = writeln!(table, "| {} | {} | {share} |", category.word(), bytes(*n));
    }
    let fits = if figures.peak <= figures.device { "of" } else { "**does not fit** into" };
    let _ = write!(table, "| **peak** | **{}** | {fits} {} |", bytes(figures.peak), bytes(figures.device));
    let step = seconds(figures.step);
    vec![table, format!("**{step}** a step, bound by {}, {} MFU", figures.bound, percent(figures.mfu))]
}

/// The values of `ep` that the rules allow, with a matching `ep_fsdp`, and what is wrong with the other divisors of the devices.
pub fn legal_ep(resolved: &Resolved) -> Vec<String> {
    let ranks = resolved.recipe.parallel.stage_ranks(&resolved.recipe.cluster);
    let (mut legal, mut reasons) = (Vec::new(), Vec::new());
    for ep in divisors(ranks) {
        let said = resolved.changed(|recipe| {
            (recipe.parallel.ep, recipe.parallel.ep_fsdp) = (ep, ranks / ep);
        });
        match said.iter().find(|problem| problem.severity == Severity::Error) {
            None => legal.push(format!("`{ep}`")),
            Some(problem) => reasons.push(format!("- not `{ep}`: {}", problem.message)),
        }
    }
    const REASONS: usize = 6;
    let more = reasons.len().saturating_sub(REASONS);
    reasons.truncate(REASONS);
    if more > 0 {
        reasons.push(format!("- and {more} more"));
    }
    let mut parts = vec![format!("Legal on {ranks} devices: {}", legal.join(", "))];
    if !reasons.is_empty() {
        parts.push(reasons.join("\n"));
    }
    parts
}

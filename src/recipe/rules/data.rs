//! Rules on sequences and on what fills them.

use super::model::trained_attentions;
use crate::diag::{Diagnostic, Sink};
use crate::recipe::origins::Origins;
use crate::recipe::schema::data::Pack;
use crate::recipe::schema::model::Weights;
use crate::recipe::schema::recipe::Recipe;
use crate::recipe::schema::train::Stage;

/// Holds `recipe` against the rules on sequences and sources.
pub fn check(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    reach(recipe, origins, sink);
    window(recipe, origins, sink);
    answers(recipe, origins, sink);
    sources(recipe, origins, sink);
}

/// No position lies beyond what the frequencies have been stretched for.
fn reach(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    let sequence = recipe.data.sequence;
    for (name, attention) in trained_attentions(recipe) {
        let Some((original, factor)) = attention.rope.scaling.stretch() else { continue };
        let reach = original as f64 * factor;
        if sequence as f64 <= reach {
            continue;
        }
        let at = format!("model.attention {name}.rope.scaling");
        let message = format!("`sequence` = {sequence} goes beyond the {reach} positions of `{name}`");
        let problem = Diagnostic::warning("step::data::rope_range", message)
            .label(origins.nearest("data.sequence"), format!("{sequence} tokens"))
            .label(origins.span(&format!("{at}.original")), format!("trained with {original}"))
            .label(origins.span(&format!("{at}.factor")), format!("stretched {factor} times"));
        let factor = (sequence as f64 / original as f64).ceil();
        sink.push(problem.help(format!("write at most {reach} tokens, or `factor = {factor}`")));
        return;
    }
}

/// A window that no sequence fills is none.
fn window(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    let sequence = recipe.data.sequence;
    for (name, attention) in trained_attentions(recipe) {
        let Some(window) = attention.window.filter(|window| *window >= sequence) else { continue };
        let message = format!("the window of `{name}` never ends: a sequence has {sequence} tokens");
        let problem = Diagnostic::warning("step::data::window", message)
            .label(origins.nearest(&format!("model.attention {name}.window")), format!("{window} tokens"))
            .label(origins.span("data.sequence"), format!("{sequence} tokens"));
        sink.push(
            problem.help("every token sees all before it; a shorter window or a longer sequence differs"),
        );
    }
}

/// Learning answers needs a model that has learned before, and conversations that do not see one another.
fn answers(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    if recipe.train.stage != Stage::Sft {
        return;
    }
    let stage = origins.nearest("train.stage");
    if recipe.model.weights == Weights::Scratch {
        let message = "fine-tuning starts from weights drawn at random";
        let problem = Diagnostic::warning("step::train::sft_scratch", message)
            .label(stage, "learns answers only, and there is no checkpoint")
            .label(origins.span("model.weights"), "drawn at random");
        sink.push(problem.help("name the checkpoint: `weights = \"folder\"`"));
    }
    if recipe.data.pack == Pack::None {
        let message = "conversations in one sequence see one another";
        let problem = Diagnostic::warning("step::data::pack_sft", message)
            .label(origins.nearest("data.pack"), "attention over the whole sequence")
            .label(stage, "of conversations that are strangers");
        sink.push(problem.help("write `pack = documents`"));
    }
}

/// A file is read once.
fn sources(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    let sources: Vec<_> = recipe.data.sources.iter().collect();
    for (index, (name, source)) in sources.iter().enumerate() {
        let twin = sources[..index].iter().find(|(_, other)| {
            other.path == source.path && other.column == source.column && other.format == source.format
        });
        let Some((other, _)) = twin else { continue };
        let message = format!("`{name}` and `{other}` are the same files");
        let problem = Diagnostic::warning("step::data::same_source", message)
            .label(origins.nearest(&format!("data.source {name}.path")), "read again")
            .label(origins.span(&format!("data.source {other}.path")), "read here");
        sink.push(problem.help("leave one of them out; `weight` tells how often files are taken"));
    }
}

//! Rules on architectures and on the names of their tensors.

use super::divide::{either, nearest_divisors};
use super::parallel::moe_blocks;
use crate::diag::{Diagnostic, Sink};
use crate::recipe::origins::Origins;
use crate::recipe::schema::model::{Attention, Scaling};
use crate::recipe::schema::names::Layout;
use crate::recipe::schema::recipe::Recipe;
use std::collections::BTreeMap;

/// Holds `recipe` against the rules on architectures and the names of their tensors.
pub fn check(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    for (name, attention) in attentions(recipe) {
        let at = format!("model.attention {name}");
        heads(&at, name, attention, origins, sink);
        rope(&at, name, attention, origins, sink);
    }
    names(recipe, origins, sink);
}

/// The kinds of attention in use, by name; that of multi-token prediction as `mtp`.
pub fn attentions(recipe: &Recipe) -> BTreeMap<&str, &Attention> {
    let mtp = recipe.model.mtp.iter().map(|mtp| ("mtp", &mtp.attention));
    mtp.chain(trained_attentions(recipe)).collect()
}

/// The kinds of attention in the layers that are trained, by name.
pub fn trained_attentions(recipe: &Recipe) -> BTreeMap<&str, &Attention> {
    let layers = recipe.model.blocks.iter();
    layers.map(|layer| (layer.attention_name.as_str(), &layer.attention)).collect()
}

/// Each head of keys and values serves the same number of query heads.
fn heads(at: &str, name: &str, attention: &Attention, origins: &Origins, sink: &mut Sink) {
    let (heads, kv_heads) = (attention.heads, attention.kv_heads);
    if heads.is_multiple_of(kv_heads) {
        return;
    }
    let message = format!("`kv_heads` = {kv_heads} does not divide the {heads} heads of `{name}`");
    let problem = Diagnostic::error("step::model::kv_heads", message)
        .label(origins.nearest(&format!("{at}.kv_heads")), format!("{kv_heads} heads of keys and values"))
        .label(origins.span(&format!("{at}.heads")), format!("{heads} heads of queries"));
    let fits = nearest_divisors(heads, kv_heads, |_| true);
    sink.push(problem.help(format!("`kv_heads` must divide {heads}: nearest {}", either(&fits))));
}

/// Channels rotate in pairs, and stretched frequencies lie in order.
fn rope(at: &str, name: &str, attention: &Attention, origins: &Origins, sink: &mut Sink) {
    let rope = &attention.rope;
    let rotated = attention.head_dim as f64 * rope.fraction;
    if rotated < 2.0 || rotated % 2.0 != 0.0 {
        let message = format!("{rotated} channels of a head of `{name}` would rotate, they rotate in pairs");
        let problem = Diagnostic::error("step::model::rope_fraction", message)
            .label(origins.nearest(&format!("{at}.rope.fraction")), format!("{} of a head", rope.fraction))
            .label(origins.span(&format!("{at}.head_dim")), format!("{} channels", attention.head_dim));
        sink.push(problem.help("`head_dim` × `fraction` must be an even number"));
    }
    if let Scaling::Llama3(scaling) = &rope.scaling
        && scaling.low >= scaling.high
    {
        let message = format!("`low` = {} is not under `high` = {} in `{name}`", scaling.low, scaling.high);
        let problem = Diagnostic::error("step::model::rope_scaling", message)
            .label(origins.nearest(&format!("{at}.rope.scaling.low")), "the stretched end")
            .label(origins.span(&format!("{at}.rope.scaling.high")), "the kept end");
        sink.push(problem.help("wavelengths from `original / high` to `original / low` are interpolated"));
    }
}

/// Names tell layers, and where they lie apart experts, from one another.
fn names(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    let names = &recipe.model.names;
    if !names.layer.contains("{i}") {
        let message = format!("`layer = {:?}` is the same for every layer", names.layer);
        let problem = Diagnostic::error("step::model::names_layer", message);
        let problem = problem.label(origins.nearest("model.names.layer"), "lacks `{i}`");
        sink.push(problem.help("write `{i}` where the number of the layer stands"));
    }
    if moe_blocks(recipe).is_empty() {
        return;
    }
    let moe = &names.moe;
    let per_expert = moe.layout == Layout::PerExpert;
    for (key, name) in [("gate", &moe.gate), ("up", &moe.up), ("down", &moe.down)] {
        if name.contains("{e}") == per_expert {
            continue;
        }
        let (message, label, help) = if per_expert {
            let message = format!("`{key} = {name:?}` is the same for every expert");
            (message, "lacks `{e}`", "write `{e}` where the expert stands, or `layout = stacked`")
        } else {
            let message = format!("`{key} = {name:?}` names single experts, the layout is `{}`", moe.layout);
            (message, "has `{e}`", "leave `{e}` out, or write `layout = per_expert`")
        };
        let problem = Diagnostic::error("step::model::names_expert", message)
            .label(origins.nearest(&format!("model.names.moe.{key}")), label)
            .label(origins.span("model.names.moe.layout"), format!("`{}`", moe.layout));
        sink.push(problem.help(help));
    }
}

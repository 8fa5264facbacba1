//! Rules on architectures and on the names of their tensors.

use super::divide::{either, nearest_divisors};
use super::parallel::moe_blocks;
use crate::diag::{Diagnostic, Sink};
use crate::recipe::origins::Origins;
use crate::recipe::schema::model::{Attention, Bias, Latent, QkNorm, Rope, Scaling};
use crate::recipe::schema::names::Layout;
use crate::recipe::schema::recipe::Recipe;
use std::collections::BTreeMap;

/// Holds `recipe` against the rules on architectures and the names of their tensors.
pub fn check(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    for (name, attention) in attentions(recipe) {
        let at = format!("model.attention {name}");
        heads(&at, name, attention, origins, sink);
        match &attention.latent {
            Some(parts) => latent(&at, name, attention, parts, origins, sink),
            None => rotated(&at, name, attention, origins, sink),
        }
        let channels = attention.rotary();
        scaling(&at, name, &attention.rope, channels, origins, sink);
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

/// Channels rotate in pairs.
fn rotated(at: &str, name: &str, attention: &Attention, origins: &Origins, sink: &mut Sink) {
    let rope = &attention.rope;
    let rotated = attention.head_dim as f64 * rope.fraction;
    if rotated < 2.0 || rotated % 2.0 != 0.0 {
        let message = format!("{rotated} channels of a head of `{name}` would rotate, they rotate in pairs");
        let problem = Diagnostic::error("step::model::rope_fraction", message)
            .label(origins.nearest(&format!("{at}.rope.fraction")), format!("{} of a head", rope.fraction))
            .label(origins.span(&format!("{at}.head_dim")), format!("{} channels", attention.head_dim));
        sink.push(problem.help("`head_dim` × `fraction` must be an even number"));
    }
}

/// Latents give every head keys of its own, but for an even number of channels that rotate.
fn latent(at: &str, name: &str, attention: &Attention, latent: &Latent, origins: &Origins, sink: &mut Sink) {
    let (rope, head_dim) = (latent.rope, attention.head_dim);
    if rope % 2 != 0 || rope >= head_dim {
        let message = format!("{rope} of the {head_dim} channels of a head of `{name}` would rotate");
        let problem = Diagnostic::error("step::model::latent_rope", message)
            .label(origins.nearest(&format!("{at}.latent.rope")), format!("{rope} channels"))
            .label(origins.span(&format!("{at}.head_dim")), format!("{head_dim} channels, these among them"));
        sink.push(problem.help("they rotate in pairs, and some stay as they are"));
    }
    let beside = [
        ("kv_heads", attention.kv_heads.to_string(), attention.kv_heads != attention.heads),
        ("bias", attention.bias.to_string(), attention.bias != Bias::None),
        ("qk_norm", attention.qk_norm.to_string(), attention.qk_norm != QkNorm::None),
        ("clip", attention.clip.unwrap_or_default().to_string(), attention.clip.is_some()),
        ("rope.fraction", attention.rope.fraction.to_string(), attention.rope.fraction != 1.0),
    ];
    for (key, value, _) in beside.into_iter().filter(|(.., written)| *written) {
        let message = format!("`{key}` = {value} has no meaning beside the `latent` of `{name}`");
        let problem = Diagnostic::error("step::model::latent_beside", message)
            .label(origins.nearest(&format!("{at}.{key}")), "for attention without latents")
            .label(origins.span(&format!("{at}.latent.kv_rank")), "keys and values are made from a latent");
        let help = match key {
            "rope.fraction" => "`latent { rope = … }` says how many channels rotate",
            "kv_heads" => "every head has keys and values of its own: leave `kv_heads` out",
            _ => "leave it out, or leave out `latent`",
        };
        sink.push(problem.help(help));
    }
}

/// Stretched frequencies lie in order, and each has its divisor.
fn scaling(at: &str, name: &str, rope: &Rope, channels: u64, origins: &Origins, sink: &mut Sink) {
    let at = format!("{at}.rope");
    // The two ends of a stretch, the lower one first, and what lies between.
    let ends = match &rope.scaling {
        Scaling::Llama3(s) => Some((
            ["low", "high"],
            [s.low, s.high],
            "wavelengths from `original / high` to `original / low` are interpolated",
        )),
        Scaling::Yarn(s) => Some((
            ["slow", "fast"],
            [s.slow, s.fast],
            "frequencies from `slow` to `fast` turns in the original context are interpolated",
        )),
        Scaling::None | Scaling::Linear(_) | Scaling::LongRope(_) => None,
    };
    if let Some(([low_key, high_key], [low, high], help)) = ends
        && low >= high
    {
        let message = format!("`{low_key}` = {low} is not under `{high_key}` = {high} in `{name}`");
        let problem = Diagnostic::error("step::model::rope_scaling", message)
            .label(origins.nearest(&format!("{at}.scaling.{low_key}")), "the stretched end")
            .label(origins.span(&format!("{at}.scaling.{high_key}")), "the kept end");
        sink.push(problem.help(help));
    }
    if let Scaling::Yarn(_) = &rope.scaling
        && rope.theta <= 1.0
    {
        let message = format!("`theta` = {} of `{name}` gives no slower and faster frequencies", rope.theta);
        let problem = Diagnostic::error("step::model::rope_scaling", message)
            .label(origins.nearest(&format!("{at}.theta")), "the base of the frequencies");
        sink.push(problem.help("`scaling yarn` needs a `theta` over 1"));
    }
    if let Scaling::LongRope(s) = &rope.scaling {
        for (key, divisors) in [("short", &s.short), ("long", &s.long)] {
            let (has, needs) = (divisors.len() as u64, channels / 2);
            if has == needs {
                continue;
            }
            let message = format!("`{key}` of `{name}` has {has} divisors for {needs} frequencies");
            let problem = Diagnostic::error("step::model::rope_divisors", message)
                .label(origins.nearest(&format!("{at}.scaling.{key}")), format!("{has} divisors"))
                .label(origins.span(&format!("{at}.fraction")), format!("{channels} channels rotate"));
            sink.push(problem.help("each pair of rotating channels has one"));
        }
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
    let biased = moe_blocks(recipe).iter().any(|(_, block)| block.bias);
    let biases = [("gate_bias", &moe.gate_bias), ("up_bias", &moe.up_bias), ("down_bias", &moe.down_bias)];
    let weights = [("gate", &moe.gate), ("up", &moe.up), ("down", &moe.down)];
    for (key, name) in weights.into_iter().chain(biases.into_iter().filter(|_| biased)) {
        if name.contains("{e}") == per_expert {
            continue;
        }
        let (message, label, help) = if per_expert {
            let message = format!("`{key} = {name:?}` is the same for every expert");
            (message, "lacks `{e}`", "write `{e}` where the expert stands, or `layout = stacked`")
        } else {
            let message = format!("`{key} = {name:?}` names single experts, the layout is `stacked`");
            (message, "has `{e}`", "leave `{e}` out, or write `layout = per_expert`")
        };
        let problem = Diagnostic::error("step::model::names_expert", message)
            .label(origins.nearest(&format!("model.names.moe.{key}")), label)
            .label(origins.span("model.names.moe.layout"), format!("`{}`", moe.layout));
        sink.push(problem.help(help));
    }
}

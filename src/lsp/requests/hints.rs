//! What the compiler derives, beside what it derives it from.

use super::{Answer, View};
use crate::diag::Sink;
use crate::lsp::Checked;
use crate::lsp::knowledge::{Names, resolved};
use crate::model::{Counts, Model};
use crate::recipe::{Ffn, Layer, Moe, Origin, Recipe, Resolved, Setting, Via};
use crate::report::{Figures, bytes, count, duration, percent};
use crate::syntax::tree::Stmt;
use lsp_types::*;
use std::collections::BTreeMap;

pub fn hints(view: &View, params: InlayHintParams) -> Answer<Option<Vec<InlayHint>>> {
    let [start, end] = [params.range.start, params.range.end].map(|position| view.offset(position));
    let mut found: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for checked in &view.project.recipes {
        let profiles = checked.loaded.profiles().iter().map(|profile| Some(profile.name.as_str()));
        for profile in std::iter::once(None).chain(profiles) {
            let shown = Beside { view, profile, range: start..end };
            for (at, text) in shown.hints(checked) {
                let texts = found.entry(at).or_default();
                if !texts.contains(&text) {
                    texts.push(text);
                }
            }
        }
    }
    for (at, text) in layers(view).filter(|(at, _)| (start..=end).contains(at)) {
        found.entry(at).or_default().push(text);
    }
    let hints = found.into_iter().map(|(at, texts)| InlayHint {
        position: view.position(at),
        label: texts.join(" · ").into(),
        kind: None,
        text_edits: None,
        tooltip: None,
        padding_left: Some(true),
        padding_right: None,
        data: None,
    });
    Ok(Some(hints.collect()))
}

/// Behind what a layer says of itself, how many layers are made of which block.
fn layers(view: &View) -> impl Iterator<Item = (usize, String)> {
    let names = Names::of(&view.project);
    let model = names.recipe().and_then(|recipe| names.child(&recipe, "model", None));
    let script = model.and_then(|model| names.child(&model, "layer", None));
    let resolved = script.as_ref().and_then(|script| resolved(&view.project, script));
    let blocks = resolved.map_or(&[][..], |resolved| &resolved.recipe.model.blocks);
    let written = script.iter().flat_map(|script| script.layers.first()).flat_map(|block| block.stmts());
    let mut found = Vec::new();
    for stmt in written {
        let Stmt::Attr { key, value } = stmt else { continue };
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for layer in blocks {
            let name = if key.text == "ffn" { &layer.ffn_name } else { &layer.attention_name };
            *counts.entry(name).or_default() += 1;
        }
        if value.span.file == view.file && counts.len() > 1 {
            let shown: Vec<_> = counts.iter().map(|(name, n)| format!("{n} {name}")).collect();
            found.push((value.span.end as usize, shown.join(", ")));
        }
    }
    found.into_iter()
}

/// What is shown of a recipe as it stands, or of what a profile sets.
struct Beside<'v> {
    view: &'v View,
    profile: Option<&'v str>,
    range: std::ops::Range<usize>,
}

impl Beside<'_> {
    fn hints(&self, checked: &Checked) -> Vec<(usize, String)> {
        let settings = checked.loaded.why(self.profile, "", &mut Sink::default()).unwrap_or_default();
        let values = settings.iter().filter_map(|setting| self.value(setting));
        let mut found: Vec<_> = values.collect();
        let resolved = checked.resolved.iter().find(|resolved| resolved.profile.as_deref() == self.profile);
        if let Some(resolved) = resolved {
            found.extend(self.derived(resolved));
        }
        found
    }

    /// The end of what is written here, in the part of the text that is asked about.
    fn here(&self, origin: &Origin) -> Option<usize> {
        let Origin { span, via } = *origin;
        let own = self.profile.is_none() || via == Via::Profile;
        let end = span.end as usize;
        (own && span.file == self.view.file && self.range.start <= end && end <= self.range.end)
            .then_some(end)
    }

    /// What an expression comes to.
    fn value(&self, setting: &Setting) -> Option<(usize, String)> {
        let first = setting.places.first().filter(|_| !setting.block)?;
        let at = self.here(&first.origin)?;
        let value = setting.value.as_ref()?;
        // A path is relative to the file.
        let folder = format!("{}/", self.view.folder().display());
        let value = value.strip_prefix(&folder).unwrap_or(value);
        let written = self.view.project.sources.slice(first.origin.span).split_once('=')?.1.trim();
        is_computed(written, value).then(|| (at, format!("= {value}")))
    }

    /// Figures of the model and of the plan.
    fn derived(&self, resolved: &Resolved) -> Vec<(usize, String)> {
        // Where the first of `paths` stands that is written here: of a field the place that holds, of a block any.
        let here = |path: &&str| {
            let chain = resolved.origins.chain(path);
            let places = if path.contains('.') { &chain[..chain.len().min(1)] } else { chain };
            places.iter().find_map(|origin| self.here(origin))
        };
        let place = |paths: &[&str]| paths.iter().find_map(here);
        let recipe = &resolved.recipe;
        let counts = Model::build(&recipe.model, recipe.parallel.precision.params).counts();
        let simple = DERIVED.iter().filter_map(|(paths, text)| Some((place(paths)?, text(recipe, &counts)?)));
        let named =
            of_blocks(recipe).into_iter().filter_map(|(path, text)| Some((place(&[path.as_str()])?, text)));
        let mut found: Vec<(usize, String)> = simple.collect();
        // What several blocks copy is told of the first.
        for (at, text) in named {
            if found.iter().all(|(known, _)| *known != at) {
                found.push((at, text));
            }
        }
        let planned = PLANNED.iter().filter_map(|(paths, text)| Some((place(paths)?, text)));
        let planned: Vec<_> = planned.collect();
        let shown = (!planned.is_empty() && !self.view.is_stale()).then(|| self.view.shown_soon(resolved));
        if let Some(shown) = shown.flatten() {
            let figures = Figures::of(&shown);
            found.extend(planned.into_iter().filter_map(|(at, text)| Some((at, text(recipe, &figures)?))));
        }
        found
    }
}

/// Whether the reader cannot see the value in what is written: neither a number nor a text nor the word itself.
fn is_computed(written: &str, value: &str) -> bool {
    let first = written.chars().next();
    let number = first.is_some_and(|c| c.is_ascii_digit() || c == '-');
    let simple = written.chars().all(|c| c.is_ascii_alphanumeric() || "._-%".contains(c));
    match first {
        None | Some('"' | '[') => false,
        // `4Ki` is 4096, `64GiB` is what it says.
        _ if number && simple => {
            value.parse::<i64>().is_ok() && !written.chars().all(|c| c.is_ascii_digit() || c == '_')
        }
        _ => written != value,
    }
}

/// What to show at the first of some paths that is written, as far as there is something to show.
type Table<T> = &'static [(&'static [&'static str], fn(&Recipe, &T) -> Option<String>)];

/// What follows from the recipe and its model.
const DERIVED: Table<Counts> = &[
    (&["model.layers", "model"], |_, counts| {
        let [total, active] = [counts.total, counts.active].map(|n| count(n as f64));
        Some(format!("{total} parameters, {active} active"))
    }),
    (&["model.mtp.layers"], |_, counts| {
        Some(counts.mtp).filter(|n| *n > 0).map(|n| format!("{} parameters", count(n as f64)))
    }),
    (&["cluster.nodes"], |recipe, _| Some(format!("{} devices", recipe.cluster.devices()))),
    (&["parallel.ep"], |recipe, _| {
        let experts = recipe.model.blocks.iter().find_map(|layer| Some(experts(&layer.ffn)?.experts))?;
        Some(format!("{} of {experts} experts a rank", experts / recipe.parallel.ep.max(1)))
    }),
    (&["train.global_batch", "train"], |recipe, _| Some(format!("{} tokens a step", count(tokens(recipe))))),
    (&["train.steps"], |recipe, _| {
        Some(format!("{} tokens", count(tokens(recipe) * recipe.train.steps as f64)))
    }),
];

/// What takes a plan to know.
const PLANNED: Table<Figures> = &[
    (&["parallel.fsdp", "parallel"], |_, figures| {
        let over = if figures.peak > figures.device { ", does not fit" } else { "" };
        Some(format!("peak {} of {}{over}", short(figures.peak, figures.device), bytes(figures.device)))
    }),
    (&["train.micro_batch"], |_, figures| {
        Some(figures.accumulation).filter(|n| *n > 1).map(|n| format!("{n} micro batches a step"))
    }),
    (&["train.steps"], |recipe, figures| {
        Some(format!("about {}", duration(figures.step * recipe.train.steps as f64)))
    }),
    (&["checkpoint.every", "checkpoint"], |_, figures| {
        figures.checkpoint.map(|n| format!("{} a checkpoint", bytes(n)))
    }),
];

/// What follows for the blocks that layers are made of.
fn of_blocks(recipe: &Recipe) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for Layer { attention_name, attention, ffn_name, ffn } in &recipe.model.blocks {
        let shared = attention.heads / attention.kv_heads.max(1);
        if shared > 1 {
            let path = format!("model.attention {attention_name}.kv_heads");
            found.entry(path).or_insert_with(|| format!("each for {shared} heads"));
        }
        if let Some(moe) = experts(ffn) {
            let share = percent(moe.top_k as f64 / moe.experts.max(1) as f64);
            let path = format!("model.moe {ffn_name}.top_k");
            found.entry(path).or_insert_with(|| format!("{share} of the experts"));
        }
    }
    found
}

fn experts(ffn: &Ffn) -> Option<&Moe> {
    match ffn {
        Ffn::Moe(moe) => Some(moe),
        Ffn::Dense(_) => None,
    }
}

/// Tokens of a step.
fn tokens(recipe: &Recipe) -> f64 {
    recipe.train.global_batch as f64 * recipe.data.sequence as f64
}

/// A size without its unit where that of `other` says it.
fn short(size: u64, other: u64) -> String {
    let (size, other) = (bytes(size), bytes(other));
    match (size.split_once(' '), other.split_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same => number.to_owned(),
        _ => size,
    }
}

//! The text of a draft, in the layout of the shipped recipes.

use super::LibraryModel;
use crate::base::SourceMap;
use crate::diag::Sink;
use crate::recipe::{Attention, Ffn, Model, Moe};
use crate::syntax::format::format;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The cluster that drafts are written for; it stands in the library.
const CLUSTER: &str = "atlas_a3";

/// Where the model of a draft stands.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// In a file of the library.
    Library(LibraryModel),
    /// In the draft itself: the item of this name, as text.
    Item { name: String, text: String },
}

/// A recipe before its machine is known.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// The name of the recipe.
    pub name: String,
    /// What it was made from, for the head of the file.
    pub about: String,
    /// The model that it trains.
    pub model: Source,
    /// A Hugging Face folder, as the recipe will name it.
    pub weights: Option<String>,
    /// The folder holds a tokenizer as well.
    pub tokenizer: bool,
}

impl Draft {
    /// A recipe that trains a model of the library as it is.
    pub fn of(name: &str, model: LibraryModel) -> Self {
        Draft::new(name, model.about.to_owned(), Source::Library(model))
    }

    /// A recipe that trains a model which the file holds itself.
    pub fn with(name: &str, about: String, model: &str, text: String) -> Self {
        Draft::new(name, about, Source::Item { name: model.to_owned(), text })
    }

    fn new(name: &str, about: String, model: Source) -> Self {
        Draft { name: name.to_owned(), about, model, weights: None, tokenizer: false }
    }

    /// The least recipe with this model, from which its architecture can be resolved.
    pub fn sketch(&self) -> String {
        sketch(self)
    }

    /// The whole recipe for `nodes` nodes of a cluster with `devices` devices each; `model` is its resolved architecture.
    pub fn text(&self, model: &Model, nodes: u64, devices: u64) -> String {
        laid_out(recipe(self, model, nodes, devices))
    }
}

impl Source {
    fn name(&self) -> &str {
        match self {
            Source::Library(model) => model.name,
            Source::Item { name, .. } => name,
        }
    }

    /// What stands above a recipe with this model: the files used, `others` among them, and the model where none of them has it.
    fn head(&self, others: &[&str]) -> String {
        let (file, item) = match self {
            Source::Library(model) => (Some(model.file), ""),
            Source::Item { text, .. } => (None, text.as_str()),
        };
        let uses = file.into_iter().chain(others.iter().copied());
        let uses: String = uses.map(|file| format!("use \"{file}\"\n")).collect();
        let parts = [uses.as_str(), item].into_iter().filter(|part| !part.is_empty());
        parts.map(|part| format!("{part}\n")).collect()
    }
}

fn sketch(draft: &Draft) -> String {
    let mut out = draft.model.head(&[]);
    let _ = writeln!(out, "recipe {} {{", draft.name);
    model(&mut out, draft);
    out += "  cluster cpu { devices = 1 }\n";
    out += "  data { source text { path = \"data\" }, tokenizer = \"data\", sequence = 1 }\n";
    out + "  train { steps = 1, optimizer adamw { lr = 1e-3 } }\n}\n"
}

fn recipe(draft: &Draft, architecture: &Model, nodes: u64, devices: u64) -> String {
    let name = &draft.name;
    let mut out = format!("// {name}: {}\n", draft.about);
    out += "//\n";
    let _ = writeln!(
        out,
        "// `stepc check` holds this file against the rules, `stepc plan` shows memory and communication of a device, `stepc run`"
    );
    let _ = writeln!(out, "// trains. Every field may be changed; `docs/reference.md` lists all there are.");
    out += &draft.model.head(&["devices/atlas.step"]);
    let _ = writeln!(out, "recipe {name} {{");
    model(&mut out, draft);
    let _ = writeln!(out, "\n  // {devices} devices a node; `cluster.devices` is the number of all.");
    let _ = writeln!(out, "  cluster {CLUSTER} {{ nodes = {nodes} }}\n");
    parallel(&mut out, architecture, nodes * devices);
    data(&mut out, draft, architecture);
    train(&mut out, name);
    laptop(&mut out, architecture);
    out + "}\n"
}

fn model(out: &mut String, draft: &Draft) {
    let _ = writeln!(out, "  model {} {{", draft.model.name());
    let weights = match &draft.weights {
        Some(folder) => format!("{folder:?}"),
        None => "scratch".to_owned(),
    };
    let comment =
        if draft.weights.is_some() { "or `scratch`" } else { "or a Hugging Face folder, read in place" };
    fields(
        out,
        4,
        &[("weights", &weights, comment), ("init", "meta", "shapes only until a rank has its own shard")],
    );
    *out += "  }\n";
}

fn parallel(out: &mut String, model: &Model, devices: u64) {
    *out += "  parallel {\n";
    let recompute = ("recompute", "none", "`full` keeps less and computes more");
    match experts(model) {
        Some(experts) => {
            let ep = gcd(experts, devices);
            let (ep, comment) = (ep.to_string(), format!("{} of {experts} experts a rank", experts / ep));
            fields(out, 4, &[("ep", &ep, &comment), recompute]);
        }
        None => fields(out, 4, &[recompute]),
    }
    *out += "    precision { params = bf16, reduce = f32, optimizer = f32 }\n  }\n\n";
}

fn data(out: &mut String, draft: &Draft, model: &Model) {
    *out += "  data {\n    source text { path = \"data/*.jsonl\", column = \"text\" }\n";
    let (tokenizer, comment) = if draft.tokenizer {
        ("model.weights", "the folder that holds `tokenizer.json`")
    } else {
        ("\"data/tokenizer.json\"", "of Hugging Face, with at most `model.vocab` tokens")
    };
    // A window shows only in sequences that are longer.
    let widest = model.blocks.iter().filter_map(|layer| layer.attention.window).max();
    let wanted = widest.map_or(4096, |window| window.saturating_mul(2).max(4096));
    let sequence = match sequence(model, wanted) {
        round if round.is_multiple_of(1024) => format!("{}Ki", round / 1024),
        other => other.to_string(),
    };
    let rows = [
        ("tokenizer", tokenizer, comment),
        ("sequence", &sequence, "tokens"),
        ("pack", "documents", "attention never crosses a document"),
    ];
    fields(out, 4, &rows);
    *out += "  }\n\n";
}

/// The text in the one layout: how long its lines are depends on the model.
fn laid_out(text: String) -> String {
    let (mut sources, mut sink) = (SourceMap::default(), Sink::default());
    let id = sources.add("recipe", text.as_str());
    format(id, &text, &mut sink).unwrap_or(text)
}

/// `wanted` tokens, or as many as the rotary positions have been stretched for.
fn sequence(model: &Model, wanted: u64) -> u64 {
    let reach = model.blocks.iter().filter_map(|layer| layer.attention.rope.scaling.stretch());
    reach.map(|(original, factor)| (original as f64 * factor) as u64).fold(wanted, u64::min)
}

fn train(out: &mut String, name: &str) {
    *out += "  train {\n";
    let rows = [
        ("steps", "1000", "of the optimizer"),
        ("global_batch", "cluster.devices", "sequences a step, all devices together"),
        ("micro_batch", "1", "sequences a device at a time; accumulation follows"),
    ];
    fields(out, 4, &rows);
    *out += "    optimizer adamw { lr = 3e-4, betas = [0.9, 0.95], weight_decay = 0.1 }\n";
    *out += "    schedule cosine { warmup = 100, min_lr = 3e-5 }\n";
    fields(
        out,
        4,
        &[("clip", "1.0", "largest norm of the gradient"), ("seed", "42", "of weights and order of data")],
    );
    let _ = write!(out, "  }}\n\n  checkpoint {{ dir = \"output/{name}\", every = 500, keep = 3 }}\n\n");
}

/// The same architecture at a size that trains on two ranks of a laptop.
fn laptop(out: &mut String, model: &Model) {
    *out += "  // The same architecture at laptop size, taken where no NPU is found.\n";
    *out += "  profile laptop for cpu {\n    cluster cpu { devices = 2 }\n    model {\n";
    *out += "      weights = scratch\n";
    let _ = writeln!(out, "      vocab = 4096, hidden = 128, layers = {}", model.layers.min(8));
    let attention = model.blocks.iter().map(|layer| (&layer.attention_name, &layer.attention));
    for (name, block) in attention.collect::<BTreeMap<_, _>>() {
        let _ = writeln!(out, "      attention {name} {{ {} }}", small_heads(block));
    }
    let ffn = model.blocks.iter().map(|layer| (&layer.ffn_name, &layer.ffn));
    let mut sparse = false;
    for (name, block) in ffn.collect::<BTreeMap<_, _>>() {
        let _ = match block {
            Ffn::Dense(_) => writeln!(out, "      mlp {name} {{ inner = 352 }}"),
            Ffn::Moe(moe) => {
                sparse = true;
                writeln!(out, "      moe {name} {{ {} }}", small_experts(moe))
            }
        };
    }
    if model.mtp.is_some() {
        *out += "      mtp { layers = 0 }\n";
    }
    let experts = if sparse { ", ep = 2, ep_fsdp = 1" } else { "" };
    let _ = writeln!(out, "    }}\n    parallel {{\n      fsdp = 2{experts}, prefetch = 0");
    *out += "      precision { params = f32 }\n    }\n";
    let sequence = sequence(model, 256);
    let _ = writeln!(
        out,
        "    data {{\n      tokenizer = \"data/tokenizer.json\"\n      sequence  = {sequence}\n    }}"
    );
    *out += "    train {\n      steps = 60, global_batch = 8\n      optimizer adamw { lr = 3e-3 }\n";
    *out +=
        "      schedule cosine { warmup = 6, min_lr = 3e-4 }\n    }\n    checkpoint { every = 60 }\n  }\n";
}

fn small_heads(attention: &Attention) -> String {
    if let Some(latent) = &attention.latent {
        let q_rank = if latent.q_rank.is_some() { "q_rank = 64, " } else { "" };
        let latent = format!("latent {{ {q_rank}kv_rank = 64, rope = 16 }}");
        return format!("heads = 4, head_dim = 48, value_dim = 32, {latent}");
    }
    let kv_heads = if attention.heads == attention.kv_heads { 4 } else { 2 };
    let window = attention.window.map_or_else(String::new, |window| format!(", window = {}", window.min(64)));
    format!("heads = 4, kv_heads = {kv_heads}, head_dim = 32{window}")
}

fn small_experts(moe: &Moe) -> String {
    // Two ranks hold the same number of them.
    let experts = (moe.experts - moe.experts % 2).clamp(2, 16);
    let top_k = moe.top_k.min(4).min(experts);
    let shared = if moe.shared.is_some() { ", shared { inner = 64 }" } else { "" };
    format!("experts = {experts}, top_k = {top_k}, inner = 64{shared}")
}

/// The number that divides the experts of every kind of layer that has some.
fn experts(model: &Model) -> Option<u64> {
    let ffn = model.blocks.iter().map(|layer| &layer.ffn).chain(model.mtp.iter().map(|mtp| &mtp.ffn));
    let counts = ffn.filter_map(|ffn| match ffn {
        Ffn::Moe(moe) => Some(moe.experts),
        Ffn::Dense(_) => None,
    });
    counts.reduce(gcd)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Fields a line each, with their equals signs and their comments in columns.
fn fields(out: &mut String, indent: usize, rows: &[(&str, &str, &str)]) {
    let width = |part: fn(&(&str, &str, &str)) -> usize| rows.iter().map(part).max().unwrap_or_default();
    let (key, value) = (width(|row| row.0.len()), width(|row| row.1.len()));
    for (name, text, comment) in rows {
        let _ = writeln!(out, "{:indent$}{name:<key$} = {text:<value$}  // {comment}", "");
    }
}

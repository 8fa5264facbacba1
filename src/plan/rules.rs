//! What is legal and costs more than it seems: rules on the sizes that come out on one rank.

use super::compile::Plan;
use super::fit::{Basis, Remedy, remedies};
use super::forecast::Forecast;
use super::memory::Category;
use super::mesh::{Axis, Mesh};
use super::placement::{Placement, Unit};
use crate::diag::{Diagnostic, Sink};
use crate::model::Model;
use crate::recipe::{Ffn, Moe, Origins, Recipe};
use std::collections::BTreeMap;

/// Bytes under which sending takes as long as sending nothing: latency, not bandwidth.
const SMALL: u64 = 4 << 10;
/// Rows under which an expert's products leave a device's matrix units mostly idle.
const FEW_ROWS: u64 = 16;
/// Share of a device's memory over which allocators begin to fail.
const NEARLY_FULL: f64 = 0.92;

/// Warns of shards, messages and products too small to be worth their cost. Nothing is compiled for it.
pub fn check(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    shards(recipe, origins, sink);
    let blocks: BTreeMap<&str, &Moe> = recipe
        .model
        .blocks
        .iter()
        .filter_map(|layer| match &layer.ffn {
            Ffn::Moe(moe) => Some((layer.ffn_name.as_str(), moe)),
            Ffn::Dense(_) => None,
        })
        .collect();
    for (name, moe) in blocks {
        if !messages(recipe, moe, origins, sink) {
            rows(recipe, name, moe, origins, sink);
        }
    }
}

/// Shards so small, unit by unit on average, that gathering them is all latency.
fn shards(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    let dtype = recipe.parallel.precision.params;
    let model = Model::build(&recipe.model, dtype);
    let mesh = Mesh::new(&recipe.parallel, recipe.cluster.devices());
    let placement = Placement::new(&model, &mesh);
    for (axis, key, tp) in [(Axis::Fsdp, "fsdp", recipe.parallel.tp), (Axis::EpFsdp, "ep_fsdp", 1)] {
        let ranks = mesh.size(axis);
        let units: Vec<&Unit> = placement.units.iter().filter(|unit| unit.axis == axis).collect();
        let held: u64 = units.iter().map(|unit| unit.shard).sum();
        let average = held * dtype.size() / (tp * units.len().max(1) as u64);
        if ranks == 1 || units.is_empty() || average >= SMALL {
            continue;
        }
        let message = format!("a rank holds {average} bytes of a unit, on average");
        let place = origins.nearest(&format!("parallel.{key}"));
        let mut problem = Diagnostic::warning("step::plan::small_shards", message)
            .label(place, format!("{ranks} shards: gathering them is all latency"));
        if let Some(few) = units.iter().find(|unit| unit.elements < ranks) {
            let label = format!("`{}` has only {} elements", few.name, few.elements);
            problem = problem.label(origins.span("model.hidden"), label);
        }
        sink.push(problem.help(format!("a smaller `{key}` sends the same in fewer, larger messages")));
    }
}

/// Tokens of a micro batch that one rank routes.
fn tokens(recipe: &Recipe) -> u64 {
    let parallel = &recipe.parallel;
    recipe.train.micro_batch.saturating_mul(recipe.data.sequence) / (parallel.cp * parallel.tp)
}

/// What a rank sends to each other rank of its expert group.
fn messages(recipe: &Recipe, moe: &Moe, origins: &Origins, sink: &mut Sink) -> bool {
    let (ep, parallel) = (recipe.parallel.ep, &recipe.parallel);
    let size = parallel.precision.params.size();
    let pairs = tokens(recipe).saturating_mul(moe.top_k);
    let bytes = pairs.saturating_mul(recipe.model.hidden * size) / ep;
    if ep == 1 || bytes >= SMALL {
        return false;
    }
    let message =
        format!("a rank sends {bytes} bytes of tokens to each of the {ep} ranks of its expert group");
    let problem = Diagnostic::warning("step::plan::small_messages", message)
        .label(origins.nearest("parallel.ep"), "sending them is all latency")
        .label(origins.span("data.sequence"), format!("{} tokens a rank and micro batch", tokens(recipe)));
    sink.push(problem.help("a smaller `ep`, or a larger `micro_batch`"));
    true
}

/// Rows that one expert multiplies at a time.
fn rows(recipe: &Recipe, name: &str, moe: &Moe, origins: &Origins, sink: &mut Sink) {
    let pairs = tokens(recipe).saturating_mul(moe.top_k).saturating_mul(recipe.parallel.ep);
    let rows = pairs / moe.experts;
    if rows >= FEW_ROWS {
        return;
    }
    let message = format!("an expert of `{name}` gets {rows} rows at a time, on average");
    let problem = Diagnostic::warning("step::plan::few_rows", message)
        .label(
            origins.nearest("train.micro_batch"),
            format!("{} tokens a rank, {} experts each", tokens(recipe), moe.top_k),
        )
        .label(origins.span(&format!("model.moe {name}.experts")), format!("over {} experts", moe.experts));
    sink.push(problem.help(format!(
        "products of under {FEW_ROWS} rows leave a device idle: a larger `micro_batch`, or more ranks in `ep`"
    )));
}

/// What is known of the memory of a recipe.
pub struct Need {
    pub basis: Basis,
    /// Bytes of a device at the peak.
    pub peak: u64,
    /// What takes most of it, and how much.
    pub dominating: (Category, u64),
}

impl From<&Plan> for Need {
    fn from(plan: &Plan) -> Need {
        let dominating = plan.memory.dominating().unwrap_or((Category::Parameters, 0));
        Need { basis: Basis::Program, peak: plan.memory.peak, dominating }
    }
}

impl From<&Forecast> for Need {
    fn from(forecast: &Forecast) -> Need {
        let (category, bytes) = forecast.estimate.memory.dominating();
        let basis = Basis::Estimate(forecast.engine);
        Need { basis, peak: forecast.needed(), dominating: (category, bytes as u64) }
    }
}

/// Warns of a recipe that does not fit its device, or only just, and of the smallest change with which it would.
pub fn fits(recipe: &Recipe, need: &Need, origins: &Origins, sink: &mut Sink) {
    let device = &recipe.cluster.device;
    let (peak, has) = (need.peak, device.memory);
    let share = peak as f64 / has as f64;
    if share <= NEARLY_FULL {
        return;
    }
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    let of = match need.basis {
        Basis::Program => String::new(),
        Basis::Estimate(engine) => format!(", estimated for {},", engine.title()),
    };
    let needs = format!("a rank needs{of} {:.1} of the {:.1} GiB of `{}`", gib(peak), gib(has), device.name);
    let message = if share > 1.0 {
        format!("{needs}: it does not fit")
    } else {
        format!("{needs}, {:.0} %", 100.0 * share)
    };
    let (category, bytes) = need.dominating;
    let field = match category {
        Category::Activations | Category::Dispatch | Category::Workspace => "parallel.recompute",
        Category::Logits => "train.micro_batch",
        _ => "parallel.fsdp",
    };
    let problem = Diagnostic::warning("step::plan::memory", message)
        .label(origins.nearest(field), format!("most of it, {:.1} GiB, are {}", gib(bytes), category.word()))
        .label(origins.span("cluster.device"), format!("{:.1} GiB a device", gib(has)));
    sink.push(problem.help(mended(recipe, need, has)));
}

/// The change that would help: of those with which the recipe fits, the one with the fastest step.
fn mended(recipe: &Recipe, need: &Need, has: u64) -> String {
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    let remedies = remedies(recipe, need.basis, need.peak);
    let fits = |remedy: &&Remedy| remedy.peak as f64 <= NEARLY_FULL * has as f64;
    if let Some(remedy) = remedies.iter().find(fits) {
        let factor = remedy.step / remedy.before;
        return format!("{} needs {:.1} GiB, {factor:.2} times the step", remedy.change, gib(remedy.peak));
    }
    match remedies.iter().min_by_key(|remedy| remedy.peak) {
        Some(best) => format!(
            "shard over more devices, or offload the optimizer: even {} needs {:.1} GiB",
            best.change,
            gib(best.peak)
        ),
        None => "shard over more devices, or offload the optimizer".to_owned(),
    }
}

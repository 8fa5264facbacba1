//! What to change so that a plan fits: the recipe measured again with one thing different.

use super::compile::{Task, compile};
use super::demands;
use super::estimate::{Engine, Question};
use super::search::Choices;
use crate::model::Model;
use crate::recipe::{Ffn, Offload, Recipe, Recompute};
use serde::{Deserialize, Serialize};

/// By how much sizes are changed, the smallest first.
const FACTORS: std::ops::RangeInclusive<u64> = 2..=64;

/// Rows of logits at a time that keep products fast.
const CHUNK: u64 = 1024;

/// How memory and time are found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Basis {
    /// From the native program.
    Program,
    /// By the estimate for an engine.
    Estimate(Engine),
}

impl Basis {
    /// What says how `recipe` does on `engine`: its program, where the native engine runs all that the recipe asks for.
    pub fn of(recipe: &Recipe, engine: Engine) -> Basis {
        let exact = engine == Engine::Native && demands::of(recipe).is_empty();
        if exact { Basis::Program } else { Basis::Estimate(engine) }
    }

    /// Bytes of the fullest device and seconds of a step.
    fn measure(self, recipe: &Recipe, model: &Model) -> (u64, f64) {
        match self {
            Basis::Program => {
                let plan = compile(recipe, None, Task::Train);
                (plan.memory.peak, plan.time.step)
            }
            Basis::Estimate(engine) => {
                let question = Question::new(recipe, model, engine);
                let estimate = question.estimate(&question.own());
                (estimate.memory.needed() as u64, estimate.time.step)
            }
        }
    }
}

/// A change to a recipe and what it would lead to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Remedy {
    /// As one would write it: `recompute = full`.
    pub change: String,
    /// Bytes of a device.
    pub peak: u64,
    /// Seconds of a step, and as it is now.
    pub step: f64,
    pub before: f64,
}

/// Changes after which less memory than `peak` is needed, single ones first, and of those the fastest step. What is
/// measured by the program is changed to nothing that the native engine does not run, and what is estimated to no
/// recomputation that its engine does not have.
pub fn remedies(recipe: &Recipe, basis: Basis, peak: u64) -> Vec<Remedy> {
    let model = Model::build(&recipe.model, recipe.parallel.precision.params);
    let (_, before) = basis.measure(recipe, &model);
    let possible = |changed: &Recipe| match basis {
        Basis::Program => demands::of(changed).is_empty(),
        Basis::Estimate(engine) => Choices::of(engine).recompute(changed.parallel.recompute),
    };
    let changes = changes(recipe).into_iter().filter(|(_, changed)| possible(changed));
    let tried = changes.map(|(change, changed)| {
        let (peak, step) = basis.measure(&changed, &model);
        Remedy { change, peak, step, before }
    });
    let mut remedies: Vec<Remedy> = tried.filter(|remedy| remedy.peak < peak).collect();
    let several = |remedy: &Remedy| remedy.change.contains(" and ");
    remedies.sort_by(|a, b| several(a).cmp(&several(b)).then(a.step.total_cmp(&b.step)));
    remedies
}

/// The recipes that differ in little and are still legal.
fn changes(recipe: &Recipe) -> Vec<(String, Recipe)> {
    let mut changes = Vec::new();
    let mut change = |what: String, change: &dyn Fn(&mut Recipe)| {
        let mut changed = recipe.clone();
        change(&mut changed);
        changes.push((what, changed));
    };
    let (parallel, micro) = (&recipe.parallel, recipe.train.micro_batch);
    let devices = parallel.stage_ranks(&recipe.cluster);
    let recomputes = parallel.recompute != Recompute::Full;
    if parallel.recompute == Recompute::None {
        change("`recompute = selective`".into(), &|r| r.parallel.recompute = Recompute::Selective);
    }
    if recomputes {
        change("`recompute = full`".into(), &|r| r.parallel.recompute = Recompute::Full);
    }
    if parallel.prefetch > 0 {
        change("`prefetch = 0`".into(), &|r| r.parallel.prefetch = 0);
    }
    if !parallel.reshard_after_forward {
        change("`reshard_after_forward = true`".into(), &|r| r.parallel.reshard_after_forward = true);
    }
    for size in FACTORS.filter(|factor| micro.is_multiple_of(*factor)).map(|factor| micro / factor).take(3) {
        change(format!("`micro_batch = {size}`"), &|r| r.train.micro_batch = size);
    }
    if recipe.train.loss_chunk.is_none_or(|rows| rows > CHUNK) {
        change(format!("`loss_chunk = {CHUNK}`"), &|r| r.train.loss_chunk = Some(CHUNK));
    }
    if recomputes && micro > 1 {
        change("`micro_batch = 1` and `recompute = full`".into(), &|r| {
            (r.train.micro_batch, r.parallel.recompute) = (1, Recompute::Full);
        });
    }
    let fsdp = devices / parallel.tp;
    if parallel.fsdp < fsdp {
        change(format!("`fsdp = {fsdp}`"), &|r| r.parallel.fsdp = fsdp);
    }
    let ep_fsdp = devices / parallel.ep;
    if parallel.ep_fsdp < ep_fsdp {
        change(format!("`ep_fsdp = {ep_fsdp}`"), &|r| r.parallel.ep_fsdp = ep_fsdp);
    }
    for ep in larger_ep(recipe) {
        let ep_fsdp = devices / ep;
        change(format!("`ep = {ep}, ep_fsdp = {ep_fsdp}`"), &|r| {
            (r.parallel.ep, r.parallel.ep_fsdp) = (ep, ep_fsdp);
        });
    }
    if parallel.offload == Offload::None {
        change("`offload = optimizer`".into(), &|r| r.parallel.offload = Offload::Optimizer);
    }
    if recomputes && parallel.offload == Offload::None {
        change("`recompute = full` and `offload = optimizer`".into(), &|r| {
            (r.parallel.recompute, r.parallel.offload) = (Recompute::Full, Offload::Optimizer);
        });
    }
    if parallel.offload != Offload::Params {
        change("`offload = params`".into(), &|r| r.parallel.offload = Offload::Params);
    }
    changes
}

/// The next multiples of `ep` that divide the devices and all experts.
fn larger_ep(recipe: &Recipe) -> Vec<u64> {
    let mtp = recipe.model.mtp.iter().map(|mtp| &mtp.ffn);
    let ffns = recipe.model.blocks.iter().map(|layer| &layer.ffn).chain(mtp);
    let experts = ffns.filter_map(|ffn| match ffn {
        Ffn::Moe(moe) => Some(moe.experts),
        Ffn::Dense(_) => None,
    });
    let experts: Vec<u64> = experts.collect();
    let devices = recipe.parallel.stage_ranks(&recipe.cluster);
    let most = experts.iter().copied().min().unwrap_or(0).min(devices);
    let legal = |ep: &u64| devices.is_multiple_of(*ep) && experts.iter().all(|n| n.is_multiple_of(*ep));
    let larger = FACTORS.filter_map(|factor| recipe.parallel.ep.checked_mul(factor));
    larger.take_while(|ep| *ep <= most).filter(legal).take(2).collect()
}

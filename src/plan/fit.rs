//! What to change so that a plan fits: the recipe compiled again with one thing different.

use super::compile::{Task, compile};
use crate::recipe::{Ffn, Recipe, Recompute};

/// By how much sizes are changed, the smallest first.
const FACTORS: std::ops::RangeInclusive<u64> = 2..=64;

/// A change to a recipe and what it would lead to.
#[derive(Debug, Clone, PartialEq)]
pub struct Remedy {
    /// As one would write it: `recompute = full`.
    pub change: String,
    /// Bytes of a device.
    pub peak: u64,
    /// Seconds of a step, and as it is now.
    pub step: f64,
    pub before: f64,
}

/// Changes after which less memory than `peak` is needed, single ones first, and of those the fastest step.
pub fn remedies(recipe: &Recipe, peak: u64) -> Vec<Remedy> {
    let before = compile(recipe, None, Task::Train).time.step;
    let tried = changes(recipe).into_iter().map(|(change, changed)| {
        let plan = compile(&changed, None, Task::Train);
        Remedy { change, peak: plan.memory.peak, step: plan.time.step, before }
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
    if recomputes {
        change("`recompute = full`".into(), &|r| r.parallel.recompute = Recompute::Full);
    }
    if parallel.prefetch > 0 {
        change("`prefetch = 0`".into(), &|r| r.parallel.prefetch = 0);
    }
    for size in FACTORS.filter(|factor| micro.is_multiple_of(*factor)).map(|factor| micro / factor).take(3) {
        change(format!("`micro_batch = {size}`"), &|r| r.train.micro_batch = size);
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

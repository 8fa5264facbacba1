//! What to change so that a plan fits: the recipe compiled again with one thing different.

use super::compile::{Task, compile};
use crate::recipe::{Ffn, Recipe, Recompute};

/// A change to a recipe and what it would lead to.
#[derive(Debug, Clone, PartialEq)]
pub struct Remedy {
    /// As one would write it: `recompute = full`.
    pub change: String,
    /// Bytes of a device, and seconds of a step.
    pub peak: u64,
    pub step: f64,
}

/// Single changes that need less memory than `peak`, the fastest step first.
pub fn remedies(recipe: &Recipe, peak: u64) -> Vec<Remedy> {
    let tried = changes(recipe).into_iter().map(|(change, changed)| {
        let plan = compile(&changed, None, Task::Train);
        Remedy { change, peak: plan.memory.peak, step: plan.time.step }
    });
    let mut remedies: Vec<Remedy> = tried.filter(|remedy| remedy.peak < peak).collect();
    remedies.sort_by(|a, b| a.step.total_cmp(&b.step).then(a.peak.cmp(&b.peak)));
    remedies
}

/// The recipes that differ in one thing and are still legal.
fn changes(recipe: &Recipe) -> Vec<(String, Recipe)> {
    let mut changes = Vec::new();
    let mut change = |what: String, change: &dyn Fn(&mut Recipe)| {
        let mut changed = recipe.clone();
        change(&mut changed);
        changes.push((what, changed));
    };
    let (parallel, train) = (&recipe.parallel, &recipe.train);
    let devices = recipe.cluster.devices();
    if parallel.recompute == Recompute::None {
        change("recompute = full".into(), &|r| r.parallel.recompute = Recompute::Full);
    }
    if parallel.prefetch > 0 {
        change("prefetch = 0".into(), &|r| r.parallel.prefetch = 0);
    }
    if train.micro_batch.is_multiple_of(2) {
        let half = train.micro_batch / 2;
        change(format!("micro_batch = {half}"), &|r| r.train.micro_batch = half);
    }
    if parallel.fsdp < devices {
        change(format!("fsdp = {devices}"), &|r| r.parallel.fsdp = devices);
    }
    let ep_fsdp = devices / parallel.ep;
    if parallel.ep_fsdp < ep_fsdp {
        change(format!("ep_fsdp = {ep_fsdp}"), &|r| r.parallel.ep_fsdp = ep_fsdp);
    }
    for ep in larger_ep(recipe) {
        let ep_fsdp = devices / ep;
        change(format!("ep = {ep}, ep_fsdp = {ep_fsdp}"), &|r| {
            (r.parallel.ep, r.parallel.ep_fsdp) = (ep, ep_fsdp);
        });
    }
    changes
}

/// The next sizes of expert parallelism that divide the devices and all experts.
fn larger_ep(recipe: &Recipe) -> Vec<u64> {
    let mtp = recipe.model.mtp.iter().map(|mtp| &mtp.ffn);
    let ffns = recipe.model.blocks.iter().map(|layer| &layer.ffn).chain(mtp);
    let experts = ffns.filter_map(|ffn| match ffn {
        Ffn::Moe(moe) => Some(moe.experts),
        Ffn::Dense(_) => None,
    });
    let experts: Vec<u64> = experts.collect();
    let devices = recipe.cluster.devices();
    let most = experts.iter().copied().min().unwrap_or(0).min(devices);
    let legal = |ep: &u64| devices.is_multiple_of(*ep) && experts.iter().all(|n| n.is_multiple_of(*ep));
    (recipe.parallel.ep + 1..=most).filter(legal).take(2).collect()
}

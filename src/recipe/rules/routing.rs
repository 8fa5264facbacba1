//! Rules on how tokens choose experts.

use super::divide::{either, nearest_divisors};
use super::parallel::moe_blocks;
use crate::base::DType;
use crate::diag::{Diagnostic, Sink};
use crate::recipe::origins::Origins;
use crate::recipe::schema::model::{Moe, Weights};
use crate::recipe::schema::recipe::Recipe;

/// Bytes of one layer's experts from which gathering all of them on every rank is worth a word.
const MANY: u64 = 256 << 20;

/// Holds `recipe` against the rules on routers.
pub fn check(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    for (name, moe) in moe_blocks(recipe) {
        let at = format!("model.moe {name}");
        top_k(&at, name, moe, origins, sink);
        groups(&at, name, moe, origins, sink);
        balance(&at, recipe, moe, origins, sink);
        precision(&at, recipe, moe, origins, sink);
    }
    whole_layers(recipe, origins, sink);
}

/// A token goes to different experts.
fn top_k(at: &str, name: &str, moe: &Moe, origins: &Origins, sink: &mut Sink) {
    if moe.top_k <= moe.experts {
        return;
    }
    let message = format!("`top_k` = {} of only {} experts in `{name}`", moe.top_k, moe.experts);
    let problem = Diagnostic::error("step::model::top_k", message)
        .label(origins.nearest(&format!("{at}.top_k")), format!("{} experts a token", moe.top_k))
        .label(origins.span(&format!("{at}.experts")), format!("{} experts", moe.experts));
    sink.push(problem.help(format!("`top_k` is at most {}", moe.experts)));
}

/// Groups are equal, and those that a token keeps to hold enough experts.
fn groups(at: &str, name: &str, moe: &Moe, origins: &Origins, sink: &mut Sink) {
    let (experts, top_k) = (moe.experts, moe.top_k);
    let (groups, top_groups) = (moe.router.groups, moe.router.top_groups);
    let place = |key: &str| origins.nearest(&format!("{at}.router.{key}"));
    if !experts.is_multiple_of(groups) {
        let message = format!("`groups` = {groups} does not divide the {experts} experts of `{name}`");
        let fits = nearest_divisors(experts, groups, |_| true);
        let problem = Diagnostic::error("step::model::groups", message)
            .label(place("groups"), format!("{groups} equal groups"))
            .label(origins.span(&format!("{at}.experts")), format!("{experts} experts"));
        sink.push(problem.help(format!("`groups` must divide {experts}: nearest {}", either(&fits))));
    } else if top_groups > groups {
        let message = format!("`top_groups` = {top_groups} of only {groups} groups in `{name}`");
        let problem = Diagnostic::error("step::model::top_groups", message)
            .label(place("top_groups"), format!("a token keeps to {top_groups}"))
            .label(origins.span(&format!("{at}.router.groups")), format!("{groups} groups"));
        sink.push(problem.help(format!("`top_groups` is at most {groups}")));
    } else if top_k <= experts && u128::from(experts / groups) * u128::from(top_groups) < u128::from(top_k) {
        let each = experts / groups;
        let message =
            format!("`top_k` = {top_k}, but {top_groups} groups of {each} experts are {}", each * top_groups);
        let problem = Diagnostic::error("step::model::top_k", message)
            .label(origins.nearest(&format!("{at}.top_k")), format!("{top_k} experts a token"))
            .label(place("top_groups"), format!("a token keeps to {top_groups} of {groups} groups"))
            .label(origins.span(&format!("{at}.experts")), format!("{experts} experts"));
        sink.push(problem.help(format!("`top_groups` must be at least {}", top_k.div_ceil(each))));
    }
}

/// What evens out the load of experts has something to act on.
fn balance(at: &str, recipe: &Recipe, moe: &Moe, origins: &Origins, sink: &mut Sink) {
    let router = &moe.router;
    let place = |key: &str| origins.span(&format!("{at}.router.{key}"));
    if router.bias_update > 0.0 && !router.bias {
        let message = format!("`bias_update` = {:e} has no bias to act on", router.bias_update);
        let problem = Diagnostic::error("step::model::bias_update", message)
            .label(origins.nearest(&format!("{at}.router.bias_update")), "added to the bias of idle experts")
            .label(place("bias"), "there is none");
        sink.push(problem.help("write `bias = true`"));
    }
    let zero = router.bias && router.bias_update == 0.0 && router.aux_loss == 0.0;
    if zero && recipe.model.weights == Weights::Scratch && place("bias_update").is_some() {
        let message = "nothing evens out the load of experts: the router's bias stays 0";
        let problem = Diagnostic::warning("step::model::bias_frozen", message)
            .label(place("bias_update"), "the bias never changes")
            .label(origins.span("model.weights"), "and starts at 0");
        sink.push(problem.help("write `bias_update = 1e-3`, or leave `bias` out"));
    }
}

/// The small steps of a bias survive.
fn precision(at: &str, recipe: &Recipe, moe: &Moe, origins: &Origins, sink: &mut Sink) {
    let (router, params) = (&moe.router, recipe.parallel.precision.params);
    let steps = router.bias_update > 0.0 && router.precision != DType::F32;
    if !steps && router.precision.size() >= params.size() {
        return;
    }
    let (message, label) = if steps {
        let message = format!("steps of {:e} vanish in a bias of {}", router.bias_update, router.precision);
        (message, "too coarse for the router's bias")
    } else {
        let message = format!("the router computes in {}, the rest in {params}", router.precision);
        (message, "near ties turn out otherwise")
    };
    let problem = Diagnostic::warning("step::model::router_precision", message)
        .label(origins.nearest(&format!("{at}.router.precision")), label)
        .label(origins.span(&format!("{at}.router.bias_update")).filter(|_| steps), "added each step");
    sink.push(problem.help("write `precision = f32`: a router costs next to nothing"));
}

/// Without `ep` every rank gathers the experts of a whole layer; that should be meant.
fn whole_layers(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    let parallel = &recipe.parallel;
    if origins.span("parallel.ep").is_some() || parallel.stage_ranks(&recipe.cluster) == 1 {
        return;
    }
    let bytes = |moe: &Moe| {
        let matrices = [moe.experts, 3, moe.inner, recipe.model.hidden, parallel.precision.params.size()];
        matrices.iter().fold(1, |bytes: u64, n| bytes.saturating_mul(*n))
    };
    let blocks = moe_blocks(recipe);
    let Some((name, moe)) = blocks.into_iter().max_by_key(|(_, moe)| bytes(moe)) else { return };
    if bytes(moe) < MANY {
        return;
    }
    let message = format!(
        "every device gathers all {} experts of a layer of `{name}`, {:.1} GiB at a time",
        moe.experts,
        bytes(moe) as f64 / f64::from(1 << 30)
    );
    let problem = Diagnostic::warning("step::parallel::ep_unset", message)
        .label(origins.nearest("parallel"), "does not say `ep`")
        .label(origins.span(&format!("model.moe {name}.experts")), format!("{} experts", moe.experts));
    let ranks = parallel.stage_ranks(&recipe.cluster);
    let most = super::divide::divisors(moe.experts).into_iter().rev().find(|ep| ranks.is_multiple_of(*ep));
    sink.push(problem.help(format!(
        "`ep = {}` sends tokens to experts instead; write `ep = 1` where this is meant",
        most.unwrap_or(1)
    )));
}

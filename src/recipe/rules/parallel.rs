//! Rules on how work is divided over devices.

use super::divide::{divisors, either, nearest_divisors};
use crate::base::DType;
use crate::diag::{Diagnostic, Sink};
use crate::recipe::origins::Origins;
use crate::recipe::schema::model::{Ffn, Moe};
use crate::recipe::schema::recipe::Recipe;
use std::collections::BTreeMap;

/// Holds `recipe` against the rules on the division of work.
pub fn check(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    experts(recipe, origins, sink);
    groups(recipe, origins, sink);
    fsdp(recipe, origins, sink);
    precision(recipe, origins, sink);
}

/// The kinds of expert layers in use, by name; that of multi-token prediction as `mtp`.
pub fn moe_blocks(recipe: &Recipe) -> BTreeMap<&str, &Moe> {
    let layers = recipe.model.blocks.iter().map(|layer| (layer.ffn_name.as_str(), &layer.ffn));
    let mtp = recipe.model.mtp.iter().map(|mtp| ("mtp", &mtp.ffn));
    let blocks = mtp.chain(layers).filter_map(|(name, ffn)| match ffn {
        Ffn::Moe(moe) => Some((name, moe)),
        Ffn::Dense(_) => None,
    });
    blocks.collect()
}

/// Every rank of an expert group holds the same number of whole experts.
fn experts(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    let (ep, devices) = (recipe.parallel.ep, recipe.cluster.devices());
    let place = origins.nearest("parallel.ep");
    let blocks = moe_blocks(recipe);
    if blocks.is_empty() && ep > 1 {
        let message = format!("`ep` is {ep}, but no layer of `{}` has experts", recipe.model.name);
        let problem =
            Diagnostic::error("step::parallel::ep_dense", message).label(place, "nothing to divide");
        sink.push(problem.help("leave `ep` out, or write `ep = 1`"));
    }
    for (name, moe) in blocks {
        let experts = moe.experts;
        if experts.is_multiple_of(ep) {
            continue;
        }
        let fits = nearest_divisors(experts, ep, |ep| devices.is_multiple_of(ep));
        let each = experts as f64 / ep as f64;
        let mut problem = Diagnostic::error(
            "step::parallel::ep_experts",
            format!("`ep` = {ep} does not divide the {experts} experts of `{name}`"),
        )
        .label(place, format!("each rank would hold {each:.2} experts"));
        if let Some(source) = origins.span(&format!("model.moe {name}.experts")) {
            problem = problem.label(source, format!("{experts} experts"));
        }
        sink.push(problem.help(format!(
            "`ep` must divide {experts} and the {devices} devices: nearest {}",
            either(&fits)
        )));
    }
}

/// Expert groups tile the devices.
fn groups(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    let (ep, ep_fsdp, devices) = (recipe.parallel.ep, recipe.parallel.ep_fsdp, recipe.cluster.devices());
    let product = ep.checked_mul(ep_fsdp);
    if product.is_some_and(|product| devices.is_multiple_of(product)) {
        return;
    }
    let size = product.map_or_else(|| "too large a number".to_owned(), |product| product.to_string());
    let problem = Diagnostic::error(
        "step::parallel::ep_devices",
        format!("`ep` × `ep_fsdp` = {ep} × {ep_fsdp} = {size} does not divide the {devices} devices"),
    );
    let ep_fsdp_place = origins.span("parallel.ep_fsdp");
    let problem = problem
        .label(ep_fsdp_place.or_else(|| origins.nearest("parallel.ep")), format!("{size} devices in a group"))
        .label(origins.span("parallel.ep").filter(|_| ep_fsdp_place.is_some()), format!("`ep` is {ep}"))
        .label(origins.nearest("cluster.nodes"), format!("{devices} devices"));
    sink.push(if devices.is_multiple_of(ep) {
        let fits: Vec<_> = divisors(devices / ep).iter().rev().take(4).rev().copied().collect();
        problem.help(format!("with `ep = {ep}`, `ep_fsdp` can be {}", either(&fits)))
    } else {
        let fits = nearest_divisors(devices, ep, |_| true);
        problem.help(format!("`ep` must divide {devices}: nearest {}", either(&fits)))
    });
}

/// Shards, and the replicas of hybrid sharding, tile the devices.
fn fsdp(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    let (fsdp, devices) = (recipe.parallel.fsdp, recipe.cluster.devices());
    if devices.is_multiple_of(fsdp) {
        return;
    }
    let message = format!("`fsdp` = {fsdp} does not divide the {devices} devices");
    let problem = Diagnostic::error("step::parallel::fsdp_devices", message)
        .label(origins.nearest("parallel.fsdp"), format!("{fsdp} shards"))
        .label(origins.nearest("cluster.nodes"), format!("{devices} devices"));
    let fits = nearest_divisors(devices, fsdp, |_| true);
    sink.push(problem.help(format!("`fsdp` must divide {devices}: nearest {}", either(&fits))));
}

/// Nothing is summed or kept in less precision than it is computed in.
fn precision(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    let precision = &recipe.parallel.precision;
    let params = precision.params;
    let kept = [("reduce", precision.reduce, "summed"), ("optimizer", precision.optimizer, "updated")];
    for (key, dtype, done) in kept {
        let mixed_halves = dtype.size() == params.size() && dtype != params;
        if dtype.size() > params.size() || (dtype == params && (dtype != DType::F16 || key == "reduce")) {
            continue;
        }
        let why = if mixed_halves { "another range" } else { "less precision" };
        let message = format!("`{key}` = {dtype} loses what is computed in {params}");
        let problem = Diagnostic::error("step::parallel::precision", message)
            .label(origins.nearest(&format!("parallel.precision.{key}")), format!("{done} with {why}"))
            .label(origins.span("parallel.precision.params"), format!("parameters are {params}"));
        sink.push(problem.help(format!("write `{key} = f32`")));
    }
}

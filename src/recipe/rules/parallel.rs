//! Rules on how work is divided over devices: the mesh, and what its axes divide.

use super::divide::{divisors, either, nearest_divisors};
use crate::diag::{Diagnostic, Sink};
use crate::recipe::origins::Origins;
use crate::recipe::schema::model::{Ffn, Moe};
use crate::recipe::schema::recipe::Recipe;
use std::collections::BTreeMap;

/// Holds `recipe` against the rules on the division of work. False where its axes do not even tile the devices, so
/// that nothing can be said about the ranks of any of them.
pub fn check(recipe: &Recipe, origins: &Origins, sink: &mut Sink) -> bool {
    let tiled = mesh(recipe, origins, sink);
    experts(recipe, origins, sink);
    if tiled {
        groups(recipe, origins, sink);
        fsdp(recipe, origins, sink);
    }
    tiled
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

/// The axes of `keys` that are longer than 1, multiplied: `` `tp` × `pp` = 2 × 4 = 8 ``.
pub fn product(recipe: &Recipe, keys: &[&str]) -> String {
    let axes: Vec<_> = axes(recipe).into_iter().filter(|(key, n)| *n > 1 && keys.contains(key)).collect();
    let names: Vec<_> = axes.iter().map(|(key, _)| format!("`{key}`")).collect();
    let sizes: Vec<_> = axes.iter().map(|(_, n)| n.to_string()).collect();
    let whole: u128 = axes.iter().map(|(_, n)| u128::from(*n)).product();
    match axes.as_slice() {
        [_] => format!("{} = {whole}", names[0]),
        _ => format!("{} = {} = {whole}", names.join(" × "), sizes.join(" × ")),
    }
}

fn axes(recipe: &Recipe) -> [(&'static str, u64); 3] {
    let parallel = &recipe.parallel;
    [("tp", parallel.tp), ("cp", parallel.cp), ("pp", parallel.pp)]
}

/// Tensor, context and pipeline parallelism leave a whole number of ranks for data.
fn mesh(recipe: &Recipe, origins: &Origins, sink: &mut Sink) -> bool {
    let devices = recipe.cluster.devices();
    let whole: u128 = axes(recipe).iter().map(|(_, n)| u128::from(*n)).product();
    if u128::from(devices).is_multiple_of(whole) {
        return true;
    }
    let keys = ["tp", "cp", "pp"];
    let message = format!("{} does not divide the {devices} devices", product(recipe, &keys));
    let mut problem = Diagnostic::error("step::parallel::mesh", message);
    // The longest axis is the one that most likely has to give.
    let mut long: Vec<_> = axes(recipe).into_iter().filter(|(_, n)| *n > 1).collect();
    long.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    for (key, n) in &long {
        let place = origins.nearest(&format!("parallel.{key}"));
        problem = problem.label(place, format!("`{key}` is {n}"));
    }
    problem = problem.label(origins.nearest("cluster.nodes"), format!("{devices} devices"));
    let advice = long.iter().find_map(|(key, n)| {
        let others = whole / u128::from(*n);
        let room = u128::from(devices).is_multiple_of(others).then(|| u128::from(devices) / others)?;
        let fits = nearest_divisors(u64::try_from(room).ok()?, *n, |_| true);
        Some(format!("`{key}` must divide {room}: nearest {}", either(&fits)))
    });
    sink.push(
        problem.help(
            advice.unwrap_or_else(|| {
                format!("the product must divide {devices}; the rest are the ranks of data")
            }),
        ),
    );
    false
}

/// The ranks of a stage in words.
fn stage(recipe: &Recipe) -> String {
    let ranks = recipe.parallel.stage_ranks(&recipe.cluster);
    match recipe.parallel.pp {
        1 => format!("the {ranks} devices"),
        pp => format!("the {ranks} devices of a stage, {} / {pp} `pp`", recipe.cluster.devices()),
    }
}

/// Every rank of an expert group holds the same number of whole experts.
fn experts(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    let (ep, devices) = (recipe.parallel.ep, recipe.parallel.stage_ranks(&recipe.cluster));
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
        let help = format!("`ep` must divide {experts} and {}: nearest {}", stage(recipe), either(&fits));
        sink.push(problem.help(help));
    }
}

/// Expert groups tile the devices of a stage, whatever else divides them: the ranks of `tp` and `cp` are folded in.
fn groups(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    let (ep, ep_fsdp) = (recipe.parallel.ep, recipe.parallel.ep_fsdp);
    let devices = recipe.parallel.stage_ranks(&recipe.cluster);
    let product = ep.checked_mul(ep_fsdp);
    if product.is_some_and(|product| devices.is_multiple_of(product)) {
        return;
    }
    let size = product.map_or_else(|| "too large a number".to_owned(), |product| product.to_string());
    let problem = Diagnostic::error(
        "step::parallel::ep_devices",
        format!("`ep` × `ep_fsdp` = {ep} × {ep_fsdp} = {size} does not divide {}", stage(recipe)),
    );
    let ep_fsdp_place = origins.span("parallel.ep_fsdp");
    let problem = problem
        .label(ep_fsdp_place.or_else(|| origins.nearest("parallel.ep")), format!("{size} devices in a group"))
        .label(origins.span("parallel.ep").filter(|_| ep_fsdp_place.is_some()), format!("`ep` is {ep}"))
        .label(origins.span("parallel.pp"), format!("`pp` is {}", recipe.parallel.pp))
        .label(origins.nearest("cluster.nodes"), format!("{} devices", recipe.cluster.devices()));
    sink.push(if devices.is_multiple_of(ep) {
        let fits: Vec<_> = divisors(devices / ep).iter().rev().take(4).rev().copied().collect();
        problem.help(format!("with `ep = {ep}`, `ep_fsdp` can be {}", either(&fits)))
    } else {
        let fits = nearest_divisors(devices, ep, |_| true);
        problem.help(format!("`ep` must divide {devices}: nearest {}", either(&fits)))
    });
}

/// Shards, and the replicas of hybrid sharding, tile the ranks of data and context.
fn fsdp(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    let (fsdp, devices) = (recipe.parallel.fsdp, recipe.cluster.devices());
    let ranks = recipe.parallel.data_ranks(&recipe.cluster) * recipe.parallel.cp;
    if ranks.is_multiple_of(fsdp) {
        return;
    }
    let of = match ranks == devices {
        true => format!("the {devices} devices"),
        false => {
            let others = product(recipe, &["tp", "pp"]);
            format!("the {ranks} ranks of data and context: {devices} devices over {others}")
        }
    };
    let message = format!("`fsdp` = {fsdp} does not divide {of}");
    let mut problem = Diagnostic::error("step::parallel::fsdp_devices", message)
        .label(origins.nearest("parallel.fsdp"), format!("{fsdp} shards"));
    for (key, n) in axes(recipe).into_iter().filter(|(key, n)| *key != "cp" && *n > 1) {
        problem = problem.label(origins.span(&format!("parallel.{key}")), format!("`{key}` is {n}"));
    }
    problem = problem.label(origins.nearest("cluster.nodes"), format!("{devices} devices"));
    let fits = nearest_divisors(ranks, fsdp, |_| true);
    sink.push(problem.help(format!("`fsdp` must divide {ranks}: nearest {}", either(&fits))));
}

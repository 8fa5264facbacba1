//! Rules on tensor and context parallelism: what they divide comes out whole on every rank.

use super::divide::{divisors, either, gcd, nearest_divisors, nearest_multiples, some};
use super::model::trained_attentions;
use super::parallel::product;
use crate::diag::{Diagnostic, Sink};
use crate::recipe::origins::Origins;
use crate::recipe::schema::model::{Ffn, Mlp};
use crate::recipe::schema::parallel::CpKind;
use crate::recipe::schema::recipe::Recipe;
use std::collections::BTreeMap;

/// Holds `recipe` against the rules on heads, widths, vocabulary and positions.
pub fn check(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    tensor(recipe, origins, sink);
    context(recipe, origins, sink);
    positions(recipe, origins, sink);
}

/// A count of the model that an axis divides: its place, and what it counts.
struct Divided {
    code: &'static str,
    path: String,
    what: String,
    count: u64,
}

/// Heads of every kind of attention: keys and values first, of which there are fewer.
fn heads(recipe: &Recipe, code: &'static str) -> Vec<Divided> {
    let kinds = trained_attentions(recipe);
    let of = |key: &str, what: &str, count: fn(&crate::recipe::schema::model::Attention) -> u64| {
        let kinds = kinds.iter().map(|(name, attention)| Divided {
            code,
            path: format!("model.attention {name}.{key}"),
            what: format!("{what} of `{name}`"),
            count: count(attention),
        });
        kinds.collect::<Vec<_>>()
    };
    let mut heads = of("kv_heads", "heads of keys and values", |attention| attention.kv_heads);
    heads.extend(of("heads", "heads", |attention| attention.heads));
    heads
}

/// The widths inside of dense layers and shared experts. Routed experts are whole on their rank.
fn widths(recipe: &Recipe) -> Vec<Divided> {
    let mut widths: BTreeMap<String, &Mlp> = BTreeMap::new();
    for layer in &recipe.model.blocks {
        match &layer.ffn {
            Ffn::Dense(mlp) => drop(widths.insert(format!("mlp {}", layer.ffn_name), mlp)),
            Ffn::Moe(moe) => {
                if let Some(shared) = &moe.shared {
                    widths.insert(format!("moe {}.shared", layer.ffn_name), shared);
                }
            }
        }
    }
    let divided = widths.into_iter().map(|(block, mlp)| Divided {
        code: "step::parallel::tp_inner",
        path: format!("model.{block}.inner"),
        what: format!("channels inside of `{block}`"),
        count: mlp.inner,
    });
    divided.collect()
}

/// Heads, widths and vocabulary divide over `tp`.
fn tensor(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    let tp = recipe.parallel.tp;
    let mut divided = heads(recipe, "step::parallel::tp_heads");
    divided.extend(widths(recipe));
    let vocab = recipe.model.vocab;
    let of_model = Divided {
        code: "step::parallel::tp_vocab",
        path: "model.vocab".into(),
        what: "tokens of the vocabulary".into(),
        count: vocab,
    };
    divided.push(of_model);
    let failing: Vec<&Divided> = divided.iter().filter(|part| !part.count.is_multiple_of(tp)).collect();
    let Some(first) = failing.first() else { return };
    let message = format!("`tp` = {tp} does not divide the {} {}", first.count, first.what);
    let mut problem = Diagnostic::error(first.code, message).label(
        origins.nearest("parallel.tp"),
        format!("each rank would hold {:.2} of them", first.count as f64 / tp as f64),
    );
    for part in &failing {
        // A kind of attention that copies another has its heads from the same place.
        let place = origins.span(&part.path).filter(|place| problem.labels.iter().all(|l| l.span != *place));
        problem = problem.label(place, format!("{} {}", part.count, part.what));
    }
    sink.push(if first.path == "model.vocab" {
        let padded = vocab.div_ceil(tp).saturating_mul(tp);
        problem.help(format!("`vocab = {padded}` divides: {} rows of padding", padded - vocab))
    } else {
        let common = divided.iter().filter(|part| part.path != "model.vocab");
        let common = common.fold(0, |common, part| gcd(common, part.count));
        problem.help(format!("`tp` can be {}", some(&divisors(common))))
    });
}

/// Ulysses exchanges positions for heads, so every rank needs whole heads.
fn context(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    let parallel = &recipe.parallel;
    let both = parallel.tp.saturating_mul(parallel.cp);
    if parallel.cp == 1 || parallel.cp_kind == CpKind::Ring {
        return;
    }
    let divided = heads(recipe, "step::parallel::cp_heads");
    // Those that `tp` alone does not divide have been reported.
    let failing =
        |part: &&Divided| part.count.is_multiple_of(parallel.tp) && !part.count.is_multiple_of(both);
    let Some(first) = divided.iter().find(failing) else { return };
    let message =
        format!("{} does not divide the {} {}", product(recipe, &["tp", "cp"]), first.count, first.what);
    let mut problem = Diagnostic::error(first.code, message)
        .label(origins.nearest("parallel.cp"), "`ulysses` gives each rank whole heads")
        .label(origins.span("parallel.tp").filter(|_| parallel.tp > 1), format!("`tp` is {}", parallel.tp));
    for part in divided.iter().filter(failing) {
        // A kind of attention that copies another has its heads from the same place.
        let place = origins.span(&part.path).filter(|place| problem.labels.iter().all(|l| l.span != *place));
        problem = problem.label(place, format!("{} {}", part.count, part.what));
    }
    let common = divided.iter().fold(0, |common, part| gcd(common, part.count)) / parallel.tp;
    let fits = nearest_divisors(common.max(1), parallel.cp, |_| true);
    sink.push(problem.help(format!("`cp` can be {}, or write `cp_kind = ring`", either(&fits))));
}

/// Every rank has the same number of positions; a ring deals each two parts, so that causal work comes out even.
fn positions(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    let (parallel, sequence) = (&recipe.parallel, recipe.data.sequence);
    let ring = parallel.cp > 1 && parallel.cp_kind == CpKind::Ring;
    let halves: u64 = if ring { 2 } else { 1 };
    let finest = halves / gcd(halves, parallel.tp) * parallel.tp;
    let parts = parallel.cp.saturating_mul(finest);
    if sequence.is_multiple_of(parts) {
        return;
    }
    let why = match (ring, parallel.tp > 1) {
        (true, false) => format!("2 × `cp` = 2 × {} = {parts} equal parts", parallel.cp),
        (true, true) => format!("{parts} equal parts, a multiple of 2 × `cp` and of `cp` × `tp`"),
        (false, _) => format!("{} equal parts", product(recipe, &["tp", "cp"])),
    };
    let message = format!("`sequence` = {sequence} does not divide into {why}");
    let key = if parallel.cp > 1 { "cp" } else { "tp" };
    let problem = Diagnostic::error("step::parallel::sequence", message)
        .label(origins.nearest("data.sequence"), format!("{sequence} tokens"))
        .label(origins.span(&format!("parallel.{key}")), "divides every sequence");
    let fits = nearest_multiples(parts, sequence);
    sink.push(problem.help(format!("nearest multiples of {parts}: {}", either(&fits))));
}

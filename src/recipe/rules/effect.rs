//! Values that are written and change nothing.

use crate::diag::{Diagnostic, Sink};
use crate::recipe::origins::Origins;
use crate::recipe::schema::data::Format;
use crate::recipe::schema::model::{Act, Ffn};
use crate::recipe::schema::recipe::Recipe;
use crate::recipe::schema::train::Stage;
use std::path::Path;

/// A field, the field on whose account it is idle, and why.
struct Idle {
    path: String,
    cause: String,
    why: String,
    idle: bool,
}

/// Warns of every value that is written and has no effect. A value that a later layer of the recipe has made idle (a
/// profile that turns `cp` off) is left in peace: it is there for the recipe below.
pub fn check(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    for Idle { path, cause, why, .. } in candidates(recipe).into_iter().filter(|idle| idle.idle) {
        let via = |path: &str| origins.chain(path).first().map(|origin| origin.via);
        let Some(written) = via(&path) else { continue };
        if via(&cause).is_some_and(|cause| cause > written) {
            continue;
        }
        let key = path.rsplit('.').next().unwrap_or(&path);
        let message = format!("`{key}` has no effect: {why}");
        let problem = Diagnostic::warning("step::recipe::no_effect", message)
            .label(origins.span(&path), "changes nothing")
            .label(origins.span(&cause), "because of this");
        sink.push(problem.help("leave it out"));
    }
}

fn candidates(recipe: &Recipe) -> Vec<Idle> {
    let (parallel, train) = (&recipe.parallel, &recipe.train);
    let tokens = train.micro_batch.saturating_mul(recipe.data.sequence);
    let idle = |path: &str, cause: &str, why: &str, idle: bool| Idle {
        path: path.into(),
        cause: cause.into(),
        why: why.into(),
        idle,
    };
    let no_experts = super::parallel::moe_blocks(recipe).is_empty();
    let mut found = vec![
        idle("parallel.cp_kind", "parallel.cp", "`cp` is 1, no sequence is divided", parallel.cp == 1),
        idle(
            "parallel.reshard_after_forward",
            "parallel.fsdp",
            "`fsdp` is 1, nothing is gathered",
            parallel.fsdp == 1 && parallel.ep_fsdp == 1,
        ),
        idle("parallel.ep_fsdp", "model", "no layer has experts", no_experts && parallel.ep_fsdp > 1),
        idle(
            "parallel.ep_imbalance",
            "parallel.ep",
            "`ep` is 1, no token travels",
            parallel.ep == 1 && parallel.ep_imbalance.is_some(),
        ),
        idle(
            "train.loss_chunk",
            "train.micro_batch",
            &format!("a micro batch has {tokens} rows of logits"),
            train.loss_chunk.is_some_and(|rows| rows >= tokens),
        ),
    ];
    for path in ["data.chat", "data.unsupervised"] {
        let why = "only in fine-tuning records are conversations";
        found.push(idle(path, "train.stage", why, train.stage == Stage::Pretrain));
    }
    for (name, moe) in super::parallel::moe_blocks(recipe) {
        let at = format!("model.moe {name}.router");
        let single = moe.router.groups == 1 && moe.router.top_groups == 1;
        for field in ["top_groups", "group_score"] {
            let groups = format!("{at}.groups");
            found.push(idle(&format!("{at}.{field}"), &groups, "there is one group", single));
        }
    }
    found.extend(feed_forward(recipe));
    for (name, source) in &recipe.data.sources {
        let at = format!("data.source {name}");
        let why = "only plain text is divided by it";
        let idle =
            idle(&format!("{at}.separator"), &format!("{at}.path"), why, !plain(source.format, &source.path));
        found.push(idle);
    }
    found
}

/// What only some feed-forward layers use.
fn feed_forward(recipe: &Recipe) -> Vec<Idle> {
    let idle = |path: String, cause: String, why: &str, idle| Idle { path, cause, why: why.into(), idle };
    let mut found = Vec::new();
    for layer in &recipe.model.blocks {
        let (kind, act) = match &layer.ffn {
            Ffn::Dense(mlp) => ("mlp", mlp.act),
            Ffn::Moe(moe) => ("moe", moe.act),
        };
        let at = format!("model.{kind} {}", layer.ffn_name);
        let (alpha, cause) = (format!("{at}.alpha"), format!("{at}.act"));
        found.push(idle(alpha, cause, "only `swiglu_oai` has it", act != Act::SwiGluOai));
        if let Ffn::Moe(moe) = &layer.ffn {
            let (gate, shared) = (format!("{at}.shared_gate"), format!("{at}.shared"));
            found.push(idle(
                gate,
                shared,
                "there is no shared expert",
                moe.shared_gate && moe.shared.is_none(),
            ));
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found.dedup_by(|a, b| a.path == b.path);
    found
}

/// Whether a source is plain text, as far as its name tells.
fn plain(format: Format, path: &Path) -> bool {
    let name = path.to_string_lossy();
    let name = name.trim_end_matches(".gz").trim_end_matches(".zst");
    let records = [".jsonl", ".ndjson", ".json", ".parquet", ".pq", ".arrow", ".feather"];
    match format {
        Format::Text => true,
        Format::Auto => !records.iter().any(|end| name.ends_with(end)),
        Format::Jsonl | Format::Json | Format::Parquet | Format::Arrow => false,
    }
}

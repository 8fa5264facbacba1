//! What has changed between the run that wrote a checkpoint and the one that is to go on from it.
//!
//! Both sides are compared field by field as they are written to the manifest; one table says what a difference means. Layout,
//! machine and micro batches are not in it: a checkpoint is read by any of them.

use super::manifest::Manifest;
use crate::diag::{Diagnostic, Severity};
use crate::model::Parameter;
use crate::plan::Contents;
use crate::recipe::{Origins, Schedule};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What a difference means.
enum Means {
    /// Nothing: the run goes on as it would have.
    Nothing,
    /// It goes on, but not as it would have.
    Warning(&'static str, &'static str),
    /// It cannot go on.
    Error(&'static str, &'static str),
}

use Means::{Error, Nothing, Warning};

/// What a difference in a field means, by the beginning of its path; the first that fits holds.
const FIELDS: &[(&str, Means)] = &[
    ("model.name", Nothing),
    ("model.weights", Nothing),
    ("model.init", Nothing),
    (
        "model",
        Warning("step::resume::architecture", "the same parameters compute something else from here on"),
    ),
    ("data.tokenizer", Nothing),
    (
        "data.sequence",
        Error("step::resume::sequence", "the position in the data counts sequences of that length"),
    ),
    (
        "data",
        Warning(
            "step::resume::data",
            "sequences come from other data from here on; a source that is as it was goes on where it stood",
        ),
    ),
    (
        "train.seed",
        Error("step::resume::seed", "it orders the data: documents would come again, others never"),
    ),
    ("train.micro_batch", Nothing),
    ("train.loss_chunk", Nothing),
    (
        "train.steps",
        Warning("step::resume::schedule", "the cosine ends elsewhere: the learning rate jumps here"),
    ),
    (
        "train.schedule",
        Warning("step::resume::schedule", "the learning rate follows another curve from here on"),
    ),
    ("train.optimizer.", Warning("step::resume::train", "steps are not what they were from here on")),
    (
        "train.optimizer",
        Error("step::resume::optimizer", "its state is another: export the weights and begin from them"),
    ),
    ("train", Warning("step::resume::train", "steps are not what they were from here on")),
];

/// Holds a run that is to begin, `now`, against the checkpoint it is to go on from, `then`.
///
/// # Errors
/// Everything that keeps the run from going on; warnings otherwise.
pub fn compare(
    then: &Manifest,
    now: &Manifest,
    origins: Option<&Origins>,
) -> Result<Vec<Diagnostic>, Vec<Diagnostic>> {
    let place = |path: &str| origins.and_then(|origins| origins.nearest(path));
    if then.contents == Contents::Weights {
        let message = format!("the checkpoint of step {} holds weights only", then.step);
        return Err(vec![Diagnostic::error("step::resume::weights_only", message).help(
            "a run goes on from a `step-…` folder; to begin anew from these weights, export them with \
             `stepc export hf` and name the folder in `model.weights`",
        )]);
    }
    if let Some(problem) = parameters(&then.params, &now.params) {
        return Err(vec![problem.label(place("model"), "this model")]);
    }
    let mut found = Vec::new();
    if then.tokenizer != now.tokenizer {
        let message = "the tokenizer is not the one that the checkpoint was trained with";
        let problem = Diagnostic::error("step::resume::tokenizer", message)
            .label(place("data.tokenizer"), "its file differs");
        found.push(problem.help("the same number would stand for another token: use the file of that run"));
    }
    let cosine = matches!(now.train.schedule, Schedule::Cosine(_));
    for (path, (then, now)) in differences(then, now) {
        let means = FIELDS.iter().find(|(begin, _)| path.starts_with(begin)).map(|(_, means)| means);
        let message = format!("`{path}` was {then} and is {now}");
        let (problem, why) = match means {
            Some(Error(code, why)) => (Diagnostic::error(code, message), why),
            Some(Warning(code, why)) if cosine || path != "train.steps" => {
                (Diagnostic::warning(code, message), why)
            }
            _ => continue,
        };
        found.push(problem.label(place(&path), "changed").help(*why));
    }
    if found.iter().any(|problem| problem.severity == Severity::Error) { Err(found) } else { Ok(found) }
}

/// The first difference between two models' parameters.
fn parameters(then: &[Parameter], now: &[Parameter]) -> Option<Diagnostic> {
    let shown = |p: &Parameter| format!("`{}` {:?}", p.name, p.shape);
    let message = match then.iter().zip(now).find(|(a, b)| a.name != b.name || a.shape != b.shape) {
        Some((a, b)) => format!("the checkpoint has {}, where the model has {}", shown(a), shown(b)),
        None if then.len() != now.len() => {
            format!("the checkpoint has {} parameters, the model has {}", then.len(), now.len())
        }
        None => return None,
    };
    Some(
        Diagnostic::error("step::resume::model", message)
            .help("a run goes on with the model it began with; choose a checkpoint of this one"),
    )
}

/// Every field that differs, with both values; of a field of all layers the first layer's.
fn differences(then: &Manifest, now: &Manifest) -> BTreeMap<String, (String, String)> {
    let fields = |m: &Manifest| json!({ "model": m.model, "data": m.data, "train": m.train });
    let mut found = BTreeMap::new();
    walk("", &fields(then), &fields(now), &mut found);
    found
}

fn walk(path: &str, then: &Value, now: &Value, found: &mut BTreeMap<String, (String, String)>) {
    match (then, now) {
        (Value::Object(a), Value::Object(b)) if a.keys().eq(b.keys()) => {
            for ((key, a), b) in a.iter().zip(b.values()) {
                walk(&below(path, key), a, b, found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() && a.iter().any(Value::is_object) => {
            a.iter().zip(b).for_each(|(a, b)| walk(path, a, b, found));
        }
        (a, b) if a != b => {
            found.entry(path.to_owned()).or_insert_with(|| (shown(a), shown(b)));
        }
        _ => {}
    }
}

/// The path of a field as a recipe has it: variants have no name of their own there, layers and sources are blocks.
fn below(path: &str, key: &str) -> String {
    match (path, key) {
        ("", key) => key.to_owned(),
        (path, key) if key.starts_with(char::is_uppercase) => path.to_owned(),
        ("model", "blocks") => "model.layer".to_owned(),
        ("data", "sources") => "data.source".to_owned(),
        ("data.source", name) => format!("data.source {name}"),
        (path, key) => format!("{path}.{key}"),
    }
}

/// A value in a line: of a block its name.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => format!("`{text}`"),
        Value::Object(fields) => {
            let names: Vec<_> = fields.keys().map(|name| name.to_lowercase()).collect();
            format!("`{}`", names.join(", "))
        }
        value => value.to_string(),
    }
}

//! From a `config.json` to a draft: which family it is of, and what that family's sizes are.

use super::families::{Sizes, llama, qwen3_moe, step3p5};
use super::keys::Keys;
use super::{Draft, models};
use crate::diag::Diagnostic;
use serde_json::Value;
use std::path::Path;

/// How the sizes of a family are read.
type Family = fn(&mut Keys<'_>) -> Option<Sizes>;

/// `model_type`, the model of the library that it varies, and its reader.
const FAMILIES: &[(&str, &str, Family)] = &[
    ("llama", "llama3_8b", llama),
    ("qwen3_moe", "qwen3_30b_a3b", qwen3_moe),
    ("step3p5", "step35_flash", step3p5),
];

/// A recipe called `name` for the architecture that the text of `file` describes.
///
/// # Errors
/// Everything in it that a recipe cannot express, each with its key.
pub fn from_config(name: &str, file: &Path, text: &str) -> Result<Draft, Vec<Diagnostic>> {
    let refuse = |what: String| {
        let problem = Diagnostic::error("step::new::config", format!("{}: {what}", file.display()));
        vec![problem.help("give a folder as it was downloaded, with the `config.json` of its checkpoint")]
    };
    let value: Value = serde_json::from_str(text).map_err(|error| refuse(format!("not JSON: {error}")))?;
    let object = value.as_object().ok_or_else(|| refuse("not a JSON object".to_owned()))?;
    let kind = object.get("model_type").and_then(Value::as_str);
    let family = FAMILIES.iter().find(|(known, ..)| Some(*known) == kind);
    let base = family.and_then(|(_, base, _)| models().into_iter().find(|model| model.name == *base));
    let (Some((_, _, read)), Some(base)) = (family, base) else {
        let known: Vec<_> = FAMILIES.iter().map(|(known, ..)| format!("`{known}`")).collect();
        let message = match kind {
            Some(kind) => format!("{}: `model_type` is `{kind}`", file.display()),
            None => format!("{}: `model_type` is missing", file.display()),
        };
        return Err(vec![Diagnostic::error("step::new::unsupported", message).help(format!(
            "known are {}; describe another architecture in a `model` of your own, from one that `stepc new --list` shows",
            known.join(", ")
        ))]);
    };
    let mut keys = Keys::new(file, object);
    let sizes = read(&mut keys);
    if sizes.is_some() {
        // Otherwise what is left may just not have been reached.
        keys.leftovers();
    }
    match sizes {
        Some(sizes) if keys.problems.is_empty() => {
            Ok(Draft { overrides: sizes.lines, ..Draft::of(name, base) })
        }
        _ => Err(keys.problems),
    }
}

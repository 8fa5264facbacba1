//! What an editor has this server do: the page of a plan, the page of a diagnostic.

use super::{Answer, Refusal};
use crate::diag::catalogue::page;
use crate::lsp::{Snapshot, uri};
use crate::plan::Savings;
use crate::recipe::{Resolved, library};
use crate::report::{Shown, Style};
use lsp_types::*;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;

/// The commands.
pub const COMMANDS: [&str; 3] = ["stepc.plan", "stepc.openPlan", "stepc.explain"];

/// What a command is about, as code lenses name it.
#[derive(Debug, Deserialize)]
struct Target {
    uri: Uri,
    recipe: Option<String>,
    profile: Option<String>,
}

/// Runs a command. Both that are about a plan answer with its page for a browser and for a terminal: `{ html, text }`.
pub fn execute(snapshot: &Arc<Snapshot>, params: ExecuteCommandParams) -> Answer<Option<Value>> {
    let argument = params.arguments.and_then(|arguments| arguments.into_iter().next()).unwrap_or_default();
    let unclear = |error: serde_json::Error| Refusal::Failed(format!("{}: {error}", params.command));
    match params.command.as_str() {
        "stepc.plan" | "stepc.openPlan" => {
            let target = match argument {
                Value::String(uri) => Target { uri: Uri(uri), recipe: None, profile: None },
                argument => serde_json::from_value(argument).map_err(unclear)?,
            };
            plan(snapshot, &target).map(Some)
        }
        "stepc.explain" => {
            let code: String = serde_json::from_value(argument).map_err(unclear)?;
            match page(&code) {
                Some(page) => Ok(Some(page.text.into())),
                None => Err(Refusal::Failed(format!("there is no code `{code}`"))),
            }
        }
        other => Err(Refusal::Failed(format!("there is no command `{other}`"))),
    }
}

fn plan(snapshot: &Arc<Snapshot>, target: &Target) -> Answer<Value> {
    let failed = |why: &str| Refusal::Failed(format!("`{}` {why}", target.uri));
    let path: PathBuf = snapshot.path(&target.uri).ok_or_else(|| failed("is not a file"))?;
    let project = snapshot.project(&path).ok_or_else(|| failed("cannot be read"))?;
    let checked = match &target.recipe {
        Some(name) => project.recipes.iter().find(|checked| checked.loaded.recipe() == name),
        None => project.recipes.first(),
    };
    let checked = checked.ok_or_else(|| failed("holds no such recipe"))?;
    let chosen = |resolved: &&Resolved| resolved.profile == target.profile;
    let resolved =
        checked.resolved.iter().find(chosen).ok_or_else(|| failed("has mistakes: they come first"))?;
    let shown: Arc<Shown> = snapshot.plans.shown(resolved);
    let savings: Savings = shown.savings(resolved);
    Ok(json!({ "html": shown.html(Some(&savings)), "text": shown.page(Style { color: false }) }))
}

/// The text of a file that is part of the program.
pub fn content(params: TextDocumentContentParams) -> Answer<TextDocumentContentResult> {
    let inside = uri::to_library(&params.uri);
    let text = inside.as_deref().and_then(|inside| match inside.strip_prefix("errors/") {
        Some(code) => page(code.trim_end_matches(".md")).map(|page| page.text),
        None => library::file(inside).map(|(_, text)| text),
    });
    match text {
        Some(text) => Ok(TextDocumentContentResult { text: text.to_owned() }),
        None => Err(Refusal::Failed(format!("there is no `{}`", params.uri))),
    }
}

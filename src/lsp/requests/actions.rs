//! Replacements that mend what is wrong.

use super::{Answer, View};
use crate::diag::{self, Fix};
use crate::lsp::publish::to_lsp;
use crate::lsp::{Project, uri};
use lsp_types::*;
use std::collections::HashMap;
use std::path::Path;

/// The fix of every problem at a place, and where an editor asks for it, all fixes of the file at once.
pub fn actions(view: &View, params: CodeActionParams) -> Answer<Option<Vec<CodeActionResponse>>> {
    let only = params.context.only;
    let wants = |kind: &CodeActionKind| {
        let within = |only: &CodeActionKind| kind.as_str().starts_with(only.as_str());
        only.as_ref().is_none_or(|only| only.iter().any(within))
    };
    let problems = view.diagnostics();
    let mut actions = Vec::new();
    if wants(&CodeActionKind::QuickFix) {
        let here = problems.iter().filter(|(project, problem)| is_at(view, project, problem, params.range));
        actions.extend(here.filter_map(|(project, problem)| mend(view, project, problem)));
    }
    if only.is_some() && wants(&CodeActionKind::SourceFixAll) {
        actions.extend(mend_all(view, &problems));
    }
    Ok(Some(actions.into_iter().map(CodeActionResponse::CodeAction).collect()))
}

fn is_at(view: &View, project: &Project, problem: &diag::Diagnostic, range: Range) -> bool {
    let places = project.place(problem).into_iter();
    let mut places = places.chain(problem.fix.iter().map(|fix| fix.span));
    places.any(|span| {
        let place = view.snapshot.location(project, span);
        place.uri == view.uri && place.range.start <= range.end && range.start <= place.range.end
    })
}

fn mend(view: &View, project: &Project, problem: &diag::Diagnostic) -> Option<CodeAction> {
    let fix = problem.fix.as_ref()?;
    let (uri, edit) = edit(view, project, fix)?;
    Some(CodeAction {
        title: title(project, fix),
        kind: Some(CodeActionKind::QuickFix),
        diagnostics: Some(vec![to_lsp(&view.snapshot, project, problem)]),
        is_preferred: Some(true),
        edit: Some(changes(HashMap::from([(uri, vec![edit])]))),
        ..CodeAction::default()
    })
}

/// The fixes of this file that do not touch one another.
fn mend_all(view: &View, problems: &[(std::sync::Arc<Project>, diag::Diagnostic)]) -> Option<CodeAction> {
    let fixes = problems.iter().filter_map(|(project, problem)| edit(view, project, problem.fix.as_ref()?));
    let mut edits: Vec<_> = fixes.filter(|(uri, _)| *uri == view.uri).map(|(_, edit)| edit).collect();
    edits.sort_by_key(|edit| edit.range);
    edits.dedup_by(|next, edit| next.range.start < edit.range.end || next.range == edit.range);
    (!edits.is_empty()).then(|| CodeAction {
        title: "Mend all that can be".to_owned(),
        kind: Some(CodeActionKind::SourceFixAll),
        edit: Some(changes(HashMap::from([(view.uri.clone(), edits)]))),
        ..CodeAction::default()
    })
}

/// The fix as an edit; `None` for a file of the library, which is part of the program.
fn edit(view: &View, project: &Project, fix: &Fix) -> Option<(Uri, TextEdit)> {
    let Location { uri, range } = view.snapshot.location(project, fix.span);
    let path = Path::new(project.sources.path(fix.span.file));
    uri::embedded(path).is_none().then(|| (uri, TextEdit { range, new_text: fix.text.clone() }))
}

fn changes(changes: HashMap<Uri, Vec<TextEdit>>) -> WorkspaceEdit {
    WorkspaceEdit { changes: Some(changes), ..WorkspaceEdit::default() }
}

fn title(project: &Project, fix: &Fix) -> String {
    let (old, new) = (project.sources.slice(fix.span).trim(), fix.text.trim());
    match (old, new) {
        ("", new) => format!("Insert `{new}`"),
        (old, "") => format!("Remove `{old}`"),
        (old, new) => format!("Replace `{old}` with `{new}`"),
    }
}

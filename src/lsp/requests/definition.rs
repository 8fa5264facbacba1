//! Where a name is defined, and where it is used.

use super::{Answer, View};
use crate::base::host::normal;
use crate::base::{Host, Span};
use crate::lsp::Project;
use crate::lsp::knowledge::{About, Mention, Names, Symbol, mention_at, mentions};
use crate::lsp::uri;
use crate::recipe::library;
use lsp_types::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub fn definition(view: &View, params: DefinitionParams) -> Answer<Option<DefinitionResponse>> {
    let names = Names::of(&view.project);
    let offset = view.offset(params.text_document_position_params.position);
    let found = mention_at(&names, view.file, offset).map(|mention| declarations(view, &names, &mention));
    Ok(found.filter(|found| !found.is_empty()).map(|found| Definition::LocationList(found).into()))
}

/// Where a mention leads: to what holds, and from there to what it goes over.
fn declarations<'t>(view: &View, names: &Names<'t>, mention: &Mention<'t>) -> Vec<Location> {
    let declared = &mention.declared;
    let place = match declared.iter().position(|span| *span == mention.span) {
        Some(own) => declared.get(own + 1).or(declared.get(own)),
        None => declared.first(),
    };
    if let Some(place) = place {
        return vec![view.location(*place)];
    }
    match &mention.about {
        About::Path { text, .. } => file(view, text).into_iter().collect(),
        // What is not set is what its default refers to: `kv_heads` is `heads`.
        About::Field(frame, field) => {
            let path = field.default.unwrap_or_default();
            let steps = names.steps(frame, &path.split('.').collect::<Vec<_>>());
            let place = steps.last().filter(|_| steps.len() > 1).and_then(|step| step.declared.first());
            place.or(frame.key(path).first()).map(|place| view.location(*place)).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// The file that a path in this one means, as a place.
fn file(view: &View, path: &str) -> Option<Location> {
    let start = Range { start: Position::new(0, 0), end: Position::new(0, 0) };
    let target = target(view, path)?;
    Some(Location { uri: view.snapshot.uri(&target), range: start })
}

/// The file or folder that a path in this file means: beside it, else in the library.
pub fn target(view: &View, path: &str) -> Option<PathBuf> {
    let here = PathBuf::from(view.project.sources.path(view.file));
    let beside = normal(&here.parent().unwrap_or(Path::new("")).join(path));
    let inside = PathBuf::from(format!("{}{path}", uri::EMBEDDED));
    let known = |path: &Path| uri::embedded(path).is_some_and(|inside| library::file(inside).is_some());
    if view.host().exists(&beside) || known(&beside) {
        return Some(beside);
    }
    known(&inside).then_some(inside)
}

/// Every place that refers to what stands at a position.
pub fn references(view: &View, params: ReferenceParams) -> Answer<Option<Vec<Location>>> {
    let offset = view.offset(params.text_document_position_params.position);
    let mut found = Vec::new();
    for (project, uses) in uses(view, offset) {
        for (span, declares) in uses {
            let location = view.snapshot.location(&project, span);
            if (params.context.include_declaration || !declares) && !found.contains(&location) {
                found.push(location);
            }
        }
    }
    Ok(Some(found).filter(|found| !found.is_empty()))
}

/// The same places of this file.
pub fn highlights(view: &View, params: DocumentHighlightParams) -> Answer<Option<Vec<DocumentHighlight>>> {
    let names = Names::of(&view.project);
    let offset = view.offset(params.text_document_position_params.position);
    let symbol = mention_at(&names, view.file, offset).and_then(|mention| mention.symbol());
    let source = names.files.iter().find(|source| source.tree.id == view.file);
    let (Some(symbol), Some(source)) = (symbol, source) else { return Ok(None) };
    let same = mentions(&names, source, None).into_iter().filter(|m| m.symbol().as_ref() == Some(&symbol));
    let shown = same.map(|mention| DocumentHighlight {
        range: view.range(mention.span),
        kind: Some(match mention.declares() {
            true => DocumentHighlightKind::Write,
            false => DocumentHighlightKind::Read,
        }),
    });
    Ok(Some(shown.collect()))
}

/// Places that mention one thing, and whether they declare it.
pub type Uses = Vec<(Span, bool)>;

/// Where what stands at `offset` is mentioned, in this project and in every other one that reads this file.
pub fn uses(view: &View, offset: usize) -> Vec<(Arc<Project>, Uses)> {
    let symbol_in = |project: &Project| {
        let file = project.file(&view.path)?;
        mention_at(&Names::of(project), file, offset)?.symbol()
    };
    let projects = std::iter::once(Arc::clone(&view.project)).chain(view.users());
    let found = projects.filter_map(|project| {
        let symbol = symbol_in(&project)?;
        let uses = uses_of(&project, &symbol);
        Some((project, uses))
    });
    found.collect()
}

/// Where a project mentions `symbol`.
pub fn uses_of(project: &Project, symbol: &Symbol) -> Uses {
    let names = Names::of(project);
    let all = names.files.iter().flat_map(|source| mentions(&names, source, None));
    let mut uses: Uses = all
        .filter(|mention| mention.symbol().as_ref() == Some(symbol))
        .map(|mention| (mention.span, mention.declares()))
        .collect();
    uses.sort_unstable();
    uses.dedup();
    uses
}

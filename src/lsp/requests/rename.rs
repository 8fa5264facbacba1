//! A name changed wherever it is used, in every file, as long as no other name changes its meaning by it.

use super::definition::{Uses, uses};
use super::{Answer, Refusal, View};
use crate::base::host::normal;
use crate::base::{FileId, Span};
use crate::diag::Sink;
use crate::lsp::knowledge::{About, Mention, Names, Symbol, mention_at, mentions};
use crate::lsp::{Document, Overlay, Project, uri};
use crate::syntax::{Parser, parse_assignment};
use lsp_types::*;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub fn rename(view: &View, params: RenameParams) -> Answer<Option<WorkspaceEdit>> {
    let offset = view.offset(params.text_document_position_params.position);
    renamed_at(view, offset)?;
    let new = params.new_name.trim();
    check_name(new)?;
    let found = uses(view, offset);
    let changed = edits(&found, new);
    for (project, _) in &found {
        same_meaning(view, project, &changed)?;
    }
    let mut changes: HashMap<Uri, Vec<TextEdit>> = HashMap::new();
    for (project, uses) in &found {
        for (span, _) in uses {
            let Location { uri, range } = view.snapshot.location(project, *span);
            let edit = TextEdit { range, new_text: new.to_owned() };
            let edits = changes.entry(uri).or_default();
            if !edits.contains(&edit) {
                edits.push(edit);
            }
        }
    }
    Ok(Some(WorkspaceEdit { changes: Some(changes), ..WorkspaceEdit::default() }))
}

/// Whether what stands at a position can be renamed.
pub fn prepare(view: &View, params: PrepareRenameParams) -> Answer<Option<PrepareRenameResult>> {
    let offset = view.offset(params.text_document_position_params.position);
    if mention_at(&Names::of(&view.project), view.file, offset).is_none() {
        return Ok(None);
    }
    let (span, name) = renamed_at(view, offset)?;
    let placeholder = PrepareRenamePlaceholder { range: view.range(span), placeholder: name };
    Ok(Some(PrepareRenameResult::PrepareRenamePlaceholder(placeholder)))
}

/// The place and text of the name at `offset`, or why it cannot be renamed.
fn renamed_at(view: &View, offset: usize) -> Answer<(Span, String)> {
    let refuse = |reason: &str| Err(Refusal::Failed(reason.to_owned()));
    let names = Names::of(&view.project);
    let Some(mention) = mention_at(&names, view.file, offset) else {
        return refuse("there is no name here");
    };
    match &mention.about {
        About::Item { .. } | About::Named(_) | About::Profile(_) | About::Let(_) | About::Variable(_) => {}
        About::Field(..) | About::Block(_) => {
            return refuse("fields and kinds of blocks belong to the language");
        }
        About::Word(..) | About::Function(_) | About::Unit(_) => {
            return refuse("words, functions and units belong to the language");
        }
        About::Path { .. } => return refuse("a file is renamed where files are, not here"),
    }
    let library = |span: &Span| uri::embedded(Path::new(view.project.sources.path(span.file))).is_some();
    if mention.declared.iter().any(library) {
        return refuse("this name belongs to the library, which is part of the program");
    }
    Ok((mention.span, view.project.sources.slice(mention.span).to_owned()))
}

/// Whether `name` can be a name.
fn check_name(name: &str) -> Answer<()> {
    let letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let shaped = name.chars().all(letter) && name.starts_with(|c: char| letter(c) && !c.is_ascii_digit());
    // The parser knows which words are taken.
    let free = parse_assignment(FileId(0), &format!("{name}=1"), &mut Sink::default()).is_some();
    match shaped && free && name != "none" {
        true => Ok(()),
        false => {
            Err(Refusal::Failed(format!("`{name}` is not a name: letters, digits and `_`, and no keyword")))
        }
    }
}

/// The texts of all files in which a name changes.
fn edits(found: &[(Arc<Project>, Uses)], new: &str) -> BTreeMap<PathBuf, String> {
    type Places = BTreeSet<(usize, usize)>;
    let mut places: BTreeMap<PathBuf, (&str, Places)> = BTreeMap::new();
    for (project, uses) in found {
        for (span, _) in uses {
            let path = PathBuf::from(project.sources.path(span.file));
            let (_, spans) = places.entry(path).or_insert((project.sources.text(span.file), BTreeSet::new()));
            spans.insert((span.start as usize, span.end as usize));
        }
    }
    let changed = places.into_iter().map(|(path, (text, spans))| {
        let mut text = text.to_owned();
        for (start, end) in spans.into_iter().rev() {
            text.replace_range(start..end, new);
        }
        (path, text)
    });
    changed.collect()
}

/// Refuses an edit after which another name means something else, or one that it changed no longer the same: what is in
/// sight under the new name already, or would be hidden by it.
fn same_meaning(view: &View, project: &Project, changed: &BTreeMap<PathBuf, String>) -> Answer<()> {
    let mut host = Overlay { open: view.host().open.clone(), disk: Arc::clone(&view.host().disk) };
    for (path, text) in changed {
        let document = Document { uri: uri::from_path(path), version: 0, text: text.as_str().into() };
        host.open.insert(normal(path), document);
    }
    let after = Project::read(&host, &project.path, &mut Parser::default());
    if meanings(project) == meanings(&after) {
        return Ok(());
    }
    Err(Refusal::Failed("another name would then mean something else: this one is taken".to_owned()))
}

/// For each name of a project the number of the one that declares it, in the order of the text: what a change of names leaves
/// as it is.
fn meanings(project: &Project) -> Vec<Option<Meaning>> {
    let names = Names::of(project);
    let all: Vec<Mention<'_>> =
        names.files.iter().flat_map(|source| mentions(&names, source, None)).collect();
    let mut numbers: HashMap<Span, usize> = HashMap::new();
    for (number, mention) in all.iter().enumerate() {
        numbers.entry(mention.span).or_insert(number);
    }
    let meaning = |mention: &Mention<'_>| {
        Some(match mention.symbol()? {
            Symbol::Declared(span) => Meaning::Declared(numbers.get(&span).copied()),
            Symbol::Unset(_) => Meaning::Unset,
            Symbol::Function(index) => Meaning::Function(index),
        })
    };
    all.iter().map(meaning).collect()
}

#[derive(Debug, PartialEq, Eq)]
enum Meaning {
    Declared(Option<usize>),
    Unset,
    Function(usize),
}

//! Completion items, gathered in the order in which they are to be shown.

use super::super::Glance;
use crate::recipe::schema::{Doc, FieldSchema};
use lsp_types::*;
use std::collections::HashSet;
use std::ops::Range;

/// The items so far, and the word that each of them takes the place of.
pub struct Items {
    range: lsp_types::Range,
    snippets: bool,
    /// What stands behind the word already.
    followed_by: Option<char>,
    found: Vec<CompletionItem>,
    labels: HashSet<String>,
    incomplete: bool,
}

impl Items {
    pub fn new(view: &Glance, word: Range<usize>) -> Self {
        let after = view.text.get(word.end..).unwrap_or_default();
        let line = after.split('\n').next().unwrap_or_default();
        Items {
            range: view.range(word),
            snippets: view.snapshot.snippets,
            followed_by: line.trim_start().chars().next(),
            found: Vec::new(),
            labels: HashSet::new(),
            incomplete: false,
        }
    }

    /// The first character behind the word on its line.
    pub fn followed_by(&self) -> Option<char> {
        self.followed_by
    }

    /// Adds an item that inserts its label.
    pub fn word(&mut self, kind: CompletionItemKind, label: &str) -> &mut CompletionItem {
        self.insert(kind, label, label)
    }

    /// Adds an item that inserts `text`, a snippet: `$0` is where the cursor goes, `${1:x}` a placeholder. A client without
    /// snippets gets the text before the first placeholder.
    pub fn snippet(&mut self, kind: CompletionItemKind, label: &str, text: &str) -> &mut CompletionItem {
        match self.snippets {
            true => {
                let item = self.insert(kind, label, text);
                item.insert_text_format = Some(InsertTextFormat::Snippet);
                item.insert_text_mode = Some(InsertTextMode::AdjustIndentation);
                item
            }
            false => {
                let plain = text.split(['$', '\n']).next().unwrap_or(label).trim_end();
                let plain = plain.trim_end_matches(['{', '"']).trim_end();
                let space = if text.starts_with(plain) && plain.ends_with('=') { " " } else { "" };
                self.insert(kind, label, &format!("{plain}{space}"))
            }
        }
    }

    /// Adds an item that inserts `text`.
    pub fn insert(&mut self, kind: CompletionItemKind, label: &str, text: &str) -> &mut CompletionItem {
        let edit = TextEdit { range: self.range, new_text: text.to_owned() };
        let index = self.found.len();
        self.labels.insert(label.to_owned());
        self.found.push(CompletionItem {
            label: label.to_owned(),
            kind: Some(kind),
            // Editors sort by this; the order here is that of the declarations.
            sort_text: Some(format!("{index:04}")),
            text_edit: Some(edit.into()),
            ..CompletionItem::default()
        });
        &mut self.found[index]
    }

    /// There are more than are shown.
    pub fn cut(&mut self) {
        self.incomplete = true;
    }

    pub fn has(&self, label: &str) -> bool {
        self.labels.contains(label)
    }

    pub fn finish(self) -> CompletionList {
        CompletionList { is_incomplete: self.incomplete, items: self.found, ..CompletionList::default() }
    }
}

/// Text in Markdown.
pub fn markdown(value: String) -> Documentation {
    MarkupContent { kind: MarkupKind::Markdown, value }.into()
}

/// A doc comment as documentation.
pub fn documentation(doc: Doc) -> Option<Documentation> {
    Some(markdown(doc.to_string().replace('\n', " ")))
}

/// Type, bounds and default of a field in a line.
pub fn facts(field: &FieldSchema) -> String {
    let mut facts = vec![field.phrase()];
    facts.extend(Some(field.facts.bounds()).filter(|bounds| !bounds.is_empty()));
    match (field.default, field.read_only) {
        (Some(default), true) => facts.push(format!("derived: {default}")),
        (Some(default), false) => facts.push(format!("default {default}")),
        (None, _) if field.required() => facts.push("must be written".to_owned()),
        _ => {}
    }
    facts.join(", ").replace('`', "")
}

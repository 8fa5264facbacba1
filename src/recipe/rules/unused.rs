//! Names that nothing uses.

use crate::diag::{Diagnostic, Sink};
use crate::recipe::layers::{words, words_of_stmt};
use crate::recipe::load::SourceFile;
use crate::syntax::tree::{Item, Let, Stmt};
use std::collections::HashSet;

/// Warns of every `let` of the user's files that no expression mentions.
pub fn unused_lets(files: &[SourceFile], sink: &mut Sink) {
    let mut lets = Vec::new();
    for file in files.iter().filter(|file| !file.library) {
        for item in &file.tree.items {
            match item {
                Item::Let(item) => lets.push(item),
                Item::Block(block) => lets_in(block.stmts(), &mut lets),
                Item::Use { .. } => {}
            }
        }
    }
    let mut used = HashSet::new();
    for item in files.iter().flat_map(|file| &file.tree.items) {
        let mut visit = |word| {
            used.insert(word);
        };
        match item {
            Item::Let(item) => words(&item.value, &mut visit),
            Item::Block(block) => block.stmts().iter().for_each(|stmt| words_of_stmt(stmt, &mut visit)),
            Item::Use { .. } => {}
        }
    }
    for item in lets.into_iter().filter(|item| !used.contains(item.name.text.as_str())) {
        let message = format!("`{}` is never used", item.name.text);
        let problem = Diagnostic::warning("step::recipe::unused_let", message);
        sink.push(problem.label(item.name.span, "unused").help("remove it"));
    }
}

fn lets_in<'t>(stmts: &'t [Stmt], lets: &mut Vec<&'t Let>) {
    for stmt in stmts {
        match stmt {
            Stmt::Let(item) => lets.push(item),
            Stmt::Block(block) => lets_in(block.stmts(), lets),
            Stmt::If { then, otherwise, .. } => {
                lets_in(then, lets);
                lets_in(otherwise, lets);
            }
            Stmt::Attr { .. } | Stmt::Require { .. } => {}
        }
    }
}

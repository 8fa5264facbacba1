//! Names that nothing uses.

use crate::diag::{Diagnostic, Sink};
use crate::recipe::layers::uses;
use crate::recipe::load::Source;
use crate::syntax::tree::{Item, Let, Stmt};

/// Warns of every `let` of the user's files that no expression mentions.
pub fn unused_lets(files: &[Source], sink: &mut Sink) {
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
    for item in lets {
        let name = item.name.text.as_str();
        let used = files.iter().flat_map(|file| &file.tree.items).any(|other| match other {
            Item::Let(other) => uses(&other.value, name),
            Item::Block(block) => mentioned(block.stmts(), name),
            Item::Use { .. } => false,
        });
        if !used {
            let problem = Diagnostic::warning("step::recipe::unused_let", format!("`{name}` is never used"));
            sink.push(problem.label(item.name.span, "unused").help("remove it"));
        }
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

fn mentioned(stmts: &[Stmt], name: &str) -> bool {
    stmts.iter().any(|stmt| crate::recipe::layers::mentions(stmt, name))
}

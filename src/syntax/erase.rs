//! The tree without its places: what two layouts of one file have in common.

use super::tree::{Block, Expr, ExprKind, File, Ident, Item, Let, Stmt};
use crate::base::Span;

impl File {
    /// The same tree with every span empty and at the start of the file.
    pub fn without_places(mut self) -> File {
        let nowhere = Span::new(self.id, 0, 0);
        for item in &mut self.items {
            match item {
                Item::Use { span, .. } => *span = nowhere,
                Item::Let(item) => binding(item, nowhere),
                Item::Block(item) => block(item, nowhere),
            }
        }
        self
    }
}

fn ident(ident: &mut Ident, nowhere: Span) {
    ident.span = nowhere;
}

fn binding(binding: &mut Let, nowhere: Span) {
    ident(&mut binding.name, nowhere);
    expr(&mut binding.value, nowhere);
}

fn block(block: &mut Block, nowhere: Span) {
    block.span = nowhere;
    ident(&mut block.kind, nowhere);
    let words = [&mut block.name, &mut block.base, &mut block.target];
    words.into_iter().flatten().for_each(|word| ident(word, nowhere));
    stmts(block.body.as_deref_mut().unwrap_or_default(), nowhere);
}

fn stmts(all: &mut [Stmt], nowhere: Span) {
    for stmt in all {
        match stmt {
            Stmt::Attr { key, value } => {
                ident(key, nowhere);
                expr(value, nowhere);
            }
            Stmt::Block(inner) => block(inner, nowhere),
            Stmt::Let(inner) => binding(inner, nowhere),
            Stmt::Require { cond, message, span } => {
                *span = nowhere;
                expr(cond, nowhere);
                message.iter_mut().for_each(|(_, span)| *span = nowhere);
            }
            Stmt::If { cond, then, otherwise, span } => {
                *span = nowhere;
                expr(cond, nowhere);
                stmts(then, nowhere);
                stmts(otherwise, nowhere);
            }
        }
    }
}

fn expr(value: &mut Expr, nowhere: Span) {
    value.span = nowhere;
    match &mut value.kind {
        ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Str(_) | ExprKind::Bool(_) => {}
        ExprKind::Unit { unit, .. } => ident(unit, nowhere),
        ExprKind::Path(parts) => parts.iter_mut().for_each(|part| ident(part, nowhere)),
        ExprKind::List(all) => all.iter_mut().for_each(|item| expr(item, nowhere)),
        ExprKind::Call { function, args } => {
            ident(function, nowhere);
            args.iter_mut().for_each(|arg| expr(arg, nowhere));
        }
        ExprKind::Unary { operand, .. } => expr(operand, nowhere),
        ExprKind::Index { list: left, index: right }
        | ExprKind::Binary { left, right, .. }
        | ExprKind::Range { start: left, end: right } => {
            expr(left, nowhere);
            expr(right, nowhere);
        }
        ExprKind::If { cond, then, otherwise } => {
            [cond, then, otherwise].into_iter().for_each(|part| expr(part, nowhere));
        }
    }
}

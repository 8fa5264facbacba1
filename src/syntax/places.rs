//! The places of a tree, all at once: what two layouts of one file have in common, and items that have moved.

use super::tree::{Block, Expr, ExprKind, File, Ident, Item, Let, Stmt};
use crate::base::Span;

impl File {
    /// The same tree with every span empty and at the start of the file.
    pub fn without_places(mut self) -> File {
        let nowhere = Span::new(self.id, 0, 0);
        self.items.iter_mut().for_each(|item| item.visit_places(&mut |span| *span = nowhere));
        self
    }
}

impl Item {
    /// Hands over every span.
    pub(super) fn visit_places(&mut self, visit: &mut dyn FnMut(&mut Span)) {
        match self {
            Item::Use { span, .. } => visit(span),
            Item::Let(item) => binding(item, visit),
            Item::Block(item) => block(item, visit),
        }
    }
}

fn ident(ident: &mut Ident, visit: &mut dyn FnMut(&mut Span)) {
    visit(&mut ident.span);
}

fn binding(binding: &mut Let, visit: &mut dyn FnMut(&mut Span)) {
    ident(&mut binding.name, visit);
    expr(&mut binding.value, visit);
}

fn block(block: &mut Block, visit: &mut dyn FnMut(&mut Span)) {
    visit(&mut block.span);
    ident(&mut block.kind, visit);
    let words = [&mut block.name, &mut block.base, &mut block.target];
    words.into_iter().flatten().for_each(|word| ident(word, visit));
    stmts(block.body.as_deref_mut().unwrap_or_default(), visit);
}

fn stmts(all: &mut [Stmt], visit: &mut dyn FnMut(&mut Span)) {
    for stmt in all {
        match stmt {
            Stmt::Attr { key, value } => {
                ident(key, visit);
                expr(value, visit);
            }
            Stmt::Block(inner) => block(inner, visit),
            Stmt::Let(inner) => binding(inner, visit),
            Stmt::Require { cond, message, span } => {
                visit(span);
                expr(cond, visit);
                message.iter_mut().for_each(|(_, span)| visit(span));
            }
            Stmt::If { cond, then, otherwise, span } => {
                visit(span);
                expr(cond, visit);
                stmts(then, visit);
                stmts(otherwise, visit);
            }
        }
    }
}

fn expr(value: &mut Expr, visit: &mut dyn FnMut(&mut Span)) {
    visit(&mut value.span);
    match &mut value.kind {
        ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Str(_) | ExprKind::Bool(_) => {}
        ExprKind::Unit { unit, .. } => ident(unit, visit),
        ExprKind::Path(parts) => parts.iter_mut().for_each(|part| ident(part, visit)),
        ExprKind::List(all) => all.iter_mut().for_each(|item| expr(item, visit)),
        ExprKind::Call { function, args } => {
            ident(function, visit);
            args.iter_mut().for_each(|arg| expr(arg, visit));
        }
        ExprKind::Unary { operand, .. } => expr(operand, visit),
        ExprKind::Index { list: left, index: right }
        | ExprKind::Binary { left, right, .. }
        | ExprKind::Range { start: left, end: right } => {
            expr(left, visit);
            expr(right, visit);
        }
        ExprKind::If { cond, then, otherwise } => {
            [cond, then, otherwise].into_iter().for_each(|part| expr(part, visit));
        }
    }
}

//! The parts of a tree with what the schema knows of them.

use crate::base::Span;
use crate::recipe::schema::{BlockSchema, FieldSchema};
use crate::recipe::{LAYER, item_schema};
use crate::syntax::tree::{Block, Expr, ExprKind, File, Ident, Item, Let, Stmt};

/// One part, each before what is inside it.
#[derive(Debug, Clone, Copy)]
pub enum Part<'t> {
    Use {
        path: &'t str,
        span: Span,
    },
    /// A block and its own schema; `None` where the schema knows no such block.
    Block {
        block: &'t Block,
        schema: Option<&'static BlockSchema>,
    },
    Attr {
        key: &'t Ident,
        value: &'t Expr,
        field: Option<&'static FieldSchema>,
    },
    Let(&'t Let),
    Require {
        cond: &'t Expr,
        span: Span,
    },
    /// A condition; `span` covers all its branches.
    If {
        cond: &'t Expr,
        span: Span,
    },
}

impl Part<'_> {
    /// All that the part covers.
    pub fn span(&self) -> Span {
        match self {
            Part::Use { span, .. } | Part::Require { span, .. } | Part::If { span, .. } => *span,
            Part::Block { block, .. } => block.span,
            Part::Attr { key, value, .. } => key.span.to(value.span),
            Part::Let(item) => item.name.span.to(item.value.span),
        }
    }
}

/// Visits every part of a file.
pub fn parts<'t>(file: &'t File, visit: &mut dyn FnMut(Part<'t>)) {
    for item in &file.items {
        match item {
            Item::Use { path, span } => visit(Part::Use { path, span: *span }),
            Item::Let(item) => visit(Part::Let(item)),
            Item::Block(block) => inside(block, item_schema(&block.kind.text), visit),
        }
    }
}

fn inside<'t>(block: &'t Block, schema: Option<&'static BlockSchema>, visit: &mut dyn FnMut(Part<'t>)) {
    visit(Part::Block { block, schema });
    stmts(block.stmts(), schema, visit);
}

fn stmts<'t>(stmts_: &'t [Stmt], schema: Option<&'static BlockSchema>, visit: &mut dyn FnMut(Part<'t>)) {
    for stmt in stmts_ {
        match stmt {
            Stmt::Attr { key, value } => {
                let field = schema.and_then(|schema| schema.field(&key.text));
                visit(Part::Attr { key, value, field });
            }
            Stmt::Block(block) => inside(block, schema.and_then(|schema| below(schema, block)), visit),
            Stmt::Let(item) => visit(Part::Let(item)),
            Stmt::Require { cond, span, .. } => visit(Part::Require { cond, span: *span }),
            Stmt::If { cond, then, otherwise, span } => {
                visit(Part::If { cond, span: *span });
                stmts(then, schema, visit);
                stmts(otherwise, schema, visit);
            }
        }
    }
}

/// The schema of a block inside one of `schema`.
pub fn below(schema: &'static BlockSchema, block: &Block) -> Option<&'static BlockSchema> {
    match block.kind.text.as_str() {
        "profile" => item_schema("recipe"),
        "layer" => Some(const { &LAYER }),
        kind => schema.field(kind)?.ty.body(block.name.as_ref().map(|name| name.text.as_str())),
    }
}

/// The expressions directly inside one.
pub fn operands(expr: &Expr) -> Vec<&Expr> {
    match &expr.kind {
        ExprKind::List(items) | ExprKind::Call { args: items, .. } => items.iter().collect(),
        ExprKind::Unary { operand, .. } => vec![operand],
        ExprKind::Index { list: left, index: right }
        | ExprKind::Binary { left, right, .. }
        | ExprKind::Range { start: left, end: right } => vec![left, right],
        ExprKind::If { cond, then, otherwise } => vec![cond, then, otherwise],
        ExprKind::Int(_)
        | ExprKind::Float(_)
        | ExprKind::Unit { .. }
        | ExprKind::Str(_)
        | ExprKind::Bool(_)
        | ExprKind::Path(_) => Vec::new(),
    }
}

//! One shape for the compiler's tree and the editor's, so that they can be compared.

use std::ops::Range;
use stepc::base::Span;
use stepc::syntax::tree::{Block, Expr, ExprKind, File, Ident, Item, Let, Stmt, UnaryOp};
use tree_sitter::{Node, Tree};

/// A node: its kind, its bytes, and what is inside. A body has no bytes of its own, as the compiler keeps none.
#[derive(Debug, PartialEq)]
pub struct Piece {
    kind: String,
    bytes: Range<usize>,
    inside: Vec<Piece>,
}

fn piece(kind: impl Into<String>, bytes: Range<usize>, inside: Vec<Piece>) -> Piece {
    Piece { kind: kind.into(), bytes, inside }
}

/// A node that reaches from its first part to its last.
fn joined(kind: &str, inside: Vec<Piece>) -> Piece {
    let bytes = inside[0].bytes.start..inside[inside.len() - 1].bytes.end;
    piece(kind, bytes, inside)
}

fn body(inside: Vec<Piece>) -> Piece {
    piece("body", 0..0, inside)
}

// ---- the compiler's

pub fn of_compiler(file: &File) -> Vec<Piece> {
    let item = |item: &Item| match item {
        Item::Use { span, .. } => piece("use_statement", span.range(), vec![]),
        Item::Let(binding) => let_statement(binding),
        Item::Block(inner) => block(inner),
    };
    file.items.iter().map(item).collect()
}

fn identifier(ident: &Ident) -> Piece {
    piece("identifier", ident.span.range(), vec![])
}

fn let_statement(binding: &Let) -> Piece {
    joined("let_statement", vec![identifier(&binding.name), expression(&binding.value)])
}

fn block(block: &Block) -> Piece {
    let head = [Some(&block.kind), block.name.as_ref(), block.base.as_ref(), block.target.as_ref()];
    let head = head.into_iter().flatten().map(identifier);
    let inside = head.chain(block.body.as_deref().map(|stmts| body(statements(stmts)))).collect();
    piece("block", block.span.range(), inside)
}

fn statements(stmts: &[Stmt]) -> Vec<Piece> {
    stmts.iter().map(statement).collect()
}

fn statement(stmt: &Stmt) -> Piece {
    match stmt {
        Stmt::Attr { key, value } => joined("attribute", vec![identifier(key), expression(value)]),
        Stmt::Block(inner) => block(inner),
        Stmt::Let(binding) => let_statement(binding),
        Stmt::Require { cond, message, span } => {
            let message = message.as_ref().map(|(_, span)| piece("string", span.range(), vec![]));
            piece("require_statement", span.range(), [expression(cond)].into_iter().chain(message).collect())
        }
        Stmt::If { cond, then, otherwise, span } => {
            let last = match otherwise.as_slice() {
                [] => None,
                [Stmt::If { .. }] if is_chain(otherwise, *span) => Some(statement(&otherwise[0])),
                stmts => Some(body(statements(stmts))),
            };
            let inside = [expression(cond), body(statements(then))].into_iter().chain(last);
            piece("if_statement", span.range(), inside.collect())
        }
    }
}

/// Whether the only statement of an `else` is an `else if`: it then ends where the whole does, without a brace behind it.
fn is_chain(otherwise: &[Stmt], whole: Span) -> bool {
    matches!(otherwise, [Stmt::If { span, .. }] if span.end == whole.end)
}

fn expressions<'e>(all: impl IntoIterator<Item = &'e Expr>) -> Vec<Piece> {
    all.into_iter().map(expression).collect()
}

fn expression(expr: &Expr) -> Piece {
    use ExprKind::*;
    let (kind, inside) = match &expr.kind {
        Int(_) | Float(_) => ("number", vec![]),
        Unit { unit, .. } => ("number", vec![piece("unit", unit.span.range(), vec![])]),
        Str(_) => ("string", vec![]),
        Bool(_) => ("boolean", vec![]),
        Path(parts) => ("path", parts.iter().map(identifier).collect()),
        List(all) => ("list", expressions(all)),
        Index { list, index } => ("index", expressions([&**list, &**index])),
        Call { function, args } => {
            ("call", [identifier(function)].into_iter().chain(expressions(args)).collect())
        }
        Unary { op: UnaryOp::Neg, operand } => ("-", expressions([&**operand])),
        Unary { op: UnaryOp::Not, operand } => ("!", expressions([&**operand])),
        Binary { op, left, right } => (op.sign(), expressions([&**left, &**right])),
        If { cond, then, otherwise } => ("if_expression", expressions([&**cond, &**then, &**otherwise])),
        Range { start, end } => ("range", expressions([&**start, &**end])),
    };
    piece(kind, expr.span.range(), inside)
}

// ---- the editor's

pub fn of_editor(tree: &Tree, text: &str) -> Vec<Piece> {
    children(tree.root_node(), text)
}

fn children(node: Node<'_>, text: &str) -> Vec<Piece> {
    let named = node.named_children(&mut node.walk()).collect::<Vec<_>>();
    named.into_iter().filter(|child| child.kind() != "comment").map(|child| node_piece(child, text)).collect()
}

fn node_piece(node: Node<'_>, text: &str) -> Piece {
    let inside = children(node, text);
    match node.kind() {
        "body" => body(inside),
        // Parentheses belong to what they hold, and braces around a value are not part of it.
        "parenthesized" => Piece { bytes: node.byte_range(), ..only(inside) },
        "branch" => only(inside),
        kind @ ("let_statement" | "attribute") => joined(kind, inside),
        // The compiler lets an `else if` begin at its condition.
        kind @ ("if_statement" | "if_expression") => {
            let chained = node.parent().is_some_and(|parent| parent.kind() == kind);
            let start = if chained { inside[0].bytes.start } else { node.start_byte() };
            piece(kind, start..node.end_byte(), inside)
        }
        "use_statement" => piece("use_statement", node.byte_range(), vec![]),
        "unary_expression" | "binary_expression" => {
            let operator = node.child_by_field_name("operator").unwrap();
            piece(&text[operator.byte_range()], node.byte_range(), inside)
        }
        kind => piece(kind, node.byte_range(), inside),
    }
}

fn only(inside: Vec<Piece>) -> Piece {
    inside.into_iter().next().expect("a bracket holds one value")
}

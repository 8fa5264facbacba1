//! What can be folded away, and selections that grow.

use super::{Answer, View};
use crate::base::Span;
use crate::lsp::walk::{Part, operands, parts};
use crate::syntax::tree::{Expr, ExprKind};
use lsp_types::*;

/// Blocks, lists, runs of `use` and of comments that take several lines.
pub fn folding(view: &View, _: FoldingRangeParams) -> Answer<Option<Vec<FoldingRange>>> {
    let mut found = Vec::new();
    let mut uses: Option<Span> = None;
    if let Some(tree) = view.tree() {
        parts(tree, &mut |part| match part {
            Part::Use { span, .. } => uses = Some(uses.map_or(span, |first| first.to(span))),
            Part::Block { block, .. } if block.body.is_some() => found.push((block.span, None)),
            Part::If { span, .. } => found.push((span, None)),
            Part::Attr { value, .. } => lists(value, &mut found),
            Part::Let(item) => lists(&item.value, &mut found),
            _ => {}
        });
    }
    found.extend(uses.map(|span| (span, Some(FoldingRangeKind::Imports))));
    let ranges = found.into_iter().map(|(span, kind)| (view.range(span), kind));
    let folded =
        ranges.map(|(range, kind)| (range.start.line, range.end.line, kind)).chain(comments(view.text()));
    let mut folds: Vec<_> = folded.filter(|(start, end, _)| start < end).collect();
    folds.sort_by_key(|(start, end, _)| (*start, std::cmp::Reverse(*end)));
    // Two that begin on one line cannot be told apart.
    folds.dedup_by_key(|(start, ..)| *start);
    let folds = folds.into_iter().map(|(start_line, end_line, kind)| FoldingRange {
        start_line,
        end_line,
        kind,
        ..FoldingRange::default()
    });
    Ok(Some(folds.collect()))
}

fn lists(expr: &Expr, found: &mut Vec<(Span, Option<FoldingRangeKind>)>) {
    if let ExprKind::List(_) = expr.kind {
        found.push((expr.span, None));
    }
    operands(expr).into_iter().for_each(|operand| lists(operand, found));
}

/// First and last lines of comments that stand on lines of their own.
fn comments(text: &str) -> Vec<(u32, u32, Option<FoldingRangeKind>)> {
    let mut found: Vec<(u32, u32, Option<FoldingRangeKind>)> = Vec::new();
    // The line that a `/* … */` was opened on.
    let mut open: Option<u32> = None;
    for (number, line) in (0..).zip(text.lines()) {
        let line = line.trim_start();
        let begins = open.is_none() && line.starts_with("/*");
        if begins {
            open = Some(number);
        }
        if let Some(start) = open {
            if line.get(if begins { 2 } else { 0 }..).is_some_and(|rest| rest.contains("*/")) {
                found.push((start, number, Some(FoldingRangeKind::Comment)));
                open = None;
            }
        } else if line.starts_with("//") {
            match found.last_mut() {
                Some((_, end, _)) if *end + 1 == number => *end = number,
                _ => found.push((number, number, Some(FoldingRangeKind::Comment))),
            }
        }
    }
    found
}

/// For each place the parts around it, from the inside.
pub fn selection(view: &View, params: SelectionRangeParams) -> Answer<Option<Vec<SelectionRange>>> {
    Ok(Some(params.positions.iter().map(|position| around(view, *position)).collect()))
}

fn around(view: &View, position: Position) -> SelectionRange {
    let at = view.offset(position) as u32;
    let holds = |span: Span| span.start <= at && at <= span.end;
    let mut spans = vec![Span::new(view.file, 0, view.text().len())];
    if let Some(tree) = view.tree() {
        parts(tree, &mut |part| {
            let span = part.span();
            if !holds(span) {
                return;
            }
            spans.push(span);
            match part {
                Part::Block { block, .. } => {
                    let words =
                        [Some(&block.kind), block.name.as_ref(), block.base.as_ref(), block.target.as_ref()];
                    spans.push(block.head());
                    spans.extend(words.into_iter().flatten().map(|word| word.span));
                }
                Part::Attr { key, value, .. } => {
                    spans.push(key.span);
                    inside(value, &mut spans);
                }
                Part::Let(item) => {
                    spans.push(item.name.span);
                    inside(&item.value, &mut spans);
                }
                Part::Require { cond, .. } | Part::If { cond, .. } => inside(cond, &mut spans),
                Part::Use { .. } => {}
            }
        });
    }
    spans.retain(|span| holds(*span));
    spans.sort_by_key(|span| std::cmp::Reverse(span.end - span.start));
    spans.dedup();
    // Parts of a tree lie inside one another; neighbours that share an end do not.
    let mut outer: Option<SelectionRange> = None;
    let mut last: Option<Span> = None;
    for span in spans {
        if last.is_none_or(|last| last.start <= span.start && span.end <= last.end) {
            last = Some(span);
            outer = Some(SelectionRange { range: view.range(span), parent: outer.map(Box::new) });
        }
    }
    outer.unwrap_or_default()
}

fn inside(expr: &Expr, spans: &mut Vec<Span>) {
    spans.push(expr.span);
    if let ExprKind::Path(path) = &expr.kind {
        spans.extend(path.iter().map(|word| word.span));
    }
    operands(expr).into_iter().for_each(|operand| inside(operand, spans));
}

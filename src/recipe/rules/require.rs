//! `require condition else "message"`, checked once everything is resolved.

use crate::diag::Diagnostic;
use crate::recipe::eval::{Chain, Evaluator, Frame};
use crate::recipe::origins::Origins;
use crate::syntax::tree::{BinaryOp, Expr, ExprKind};

/// Checks every `require` of `at` and of the blocks inside.
pub fn check_requires<'t>(eval: &mut Evaluator<'_, 't>, at: &Chain<'_, 't>, origins: &Origins) {
    for require in &at.node.requires {
        let frame = Frame { at, scope: &require.scope };
        if let Some(problem) = eval.require(require.cond, require.message, frame) {
            eval.sink.push(with_places(problem, require.cond, origins));
        }
    }
    for block in &at.node.blocks {
        if let Some(inner) = at.inner(block) {
            check_requires(eval, &inner, origins);
        }
    }
}

impl<'t> Evaluator<'_, 't> {
    /// The report that a condition does not hold; `None` where it does, or has no value, which has been reported.
    pub fn require(
        &mut self,
        cond: &'t Expr,
        message: Option<&str>,
        frame: Frame<'_, 't>,
    ) -> Option<Diagnostic> {
        if self.truth(cond, frame).ok()? {
            return None;
        }
        let what = message.unwrap_or("what the recipe requires does not hold");
        let label = match &cond.kind {
            ExprKind::Binary { op, left, right } if !matches!(op, BinaryOp::And | BinaryOp::Or) => {
                let sides = (self.eval(left, frame, None), self.eval(right, frame, None));
                match sides {
                    (Ok(left), Ok(right)) => format!("{left} on the left, {right} on the right"),
                    _ => "is false".to_owned(),
                }
            }
            _ => "is false".to_owned(),
        };
        Some(Diagnostic::error("step::recipe::require", what).label(cond.span, label))
    }
}

/// Adds the places of the values that `cond` names.
fn with_places(problem: Diagnostic, cond: &Expr, origins: &Origins) -> Diagnostic {
    let mut paths = Vec::new();
    collect(cond, &mut paths);
    paths.dedup();
    paths.into_iter().fold(problem, |problem, path| {
        let place = origins.span(&path).filter(|place| place.range() != cond.span.range());
        problem.label(place, format!("`{path}`"))
    })
}

fn collect(expr: &Expr, paths: &mut Vec<String>) {
    match &expr.kind {
        ExprKind::Path(path) => {
            paths.push(path.iter().map(|part| part.text.as_str()).collect::<Vec<_>>().join("."));
        }
        ExprKind::Binary { left, right, .. } => {
            collect(left, paths);
            collect(right, paths);
        }
        ExprKind::Unary { operand, .. } => collect(operand, paths),
        ExprKind::Call { args, .. } => args.iter().for_each(|arg| collect(arg, paths)),
        _ => {}
    }
}

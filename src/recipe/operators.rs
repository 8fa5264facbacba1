//! Arithmetic, comparison and logic on values. Units are kept: a size and a size add up, a size and a count do not.

use super::value::{Outcome, Value};
use crate::base::Span;
use crate::diag::Diagnostic;
use crate::syntax::tree::{BinaryOp, UnaryOp};
use std::cmp::Ordering;

/// Words can be operands: `cluster.device.kind == npu`.
pub fn compares_words(op: BinaryOp) -> bool {
    matches!(op, BinaryOp::Eq | BinaryOp::Ne)
}

/// The result that the left side decides alone.
pub fn short_circuit(op: BinaryOp, left: &Value) -> Option<bool> {
    match (op, left) {
        (BinaryOp::And, Value::Bool(false)) => Some(false),
        (BinaryOp::Or, Value::Bool(true)) => Some(true),
        _ => None,
    }
}

/// `-x`, `!x`.
pub fn unary(op: UnaryOp, value: Value, span: Span) -> Outcome {
    match (op, value) {
        (UnaryOp::Not, Value::Bool(value)) => Ok(Value::Bool(!value)),
        (UnaryOp::Neg, Value::Int(n)) => n.checked_neg().map(Value::Int).ok_or_else(|| overflow(span)),
        (UnaryOp::Neg, Value::Size(n)) => n.checked_neg().map(Value::Size).ok_or_else(|| overflow(span)),
        (UnaryOp::Neg, Value::Float(x)) => Ok(Value::Float(-x)),
        (UnaryOp::Neg, Value::Ratio(x)) => Ok(Value::Ratio(-x)),
        (UnaryOp::Neg, Value::Duration(x)) => Ok(Value::Duration(-x)),
        (op, value) => {
            let (what, needs) = match op {
                UnaryOp::Neg => ("-", "a number"),
                UnaryOp::Not => ("!", "`true` or `false`"),
            };
            let message = format!("`{what}` needs {needs}, `{value}` is {}", value.phrase());
            Err(mismatch(message, span, value.phrase()))
        }
    }
}

/// `left op right`; the spans are those of the operands, `span` that of the whole.
pub fn binary(op: BinaryOp, operands: [(Value, Span); 2], span: Span) -> Outcome {
    let [(left, left_span), (right, right_span)] = operands;
    let result = match op {
        BinaryOp::And | BinaryOp::Or => match (&left, &right) {
            (Value::Bool(_), Value::Bool(right)) => Some(Value::Bool(*right)),
            _ => None,
        },
        BinaryOp::Eq | BinaryOp::Ne => {
            equal(&left, &right).map(|same| Value::Bool(same == (op == BinaryOp::Eq)))
        }
        BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge => order(&left, &right).map(|order| {
            Value::Bool(match op {
                BinaryOp::Lt => order == Ordering::Less,
                BinaryOp::Le => order != Ordering::Greater,
                BinaryOp::Gt => order == Ordering::Greater,
                _ => order != Ordering::Less,
            })
        }),
        BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div | BinaryOp::Rem => {
            if matches!(op, BinaryOp::Div | BinaryOp::Rem) && right.magnitude() == Some(0.0) {
                return Err(division_by_zero(right_span));
            }
            arithmetic(op, &left, &right)
        }
    };
    match result {
        Some(Value::Float(x) | Value::Duration(x) | Value::Ratio(x)) if !x.is_finite() => Err(overflow(span)),
        Some(value) => Ok(value),
        None if fits(op, &left, &right) => Err(overflow(span)),
        None => Err(apart(op, (left, left_span), (right, right_span))),
    }
}

/// `None`: out of range for integers and sizes, or units that do not go together.
fn arithmetic(op: BinaryOp, left: &Value, right: &Value) -> Option<Value> {
    use Value::{Duration, Float, Int, Size};
    match (left, right) {
        (&Int(a), &Int(b)) => match op {
            // A quotient that is not whole is a number, never silently rounded.
            BinaryOp::Div if a.checked_rem(b)? != 0 => Some(Float(a as f64 / b as f64)),
            _ => integer(op, a, b).map(Int),
        },
        (&Size(a), &Size(b)) => match op {
            BinaryOp::Add | BinaryOp::Sub | BinaryOp::Rem => integer(op, a, b).map(Size),
            BinaryOp::Div if a.checked_rem(b)? == 0 => Some(Int(a / b)),
            BinaryOp::Div => Some(Float(a as f64 / b as f64)),
            _ => None,
        },
        (&Size(a), &Int(b)) | (&Int(b), &Size(a)) if op == BinaryOp::Mul => a.checked_mul(b).map(Size),
        (&Size(a), scale) if op == BinaryOp::Div => scale.number().and_then(|b| bytes(a as f64 / b)),
        (&Size(a), scale) | (scale, &Size(a)) if op == BinaryOp::Mul => {
            scale.number().and_then(|b| bytes(a as f64 * b))
        }
        (&Duration(a), &Duration(b)) => match op {
            BinaryOp::Mul => None,
            BinaryOp::Div => Some(Float(a / b)),
            _ => Some(Duration(real(op, a, b))),
        },
        (&Duration(a), scale) if op == BinaryOp::Div => scale.number().map(|b| Duration(a / b)),
        (&Duration(a), scale) | (scale, &Duration(a)) if op == BinaryOp::Mul => {
            scale.number().map(|b| Duration(a * b))
        }
        (left, right) => Some(Float(real(op, left.number()?, right.number()?))),
    }
}

fn integer(op: BinaryOp, a: i64, b: i64) -> Option<i64> {
    match op {
        BinaryOp::Add => a.checked_add(b),
        BinaryOp::Sub => a.checked_sub(b),
        BinaryOp::Mul => a.checked_mul(b),
        BinaryOp::Div => a.checked_div(b),
        _ => a.checked_rem_euclid(b),
    }
}

fn real(op: BinaryOp, a: f64, b: f64) -> f64 {
    match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul => a * b,
        BinaryOp::Div => a / b,
        _ => a.rem_euclid(b),
    }
}

fn bytes(size: f64) -> Option<Value> {
    (size.abs() < 9.2e18).then(|| Value::Size(size.round() as i64))
}

/// Whether the units of two whole numbers go together, so that only their size can be in the way.
fn fits(op: BinaryOp, left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Int(_), Value::Int(_)) => true,
        (Value::Size(_), Value::Size(_)) => op != BinaryOp::Mul,
        (Value::Size(_), other) => matches!(op, BinaryOp::Mul | BinaryOp::Div) && other.number().is_some(),
        (other, Value::Size(_)) => op == BinaryOp::Mul && other.number().is_some(),
        _ => false,
    }
}

/// `None` where the two are of different kinds.
fn equal(left: &Value, right: &Value) -> Option<bool> {
    match (left, right) {
        (Value::Text(left, _), Value::Text(right, _)) => Some(left == right),
        (Value::Bool(left), Value::Bool(right)) => Some(left == right),
        (Value::Word(left), Value::Word(right)) => Some(left == right),
        // An optional value is compared with `none`.
        (Value::Word(word), _) | (_, Value::Word(word)) if word == "none" => Some(false),
        (Value::List(left), Value::List(right)) => {
            let same: Option<Vec<_>> =
                left.iter().zip(right).map(|(left, right)| equal(left, right)).collect();
            same.map(|same| left.len() == right.len() && same.iter().all(|same| *same))
        }
        _ => order(left, right).map(|order| order == Ordering::Equal),
    }
}

/// The order of two quantities of the same unit.
pub fn order(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) | (Value::Size(left), Value::Size(right)) => {
            Some(left.cmp(right))
        }
        (Value::Duration(left), Value::Duration(right)) => left.partial_cmp(right),
        _ => left.number()?.partial_cmp(&right.number()?),
    }
}

/// `list[position]`, from 0.
pub fn index(list: Value, position: Value, list_span: Span, span: Span) -> Outcome {
    let Value::Int(at) = position else {
        let message = format!("an index is a whole number, `{position}` is {}", position.phrase());
        return Err(mismatch(message, span, position.phrase()));
    };
    let place = usize::try_from(at).ok();
    let (found, length) = match list {
        Value::List(mut items) => {
            let length = items.len();
            (place.filter(|at| *at < length).map(|at| items.swap_remove(at)), length as i64)
        }
        Value::Range(start, end) => {
            let value = start.checked_add(at).filter(|value| at >= 0 && *value < end);
            (value.map(Value::Int), end.saturating_sub(start).max(0))
        }
        other => {
            let message = format!("only lists and ranges have elements, `{other}` is {}", other.phrase());
            return Err(mismatch(message, list_span, other.phrase()));
        }
    };
    found.ok_or_else(|| {
        let message = format!("element {at} of {length} does not exist");
        let problem = Diagnostic::error("step::value::index", message);
        Box::new(problem.label(span, "elements are numbered from 0"))
    })
}

/// A number that its type cannot hold.
pub fn overflow(span: Span) -> Box<Diagnostic> {
    let problem = Diagnostic::error("step::value::overflow", "the result is too large");
    Box::new(problem.label(span, "over 64 bits"))
}

/// A divisor of zero, which stands at `span`.
pub fn division_by_zero(span: Span) -> Box<Diagnostic> {
    Box::new(Diagnostic::error("step::value::division_by_zero", "division by zero").label(span, "this is 0"))
}

/// A value of a kind that is of no use there.
pub fn mismatch(message: String, span: Span, label: impl Into<String>) -> Box<Diagnostic> {
    Box::new(Diagnostic::error("step::value::mismatch", message).label(span, label))
}

/// Two operands that do not go together.
fn apart(op: BinaryOp, left: (Value, Span), right: (Value, Span)) -> Box<Diagnostic> {
    let sign = op.sign();
    let ((left, left_span), (right, right_span)) = (left, right);
    let message = format!("`{sign}` does not go with `{left}` and `{right}`");
    let problem = mismatch(message, left_span, left.phrase());
    Box::new(problem.label(right_span, right.phrase()))
}

//! The functions of the language: `min max ceil_div floor sqrt log2 ln len sum`.

use super::operators::{binary, division_by_zero, mismatch, order, overflow};
use super::value::{Outcome, Value};
use crate::base::Span;
use crate::diag::Diagnostic;
use crate::diag::suggest::nearest;
use crate::syntax::tree::{BinaryOp, Ident};
use std::cmp::Ordering;

/// Every function with its arguments and meaning, for suggestions, completion and the manual.
pub const FUNCTIONS: &[(&str, &str, &str)] = &[
    ("min", "a, b, …", "the smallest argument, or element of one list"),
    ("max", "a, b, …", "the largest argument, or element of one list"),
    ("ceil_div", "a, b", "a / b, rounded up, both whole numbers"),
    ("floor", "x", "the largest whole number that is not over x"),
    ("sqrt", "x", "the square root"),
    ("log2", "x", "the logarithm to base 2, whole where x is a power of two"),
    ("ln", "x", "the natural logarithm"),
    ("len", "list", "the number of elements of a list or range, of characters of a text"),
    ("sum", "list", "the sum of a list or range"),
];

/// Calls `function`. `spans` are those of the arguments, `span` that of the call.
pub fn call(function: &Ident, args: Vec<Value>, spans: &[Span], span: Span) -> Outcome {
    match (function.text.as_str(), args.as_slice()) {
        ("min", _) => extreme(&args, Ordering::Less, span),
        ("max", _) => extreme(&args, Ordering::Greater, span),
        ("ceil_div", [Value::Int(_), Value::Int(0)]) => {
            let zero = spans.get(1).copied().unwrap_or(span);
            Err(division_by_zero(zero))
        }
        ("ceil_div", &[Value::Int(a), Value::Int(b)]) => {
            let (quotient, rest) = a.checked_div(b).zip(a.checked_rem(b)).ok_or_else(|| overflow(span))?;
            // Division drops the fraction; it was dropped downwards where the exact quotient is positive.
            Ok(Value::Int(quotient + i64::from(rest != 0 && (rest > 0) == (b > 0))))
        }
        ("floor", [Value::Int(n)]) => Ok(Value::Int(*n)),
        ("floor", [value]) if value.number().is_some_and(|x| x.abs() < 9.2e18) => {
            Ok(Value::Int(value.number().unwrap_or_default().floor() as i64))
        }
        ("sqrt", [value]) if value.number().is_some_and(|x| x >= 0.0) => {
            Ok(Value::Float(value.number().unwrap_or_default().sqrt()))
        }
        ("log2", [value]) if value.number().is_some_and(|x| x > 0.0) => {
            let power = value.number().unwrap_or(1.0).log2();
            Ok(if power.fract() == 0.0 { Value::Int(power as i64) } else { Value::Float(power) })
        }
        ("ln", [value]) if value.number().is_some_and(|x| x > 0.0) => {
            Ok(Value::Float(value.number().unwrap_or(1.0).ln()))
        }
        ("len", [Value::List(items)]) => Ok(Value::Int(items.len() as i64)),
        ("len", [Value::Text(text, _)]) => Ok(Value::Int(text.chars().count() as i64)),
        ("len", &[Value::Range(start, end)]) => {
            end.max(start).checked_sub(start).map(Value::Int).ok_or_else(|| overflow(span))
        }
        ("sum", [Value::List(items)]) => {
            let (first, rest) = match items.split_first() {
                Some((first, rest)) => (first.clone(), rest),
                None => return Ok(Value::Int(0)),
            };
            rest.iter()
                .try_fold(first, |sum, item| binary(BinaryOp::Add, [(sum, span), (item.clone(), span)], span))
        }
        ("sum", &[Value::Range(start, end)]) => {
            let (start, end) = (i128::from(start), i128::from(end.max(start)));
            let sum = (start + end - 1) * (end - start) / 2;
            i64::try_from(sum).map(Value::Int).map_err(|_| overflow(span))
        }
        (name, _) => Err(Box::new(misused(name, function, &args, span))),
    }
}

fn extreme(args: &[Value], wanted: Ordering, span: Span) -> Outcome {
    let items = match args {
        [Value::List(items)] => items,
        _ => args,
    };
    let name = if wanted == Ordering::Less { "min" } else { "max" };
    let Some((first, rest)) = items.split_first() else {
        let message = format!("`{name}` of nothing has no value");
        return Err(mismatch(message, span, "give it a value"));
    };
    let mut best = first;
    for item in std::iter::once(first).chain(rest) {
        match order(item, best) {
            Some(order) if order == wanted => best = item,
            Some(_) => {}
            None => {
                let message = format!("`{name}` cannot compare `{item}` and `{best}`");
                let label = format!("{} and {}", item.phrase(), best.phrase());
                return Err(mismatch(message, span, label));
            }
        }
    }
    Ok(best.clone())
}

fn misused(name: &str, function: &Ident, args: &[Value], span: Span) -> Diagnostic {
    if let Some((_, takes, does)) = FUNCTIONS.iter().find(|(known, ..)| *known == name) {
        let given: Vec<_> = args.iter().map(|arg| format!("`{arg}`")).collect();
        let given = if given.is_empty() { "nothing".to_owned() } else { given.join(", ") };
        return Diagnostic::error("step::value::arguments", format!("`{name}` does not take {given}"))
            .label(span, "this call")
            .help(format!("`{name}({takes})`: {does}"));
    }
    let problem =
        Diagnostic::error("step::value::unknown_function", format!("there is no function `{name}`"))
            .label(function.span, "unknown");
    match nearest(name, FUNCTIONS.iter().map(|(known, ..)| *known)) {
        Some(near) => problem.help(format!("did you mean `{near}`?")).fix(function.span, near),
        None => {
            let names: Vec<_> = FUNCTIONS.iter().map(|(known, ..)| *known).collect();
            problem.help(format!("functions are {}", names.join(", ")))
        }
    }
}

//! Numbers and strings as written to their values.

use super::cursor::{Places, Rule};
use super::tree::{ExprKind, Ident};
use crate::base::Span;
use crate::diag::{Diagnostic, Sink};
use pest::iterators::Pair;

/// Longest number that a message repeats, in characters.
const SHOWN: usize = 40;

/// A `number` pair; `None` where it does not fit its type, which is reported.
pub(super) fn number(pair: Pair<'_, Rule>, places: Places<'_>, sink: &mut Sink) -> Option<ExprKind> {
    let span = places.of(&pair);
    let digits: String = pair
        .clone()
        .into_inner()
        .take_while(|part| part.as_rule() != Rule::unit)
        .flat_map(|part| part.as_str().chars().filter(|c| *c != '_').collect::<Vec<_>>())
        .collect();
    let parts = || pair.clone().into_inner();
    let whole = !parts().any(|part| matches!(part.as_rule(), Rule::fraction | Rule::exponent));
    let unit = parts().find(|part| part.as_rule() == Rule::unit);
    if whole && unit.is_none() {
        let value = digits.parse().ok().map(ExprKind::Int);
        return value.or_else(|| out_of_range(&digits, "an integer", i64::MAX.to_string(), span, sink));
    }
    let Some(number) = digits.parse::<f64>().ok().filter(|value| value.is_finite()) else {
        return out_of_range(&digits, "a number", format!("{:e}", f64::MAX), span, sink);
    };
    Some(match unit {
        Some(unit) => {
            let unit = Ident { text: unit.as_str().to_owned(), span: places.of(&unit) };
            ExprKind::Unit { number, unit }
        }
        None => ExprKind::Float(number),
    })
}

fn out_of_range(digits: &str, what: &str, most: String, span: Span, sink: &mut Sink) -> Option<ExprKind> {
    let shown = match digits.len() > SHOWN {
        true => format!("{}… ({} characters)", &digits[..SHOWN], digits.len()),
        false => digits.to_owned(),
    };
    sink.push(
        Diagnostic::error("step::syntax::number_range", format!("{shown} is too large for {what}"))
            .label(span, "out of range")
            .help(format!("the largest is {most}")),
    );
    None
}

/// The text of a `string` pair without quotes and escapes; an unknown escape is reported and kept as written.
pub(super) fn string(pair: &Pair<'_, Rule>, places: Places<'_>, sink: &mut Sink) -> String {
    let written = pair.as_str();
    let inner = written.get(1..written.len().saturating_sub(1)).unwrap_or_default();
    let start = pair.as_span().start() + 1;
    let mut out = String::with_capacity(inner.len());
    let mut chars = inner.char_indices();
    while let Some((at, c)) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next().map(|(_, escaped)| escaped) {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some(same @ ('"' | '\\')) => out.push(same),
            Some(unknown) => {
                let span = places.range(start + at, start + at + 1 + unknown.len_utf8());
                sink.push(
                    Diagnostic::error("step::syntax::escape", format!("unknown escape `\\{unknown}`"))
                        .label(span, "not an escape")
                        .help("the escapes are \\n \\t \\r \\\" and \\\\; write `\\\\` for a backslash"),
                );
                out.extend(['\\', unknown]);
            }
            None => out.push('\\'),
        }
    }
    out
}

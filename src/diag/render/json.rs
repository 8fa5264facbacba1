//! A JSON object for each diagnostic, a line each.

use super::word;
use crate::base::{SourceMap, Span};
use crate::diag::Diagnostic;
use serde::Serialize;

#[derive(Serialize)]
struct Object<'a> {
    code: &'a str,
    severity: &'a str,
    message: &'a str,
    #[serde(flatten)]
    place: Option<Place<'a>>,
    labels: Vec<Text<'a>>,
    help: Option<&'a str>,
    fix: Option<Text<'a>>,
}

/// A label, or the replacement of a fix.
#[derive(Serialize)]
struct Text<'a> {
    #[serde(flatten)]
    place: Place<'a>,
    text: &'a str,
}

/// Lines and columns count from 1, columns in characters; the end is the place behind the last character.
#[derive(Serialize)]
struct Place<'a> {
    path: &'a str,
    line: usize,
    column: usize,
    end: End,
}

#[derive(Serialize)]
struct End {
    line: usize,
    column: usize,
}

/// One object, without its line break.
pub(super) fn json(diagnostic: &Diagnostic, sources: &SourceMap) -> String {
    let place = |span: Span| {
        let ((line, column), (end_line, end_column)) = (sources.line_col(span), sources.end_line_col(span));
        let end = End { line: end_line, column: end_column };
        Place { path: sources.path(span.file), line, column, end }
    };
    let object = Object {
        code: diagnostic.code,
        severity: word(diagnostic.severity),
        message: &diagnostic.message,
        place: diagnostic.labels.first().map(|label| place(label.span)),
        labels: diagnostic.labels.iter().map(|l| Text { place: place(l.span), text: &l.text }).collect(),
        help: diagnostic.help.as_deref(),
        fix: diagnostic.fix.as_ref().map(|fix| Text { place: place(fix.span), text: &fix.text }),
    };
    // Strings and numbers only: there is nothing in it that JSON cannot say.
    serde_json::to_string(&object).unwrap_or_default()
}

//! A SARIF 2.1.0 document, which code-scanning services read. Its rules come from the catalogue.

use super::word;
use crate::base::{SourceMap, Span};
use crate::diag::{Diagnostic, Label, catalogue};
use serde_json::{Value, json};

const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// One document with a rule for every code that was reported.
pub(super) fn sarif(diagnostics: &[Diagnostic], sources: &SourceMap) -> String {
    let mut codes: Vec<&str> = diagnostics.iter().map(|diagnostic| diagnostic.code).collect();
    codes.sort_unstable();
    codes.dedup();
    let rules: Vec<Value> = codes.iter().map(|code| rule(code)).collect();
    let results: Vec<Value> = diagnostics
        .iter()
        .map(|diagnostic| {
            let index = codes.binary_search(&diagnostic.code).unwrap_or_default();
            result(diagnostic, index, sources)
        })
        .collect();
    let document = json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": env!("CARGO_PKG_NAME"),
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            }},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    });
    format!("{document:#}\n")
}

fn rule(code: &str) -> Value {
    match catalogue::page(code) {
        Some(page) => json!({
            "id": code,
            "shortDescription": { "text": page.title() },
            "help": { "text": page.text, "markdown": page.text },
        }),
        None => json!({ "id": code }),
    }
}

fn result(diagnostic: &Diagnostic, rule: usize, sources: &SourceMap) -> Value {
    let message = match &diagnostic.help {
        Some(help) => format!("{}\n{help}", diagnostic.message),
        None => diagnostic.message.clone(),
    };
    let mut result = json!({
        "ruleId": diagnostic.code,
        "ruleIndex": rule,
        "level": word(diagnostic.severity),
        "message": { "text": message },
    });
    if let Some((first, related)) = diagnostic.labels.split_first() {
        result["locations"] = json!([location(first, sources)]);
        if !related.is_empty() {
            result["relatedLocations"] = related.iter().map(|label| location(label, sources)).collect();
        }
    }
    if let Some(fix) = &diagnostic.fix {
        result["fixes"] = json!([{ "artifactChanges": [{
            "artifactLocation": artifact(fix.span, sources),
            "replacements": [{
                "deletedRegion": region(fix.span, sources),
                "insertedContent": { "text": fix.text },
            }],
        }]}]);
    }
    result
}

fn location(label: &Label, sources: &SourceMap) -> Value {
    let place = json!({
        "artifactLocation": artifact(label.span, sources),
        "region": region(label.span, sources),
    });
    if label.text.is_empty() {
        json!({ "physicalLocation": place })
    } else {
        json!({ "physicalLocation": place, "message": { "text": label.text } })
    }
}

fn region(span: Span, sources: &SourceMap) -> Value {
    let ((line, column), (end_line, end_column)) = (sources.line_col(span), sources.end_line_col(span));
    json!({ "startLine": line, "startColumn": column, "endLine": end_line, "endColumn": end_column })
}

/// A path as a reference: what a URI may not hold is written in hexadecimal, and folders are parted by `/`.
fn artifact(span: Span, sources: &SourceMap) -> Value {
    let mut uri = String::new();
    for byte in sources.path(span.file).bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(byte as char)
            }
            b'\\' if cfg!(windows) => uri.push('/'),
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    json!({ "uri": uri })
}

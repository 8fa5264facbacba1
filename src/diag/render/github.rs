//! Workflow commands of GitHub Actions: `::error file=…,line=…,col=…,title=…::message`.

use super::word;
use crate::base::SourceMap;
use crate::diag::Diagnostic;
use std::fmt::Write;

/// One command, without its line break.
pub(super) fn github(diagnostic: &Diagnostic, sources: &SourceMap) -> String {
    let mut out = format!("::{} ", word(diagnostic.severity));
    if let Some(label) = diagnostic.labels.first() {
        let (line, column) = sources.line_col(label.span);
        let (end_line, end_column) = sources.end_line_col(label.span);
        let file = property(sources.path(label.span.file));
        let _ = write!(out, "file={file},line={line},endLine={end_line},col={column},");
        // A column behind the last character; the service takes none across lines.
        if end_line == line && end_column > column {
            let _ = write!(out, "endColumn={end_column},");
        }
    }
    let mut message = diagnostic.message.clone();
    for (index, label) in diagnostic.labels.iter().enumerate().filter(|(_, label)| !label.text.is_empty()) {
        let (line, column) = sources.line_col(label.span);
        let _ = match index {
            0 => write!(message, "\n{}", label.text),
            _ => write!(message, "\n{}:{line}:{column}: {}", sources.path(label.span.file), label.text),
        };
    }
    if let Some(help) = &diagnostic.help {
        let _ = write!(message, "\nhelp: {help}");
    }
    let _ = write!(out, "title={}::{}", property(diagnostic.code), data(&message));
    out
}

/// What stands behind the second `::`.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// The value of a property, which neither a colon nor a comma may stand in.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

//! A line for each diagnostic, as compilers write it and editors read it.

use super::word;
use crate::base::SourceMap;
use crate::diag::Diagnostic;

/// `path:line:column: error[code]: message`, without its line break.
pub(super) fn short(diagnostic: &Diagnostic, sources: &SourceMap) -> String {
    let message = diagnostic.message.replace('\n', " ");
    let what = format!("{}[{}]: {message}", word(diagnostic.severity), diagnostic.code);
    match diagnostic.labels.first() {
        Some(label) => {
            let (line, column) = sources.line_col(label.span);
            format!("{}:{line}:{column}: {what}", sources.path(label.span.file))
        }
        None => what,
    }
}

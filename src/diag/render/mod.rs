//! Diagnostics as text, a file for each form.
//!
//! In: diagnostics and the texts they point into. Out: one string, in the form that a person, an editor's problem matcher, a
//! code-scanning service or a program reads. Places outside their text are clamped to it; nothing here fails.

mod github;
mod human;
mod json;
mod sarif;
mod short;

use super::{Diagnostic, Severity};
use crate::base::SourceMap;

/// Who reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Snippets with the places underlined, and a count at the end.
    Human,
    /// `path:line:col: error[code]: message`, a line each.
    Short,
    /// One JSON object a line.
    Json,
    /// One SARIF 2.1.0 document, also where there is nothing to report.
    Sarif,
    /// Workflow commands of GitHub Actions, a line each: annotations in the files of a pull request.
    Github,
}

/// What the terminal can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    pub color: bool,
    /// Columns.
    pub width: usize,
    pub unicode: bool,
}

/// Renders diagnostics in the given order. For none it is the empty string, save in SARIF.
pub fn render(diagnostics: &[Diagnostic], sources: &SourceMap, format: Format, style: Style) -> String {
    let lines = |line: fn(&Diagnostic, &SourceMap) -> String| {
        diagnostics.iter().map(|diagnostic| line(diagnostic, sources) + "\n").collect()
    };
    match format {
        Format::Human => human::human(diagnostics, sources, style),
        Format::Short => lines(short::short),
        Format::Json => lines(json::json),
        Format::Sarif => sarif::sarif(diagnostics, sources),
        Format::Github => lines(github::github),
    }
}

/// `2 errors, 1 warning`; the empty string for none.
pub fn summary(diagnostics: &[Diagnostic]) -> String {
    let count = |severity| diagnostics.iter().filter(|d| d.severity == severity).count();
    let part = |n: usize, word: &str| match n {
        0 => None,
        1 => Some(format!("1 {word}")),
        n => Some(format!("{n} {word}s")),
    };
    let parts = [part(count(Severity::Error), "error"), part(count(Severity::Warning), "warning")];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    }
}

//! One diagnostic, data only. Every layer reports through it; the renderers turn it into text.
//!
//! A diagnostic names the place, the values involved and the fix. Bad input is always reported this way and
//! never by a panic.

pub mod catalogue;
pub mod render;
pub mod suggest;

use crate::base::Span;

/// How much a diagnostic weighs: an error stops the command with exit code 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Error,
    Warning,
}

/// A place and what it has to do with the problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    pub span: Span,
    pub text: String,
}

/// Text that would mend the problem when put in place of `span`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fix {
    pub span: Span,
    pub text: String,
}

/// One problem as the user will read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Stable and unique for a kind of problem: `step::parallel::ep_experts`.
    pub code: &'static str,
    pub severity: Severity,
    /// What is wrong, in the user's terms, with the values.
    pub message: String,
    /// The first label is the place of the problem, the others are related places, in any file.
    pub labels: Vec<Label>,
    /// What to do about it.
    pub help: Option<String>,
    pub fix: Option<Fix>,
}

impl Diagnostic {
    /// An error with neither place nor help yet.
    pub fn error(code: &'static str, message: impl Into<String>) -> Self {
        Diagnostic {
            code,
            severity: Severity::Error,
            message: message.into(),
            labels: Vec::new(),
            help: None,
            fix: None,
        }
    }

    /// A warning with neither place nor help yet.
    pub fn warning(code: &'static str, message: impl Into<String>) -> Self {
        Diagnostic { severity: Severity::Warning, ..Self::error(code, message) }
    }

    /// Adds a place; the first one added is the place of the problem.
    pub fn label(mut self, span: impl Into<Option<Span>>, text: impl Into<String>) -> Self {
        if let Some(span) = span.into() {
            self.labels.push(Label { span, text: text.into() });
        }
        self
    }

    /// Says what to do about it.
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help = Some(text.into());
        self
    }

    /// Offers a replacement that mends it.
    pub fn fix(mut self, span: impl Into<Option<Span>>, text: impl Into<String>) -> Self {
        self.fix = span.into().map(|span| Fix { span, text: text.into() });
        self
    }
}

/// Collects the diagnostics of a whole run, so that independent problems are reported together.
#[derive(Debug, Default)]
pub struct Sink {
    items: Vec<Diagnostic>,
}

impl Sink {
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.items.push(diagnostic);
    }

    pub fn extend(&mut self, diagnostics: impl IntoIterator<Item = Diagnostic>) {
        self.items.extend(diagnostics);
    }

    pub fn has_errors(&self) -> bool {
        self.items.iter().any(|d| d.severity == Severity::Error)
    }

    /// Makes every warning an error.
    pub fn deny_warnings(&mut self) {
        for diagnostic in &mut self.items {
            diagnostic.severity = Severity::Error;
        }
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Sorted by place, without exact duplicates and without a second error at the same characters.
    pub fn finish(mut self) -> Vec<Diagnostic> {
        self.items.sort_by_key(|d| (d.labels.first().map(|l| l.span), d.severity));
        self.items.dedup_by(|b, a| {
            *a == *b
                || (a.severity == Severity::Error
                    && b.severity == Severity::Error
                    && !a.labels.is_empty()
                    && a.labels.first().map(|l| l.span) == b.labels.first().map(|l| l.span))
        });
        self.items
    }
}

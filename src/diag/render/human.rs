//! Diagnostics for people at a terminal. The only file that knows miette.
//!
//! A place outside its text is clamped to it, and what commands the terminal is not printed; nothing here fails.

use super::{Style, short::short, summary};
use crate::base::{FileId, SourceMap};
use crate::diag::{Diagnostic, Fix, Label, Severity};
use miette::{
    GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteError, MietteSpanContents, SourceCode,
};
use miette::{SourceSpan, SpanContents, ThemeStyles};
use std::borrow::Cow;
use std::fmt;

/// Columns below which source snippets cannot be laid out.
const LEAST_WIDTH: usize = 40;

/// How many diagnostics people are shown with their source text: nobody reads on, and each costs a snippet.
const SHOWN: usize = 50;

/// Snippets with the places underlined, and a count at the end.
pub(super) fn human(diagnostics: &[Diagnostic], sources: &SourceMap, style: Style) -> String {
    let mut theme = if style.unicode { GraphicalTheme::unicode() } else { GraphicalTheme::ascii() };
    if !style.color {
        theme.styles = ThemeStyles::none();
    }
    let handler = GraphicalReportHandler::new_themed(theme)
        .with_width(style.width.max(LEAST_WIDTH))
        .with_links(false)
        .without_syntax_highlighting();
    let mut out = String::new();
    for diagnostic in diagnostics.iter().take(SHOWN) {
        // Writing to a string fails only where a formatter does; the short form is then what is left to show.
        let start = out.len();
        let reports = Report::all(diagnostic, sources);
        if reports.iter().any(|report| handler.render_report(&mut out, report).is_err()) {
            out.truncate(start);
            out += &short(diagnostic, sources);
        }
        out.truncate(out.trim_end().len());
        out += "\n\n";
    }
    if let Some(more) = diagnostics.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        out += &format!("… and {more} more; `--format short` shows all\n\n");
    }
    if !diagnostics.is_empty() {
        out += &summary(diagnostics);
        out.push('\n');
    }
    out
}

/// A diagnostic, or its labels in one other file: miette knows a single source for each.
#[derive(Debug)]
struct Report<'a> {
    message: String,
    code: Option<&'static str>,
    severity: miette::Severity,
    source: Option<Text<'a>>,
    labels: Vec<LabeledSpan>,
    help: Option<String>,
}

impl<'a> Report<'a> {
    /// The diagnostic with the labels of its own file, then one for each other file; the help stands under the last.
    fn all(diagnostic: &Diagnostic, sources: &'a SourceMap) -> Vec<Self> {
        let mut files: Vec<FileId> = Vec::new();
        for label in &diagnostic.labels {
            if !files.contains(&label.span.file) {
                files.push(label.span.file);
            }
        }
        let labels = |file: FileId| {
            let all = diagnostic.labels.iter().enumerate().filter(move |(_, label)| label.span.file == file);
            all.map(|(n, label)| place(label, sources, n == 0)).collect()
        };
        let home = files.first().copied();
        let mut reports = vec![Report {
            message: diagnostic.message.clone(),
            code: Some(diagnostic.code),
            severity: match diagnostic.severity {
                Severity::Error => miette::Severity::Error,
                Severity::Warning => miette::Severity::Warning,
            },
            source: home.map(|file| Text::new(file, sources)),
            labels: home.map(labels).unwrap_or_default(),
            help: None,
        }];
        reports.extend(files.into_iter().skip(1).map(|file| Report {
            message: format!("see also {}", sources.path(file)),
            code: None,
            severity: miette::Severity::Advice,
            source: Some(Text::new(file, sources)),
            labels: labels(file),
            help: None,
        }));
        if let Some(last) = reports.last_mut() {
            last.help = help(diagnostic, sources);
        }
        reports
    }
}

fn place(label: &Label, sources: &SourceMap, primary: bool) -> LabeledSpan {
    // A place behind the last line is shown at its end: miette has no line to put it on.
    let limit = sources.text(label.span.file).trim_end_matches(['\n', '\r']).len();
    let start = (label.span.start as usize).min(limit);
    let end = (label.span.end as usize).clamp(start, limit);
    let text = (!label.text.is_empty()).then(|| label.text.clone());
    if primary {
        LabeledSpan::new_primary_with_span(text, (start, end - start))
    } else {
        LabeledSpan::new_with_span(text, (start, end - start))
    }
}

/// The help and, where its words do not hold it already, the fix; blanks and control characters cannot be shown.
fn help(diagnostic: &Diagnostic, sources: &SourceMap) -> Option<String> {
    let help = diagnostic.help.clone().unwrap_or_default();
    let is_told = |fix: &&Fix| {
        let (old, new) = (sources.slice(fix.span), fix.text.trim());
        let unseen = old.chars().all(|c| c.is_whitespace() || c.is_control());
        if new.is_empty() { unseen || help.starts_with("remove") } else { help.contains(new) }
    };
    let Some(fix) = diagnostic.fix.as_ref().filter(|fix| !is_told(fix)) else {
        return (!help.is_empty()).then_some(help);
    };
    let fix = fix_words(fix, sources);
    Some(if help.is_empty() { fix } else { format!("{help}\n{fix}") })
}

fn fix_words(fix: &Fix, sources: &SourceMap) -> String {
    let old = sources.slice(fix.span);
    match (old.is_empty(), fix.text.is_empty()) {
        (true, _) => format!("insert `{}`", fix.text.trim()),
        (false, true) => format!("remove `{old}`"),
        (false, false) => format!("write `{}` instead of `{old}`", fix.text.trim()),
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Report<'_> {}

impl miette::Diagnostic for Report<'_> {
    fn code<'b>(&'b self) -> Option<Box<dyn fmt::Display + 'b>> {
        self.code.map(|code| Box::new(code) as _)
    }

    fn severity(&self) -> Option<miette::Severity> {
        Some(self.severity)
    }

    fn help<'b>(&'b self) -> Option<Box<dyn fmt::Display + 'b>> {
        self.help.as_ref().map(|help| Box::new(help) as _)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.source.as_ref().map(|source| source as _)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        (!self.labels.is_empty()).then(|| Box::new(self.labels.iter().cloned()) as _)
    }
}

/// A text with its name; miette's own `NamedSource` would have to own a copy.
#[derive(Debug)]
struct Text<'a> {
    path: &'a str,
    text: Cow<'a, str>,
}

impl<'a> Text<'a> {
    fn new(file: FileId, sources: &'a SourceMap) -> Self {
        // miette finds no line in an empty text.
        let text = Some(sources.text(file)).filter(|text| !text.is_empty()).unwrap_or(" ");
        Text { path: sources.path(file), text: printable(text) }
    }
}

/// The text without characters that would command the terminal; every byte stays where it is.
fn printable(text: &str) -> Cow<'_, str> {
    let commands = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    if !text.contains(commands) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match commands(c) {
            true => out.extend(std::iter::repeat_n('?', c.len_utf8())),
            false => out.push(c),
        }
    }
    Cow::Owned(out)
}

impl SourceCode for Text<'_> {
    fn read_span<'b>(
        &'b self,
        span: &SourceSpan,
        before: usize,
        after: usize,
    ) -> Result<Box<dyn SpanContents<'b> + 'b>, MietteError> {
        let found = self.text.read_span(span, before, after)?;
        Ok(Box::new(MietteSpanContents::new_named(
            self.path.to_owned(),
            found.data(),
            *found.span(),
            found.line(),
            found.column(),
            found.line_count(),
        )))
    }
}

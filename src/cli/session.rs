//! What all commands share: the sources read, the problems found, how to show them.

use super::args::{Arguments, Deny, Format, RecipeArgs, When};
use super::exit::{self, Failure};
use crate::base::SourceMap;
use crate::base::host::OsHost;
use crate::diag::{Diagnostic, Sink, render};
use crate::plan::estimate::Engine;
use crate::plan::rules;
use crate::recipe::{self, Loaded, Request, Resolved};
use crate::report::{Shown, Style};
use std::io::{IsTerminal, Write, stderr, stdout};
use std::process::ExitCode;

/// One run of the program.
pub struct Session {
    pub sources: SourceMap,
    pub sink: Sink,
    color: When,
    format: Format,
    deny_warnings: bool,
}

impl Session {
    pub fn new(arguments: &Arguments) -> Session {
        Session {
            sources: SourceMap::default(),
            sink: Sink::default(),
            color: arguments.color,
            format: arguments.format,
            deny_warnings: arguments.deny == Some(Deny::Warnings),
        }
    }

    /// The style of standard output.
    pub fn style(&self) -> Style {
        Style { color: self.colors(stdout().is_terminal()) }
    }

    /// Writes a page to standard output, or beside it where that is to hold a document of its own. A reader that has gone
    /// away is no error.
    pub fn print(&self, page: &str) {
        let _ = match self.format {
            Format::Sarif => stderr().write_all(page.as_bytes()),
            _ => stdout().write_all(page.as_bytes()),
        };
    }

    /// Columns of the terminal, or what reads well.
    pub fn width(&self) -> usize {
        let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
        columns.unwrap_or(100).clamp(60, 160)
    }

    /// Reads the recipe's files.
    pub fn load(&mut self, args: &RecipeArgs) -> Result<Loaded, Failure> {
        let request = Request {
            path: args.file.clone(),
            recipe: args.recipe.clone(),
            profile: args.profile.clone(),
            set: args.set.clone(),
        };
        recipe::load(&OsHost, &request, &mut self.sources, &mut self.sink).ok_or_else(nothing_more)
    }

    /// Lays a profile over the recipe and checks the result.
    pub fn resolve(&mut self, loaded: &Loaded, profile: Option<&str>) -> Result<Resolved, Failure> {
        let resolved = loaded.resolve(profile, &mut self.sink);
        self.judge_warnings();
        resolved.filter(|_| !self.sink.has_errors()).ok_or_else(nothing_more)
    }

    /// Resolves a recipe and finds out how it does on `engine`; reports what is legal and costs more than it seems.
    pub fn shown(
        &mut self,
        loaded: &Loaded,
        profile: Option<&str>,
        engine: Engine,
    ) -> Result<(Shown, Resolved), Failure> {
        let resolved = self.resolve(loaded, profile)?;
        let shown = Shown::of(&resolved, engine);
        rules::check(&resolved.recipe, &resolved.origins, &mut self.sink);
        rules::fits(&resolved.recipe, &shown.need(), &resolved.origins, &mut self.sink);
        Ok((shown, resolved))
    }

    /// Shows what has been found so far, before a command that takes long.
    pub fn show_warnings(&mut self) {
        if self.format == Format::Sarif {
            // One document holds all there is, at the end.
            return;
        }
        let found = std::mem::take(&mut self.sink).finish();
        self.show(&found);
    }

    /// Shows all problems and turns the result into the exit code.
    pub fn end(mut self, result: Result<(), Failure>) -> ExitCode {
        self.judge_warnings();
        let mut sink = std::mem::take(&mut self.sink);
        let code = match result {
            Ok(()) if sink.has_errors() => exit::BAD_INPUT,
            Ok(()) => exit::DONE,
            Err(Failure::WouldChange) => exit::FAILED,
            Err(Failure::Interrupted) => exit::INTERRUPTED,
            Err(Failure::Input(diagnostics)) => {
                sink.extend(diagnostics);
                exit::BAD_INPUT
            }
            Err(Failure::Running(diagnostic)) => {
                sink.push(diagnostic);
                exit::FAILED
            }
        };
        self.show(&sink.finish());
        ExitCode::from(code)
    }

    fn show(&self, diagnostics: &[Diagnostic]) {
        let format = match self.format {
            Format::Human => render::Format::Human,
            Format::Short => render::Format::Short,
            Format::Json => render::Format::Json,
            Format::Sarif => render::Format::Sarif,
            Format::Github => render::Format::Github,
        };
        let style =
            render::Style { color: self.colors(stderr().is_terminal()), width: self.width(), unicode: true };
        let text = render::render(diagnostics, &self.sources, format, style);
        let _ = match self.format {
            Format::Sarif => stdout().write_all(text.as_bytes()),
            _ => stderr().write_all(text.as_bytes()),
        };
    }

    fn judge_warnings(&mut self) {
        if self.deny_warnings {
            self.sink.deny_warnings();
        }
    }

    /// `NO_COLOR` as on no-color.org.
    fn colors(&self, terminal: bool) -> bool {
        match self.color {
            When::Always => true,
            When::Never => false,
            When::Auto => terminal && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()),
        }
    }
}

/// The reasons are in the sink already.
fn nothing_more() -> Failure {
    Failure::Input(Vec::new())
}

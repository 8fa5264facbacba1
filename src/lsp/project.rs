//! A file and all it uses, read and checked as `stepc check` does.

use super::overlay::Noting;
use super::position::Lines;
use super::uri::embedded;
use crate::base::{FileId, Host, SourceMap, Span};
use crate::check::{check, check_weights, for_this_machine};
use crate::diag::{Diagnostic, Sink};
use crate::recipe::{Loaded, Parsed, Request, Resolved, parse_all};
use crate::syntax::{Parser, tree};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Everything known of one file as the root, at one state of all files.
pub struct Project {
    /// The root.
    pub path: PathBuf,
    /// Every file that takes part, the root first.
    pub sources: SourceMap,
    /// Their trees. `None` where the root cannot be read.
    pub parsed: Option<Arc<Parsed>>,
    /// The recipes that the root holds.
    pub recipes: Vec<Checked>,
    /// What is wrong, in whichever file.
    pub diagnostics: Vec<Diagnostic>,
    /// What a checkpoint that the recipe names has against it. Reading it takes longer than checking the recipe.
    late: OnceLock<Vec<Diagnostic>>,
    /// The files that were read or looked for.
    asked: HashSet<PathBuf>,
    lines: Vec<OnceLock<Lines>>,
}

/// A recipe and what came of checking it.
pub struct Checked {
    pub loaded: Loaded,
    /// The sound ones of the recipe itself and its profiles, in this order.
    pub resolved: Vec<Resolved>,
}

impl Project {
    /// Reads and checks the file at `path`, of which `parser` remembers what has been read before.
    pub fn read(host: &dyn Host, path: &Path, parser: &mut Parser) -> Project {
        let host = Noting::new(host);
        let (mut sources, mut sink) = (SourceMap::default(), Sink::default());
        let request = Request { path: path.to_owned(), ..Request::default() };
        let parsed = parse_all(&host, &request, parser, &mut sources, &mut sink).map(Arc::new);
        let recipes = parsed.iter().flat_map(|parsed| {
            parsed.recipes().map(|name| (Arc::clone(parsed), name.text.clone())).collect::<Vec<_>>()
        });
        let recipes = recipes.map(|(parsed, name)| {
            let loaded = Loaded::new(parsed, name, &mut sink);
            let resolved = check(&host, &loaded, None, &mut sink);
            Checked { loaded, resolved }
        });
        let recipes: Vec<_> = recipes.collect();
        if let (Some(parsed), true) = (&parsed, recipes.is_empty()) {
            parsed.check_items(&mut sink);
        }
        let lines = sources.files().map(|_| OnceLock::new()).collect();
        Project {
            path: path.to_owned(),
            sources,
            parsed,
            recipes,
            diagnostics: sink.finish(),
            late: OnceLock::new(),
            asked: host.asked(),
            lines,
        }
    }

    /// What is wrong with the checkpoint that the recipe starts from, if that has been read or is to be `now`.
    pub fn late(&self, now: bool) -> &[Diagnostic] {
        let read = || {
            let own = self.recipes.iter().filter_map(|checked| for_this_machine(&checked.resolved));
            own.flat_map(check_weights).collect()
        };
        if now { self.late.get_or_init(read) } else { self.late.get().map_or(&[], Vec::as_slice) }
    }

    /// Where to show a diagnostic: its first place in a file that can be changed, else the head of a recipe.
    pub fn place(&self, diagnostic: &Diagnostic) -> Option<Span> {
        let mut spans = diagnostic.labels.iter().map(|label| label.span);
        let own = spans.find(|span| embedded(Path::new(self.sources.path(span.file))).is_none());
        own.or_else(|| self.recipes.first()?.loaded.head())
    }

    /// Whether what is in a file, or that there is none, has a part in this.
    pub fn depends_on(&self, path: &Path) -> bool {
        self.asked.contains(path)
    }

    /// The number of the file at `path`, if it takes part.
    pub fn file(&self, path: &Path) -> Option<FileId> {
        self.sources.files().find(|file| Path::new(self.sources.path(*file)) == path)
    }

    /// The tree of a file.
    pub fn tree(&self, file: FileId) -> Option<&tree::File> {
        let files = self.parsed.iter().flat_map(|parsed| &parsed.files);
        files.map(|source| &source.tree).find(|tree| tree.id == file)
    }

    /// Where the lines of a file begin.
    pub fn lines(&self, file: FileId) -> &Lines {
        static NONE: OnceLock<Lines> = OnceLock::new();
        let lines = self.lines.get(file.0 as usize).unwrap_or(&NONE);
        lines.get_or_init(|| Lines::new(self.sources.text(file)))
    }
}

//! An open file as it is now, and what was known of it last: for answers that must come between two keystrokes and need the
//! names of a project more than its newest state.

use super::document::Document;
use super::overlay::Overlay;
use super::position::{Encoding, Lines};
use super::project::Project;
use super::snapshot::Snapshot;
use lsp_types::{Position, Range};
use std::path::PathBuf;
use std::sync::Arc;

/// A file and the project that said most about it, perhaps at an earlier text.
pub struct Glance {
    pub path: PathBuf,
    pub text: Arc<str>,
    pub project: Arc<Project>,
    pub snapshot: Arc<Snapshot>,
    lines: Lines,
}

impl Glance {
    pub fn new(snapshot: &Arc<Snapshot>, path: PathBuf, document: &Document, project: Arc<Project>) -> Self {
        let (text, snapshot) = (Arc::clone(&document.text), Arc::clone(snapshot));
        Glance { path, lines: Lines::new(&text), text, project, snapshot }
    }

    /// The files as the editor has them.
    pub fn host(&self) -> &Overlay {
        &self.snapshot.host
    }

    pub fn encoding(&self) -> Encoding {
        self.snapshot.encoding
    }

    /// The byte that a position names.
    pub fn offset(&self, position: Position) -> usize {
        self.lines.offset(&self.text, position, self.encoding())
    }

    /// Bytes as positions.
    pub fn range(&self, bytes: std::ops::Range<usize>) -> Range {
        self.lines.range(&self.text, bytes, self.encoding())
    }
}

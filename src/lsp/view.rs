//! Everything known of one open file at one version: what every request is answered from.

use super::guard;
use super::overlay::Overlay;
use super::position::{Encoding, Lines};
use super::project::Project;
use super::snapshot::Snapshot;
use crate::base::{FileId, Span};
use crate::diag::Diagnostic;
use crate::recipe::Resolved;
use crate::report::Shown;
use crate::syntax::tree;
use lsp_server::{Request as Ask, RequestId};
use lsp_types::{InlayHintRefreshRequest, Location, Position, Range, Request, Uri};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

/// A file, and the project that says most about it: its own where it holds a recipe, else that of one that uses it.
pub struct View {
    /// As the client spells it.
    pub uri: Uri,
    pub path: PathBuf,
    /// Its number in the sources of the project.
    pub file: FileId,
    pub project: Arc<Project>,
    pub snapshot: Arc<Snapshot>,
}

impl View {
    pub fn text(&self) -> &str {
        self.project.sources.text(self.file)
    }

    pub fn tree(&self) -> Option<&tree::File> {
        self.project.tree(self.file)
    }

    /// The folder that relative paths start from.
    pub fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    /// The files as the editor has them.
    pub fn host(&self) -> &Overlay {
        &self.snapshot.host
    }

    pub fn encoding(&self) -> Encoding {
        self.snapshot.encoding
    }

    pub fn lines(&self) -> &Lines {
        self.project.lines(self.file)
    }

    /// The byte of this file that a position names.
    pub fn offset(&self, position: Position) -> usize {
        self.lines().offset(self.text(), position, self.encoding())
    }

    /// The position of a byte of this file.
    pub fn position(&self, offset: usize) -> Position {
        self.lines().position(self.text(), offset, self.encoding())
    }

    /// A place in any file of the project as a range of that file.
    pub fn range(&self, span: Span) -> Range {
        range(&self.project, span, self.encoding())
    }

    /// A place in any file of the project.
    pub fn location(&self, span: Span) -> Location {
        self.snapshot.location(&self.project, span)
    }

    /// What is wrong in this file, by any project that reads it, each as its own sources place it.
    pub fn diagnostics(&self) -> Vec<(Arc<Project>, Diagnostic)> {
        let own = std::iter::once(Arc::clone(&self.project)).chain(self.users());
        let mut found: Vec<(Arc<Project>, Diagnostic)> = Vec::new();
        for project in own {
            let Some(file) = project.file(&self.path) else { continue };
            let all = project.diagnostics.iter().chain(project.late(false));
            let here = all.filter(|problem| project.place(problem).is_some_and(|place| place.file == file));
            found.extend(here.map(|diagnostic| (Arc::clone(&project), diagnostic.clone())));
        }
        found
    }

    /// The other projects that read this file.
    pub fn users(&self) -> Vec<Arc<Project>> {
        let mut users = self.snapshot.projects_with(&self.path);
        users.retain(|project| !Arc::ptr_eq(project, &self.project));
        users
    }

    /// How a resolved recipe does: its plan, or an estimate. Takes some 100 ms the first time.
    pub fn shown(&self, resolved: &Resolved) -> Arc<Shown> {
        self.snapshot.plans.shown(resolved)
    }

    /// The same for what is shown again when it is there, by a client that can be told so: `None` until then.
    pub fn shown_soon(&self, resolved: &Resolved) -> Option<Arc<Shown>> {
        let Some(client) = &self.snapshot.refreshes else { return Some(self.shown(resolved)) };
        let first = match self.snapshot.plans.known(resolved) {
            Ok(shown) => return Some(shown),
            Err(first) => first,
        };
        if first {
            let (snapshot, resolved, client) = (Arc::clone(&self.snapshot), resolved.clone(), client.clone());
            thread::spawn(move || {
                if guard::catch(|| snapshot.plans.shown(&resolved)).is_ok() {
                    let id = RequestId::from(format!("hints {}", snapshot.revision));
                    let method = InlayHintRefreshRequest::METHOD.to_string();
                    let _ = client.send(Ask { id, method, params: Value::Null }.into());
                }
            });
        }
        None
    }

    /// The client has given up waiting, or has a newer text.
    pub fn is_stale(&self) -> bool {
        self.snapshot.is_stale()
    }
}

/// A place in a file of `project`.
pub fn range(project: &Project, span: Span, encoding: Encoding) -> Range {
    project.lines(span.file).range(project.sources.text(span.file), span.range(), encoding)
}

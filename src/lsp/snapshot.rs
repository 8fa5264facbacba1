//! All files at one moment, and what is known of them. Found out when first asked for, once for everybody who asks,
//! and kept in the next snapshot as far as the change between the two leaves it alone.

use super::document::Document;
use super::glance::Glance;
use super::index::Index;
use super::overlay::Overlay;
use super::plans::Plans;
use super::position::Encoding;
use super::project::Project;
use super::requests::Sent;
use super::view::{View, range};
use super::{guard, shelf, uri};
use crate::base::{Host, Span};
use crate::syntax::Parser;
use crossbeam_channel::Sender;
use lsp_server::Message;
use lsp_types::{Location, Uri};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// A project that is read by whoever asks first; `None` where reading it failed within the server.
type Slot = Arc<OnceLock<Option<Arc<Project>>>>;

/// What was read last of every root.
type Parsers = Mutex<HashMap<PathBuf, Arc<Mutex<Parser>>>>;

/// All files at one moment.
pub struct Snapshot {
    pub revision: u64,
    pub encoding: Encoding,
    /// The client can show files that are part of the program.
    pub shows_library: bool,
    /// The client fills in placeholders.
    pub snippets: bool,
    /// Where to tell a client that hints have become others, if it wants to know.
    pub refreshes: Option<Sender<Message>>,
    pub host: Arc<Overlay>,
    pub index: Arc<Index>,
    pub plans: Arc<Plans>,
    /// The coloured words that the client has.
    pub sent: Arc<Sent>,
    projects: Mutex<HashMap<PathBuf, Slot>>,
    /// The newest projects that edits have made old, for answers that cannot wait.
    former: HashMap<PathBuf, Arc<Project>>,
    parsers: Arc<Parsers>,
    newest: Arc<AtomicU64>,
}

impl Snapshot {
    /// No file open yet.
    pub fn new(encoding: Encoding, shows_library: bool, disk: Arc<dyn Host>) -> Self {
        Snapshot {
            revision: 0,
            encoding,
            shows_library,
            snippets: false,
            refreshes: None,
            host: Arc::new(Overlay { open: BTreeMap::new(), disk }),
            index: Arc::default(),
            plans: Arc::default(),
            sent: Arc::default(),
            projects: Mutex::default(),
            former: HashMap::new(),
            parsers: Arc::default(),
            newest: Arc::default(),
        }
    }

    /// The same for a client that fills in placeholders, or does not.
    pub fn with_snippets(self, snippets: bool) -> Self {
        Snapshot { snippets, ..self }
    }

    /// The same for a client that is told over `client` when hints have become others.
    pub fn with_refreshes(self, client: Option<Sender<Message>>) -> Self {
        Snapshot { refreshes: client, ..self }
    }

    /// The state after the files at `changed` have become others.
    pub fn next(&self, open: BTreeMap<PathBuf, Document>, index: Arc<Index>, changed: &[PathBuf]) -> Self {
        let revision = self.revision + 1;
        self.newest.store(revision, Ordering::Release);
        let mut projects = self.slots().clone();
        let mut former = self.former.clone();
        projects.retain(|root, slot| match slot.get() {
            Some(Some(project)) if changed.iter().any(|path| project.depends_on(path)) => {
                former.insert(root.clone(), Arc::clone(project));
                false
            }
            Some(Some(_)) => true,
            _ => false,
        });
        Snapshot {
            revision,
            encoding: self.encoding,
            shows_library: self.shows_library,
            snippets: self.snippets,
            refreshes: self.refreshes.clone(),
            host: Arc::new(Overlay { open, disk: Arc::clone(&self.host.disk) }),
            index,
            plans: Arc::clone(&self.plans),
            sent: Arc::clone(&self.sent),
            projects: Mutex::new(projects),
            former,
            parsers: Arc::clone(&self.parsers),
            newest: Arc::clone(&self.newest),
        }
    }

    /// Something has changed since.
    pub fn is_stale(&self) -> bool {
        self.newest.load(Ordering::Acquire) != self.revision
    }

    /// The project of the file at `path`. `None` where reading it failed within the server, which has been logged.
    pub fn project(&self, path: &Path) -> Option<Arc<Project>> {
        let slot = Arc::clone(self.slots().entry(path.to_owned()).or_default());
        slot.get_or_init(|| {
            let read = guard::catch(|| {
                let parser = self.parser(path);
                Arc::new(Project::read(&*self.host, path, &mut lock(&parser)))
            });
            read.inspect_err(|panic| eprintln!("stepc lsp: reading {}: {panic}", path.display())).ok()
        })
        .clone()
    }

    /// Every project that may say something about an open file: its own, and those of the recipes that use it.
    pub fn roots(&self) -> Vec<PathBuf> {
        let open = self.host.open.keys();
        let users = self.host.open.keys().flat_map(|path| self.index.users(path));
        let mut roots: Vec<PathBuf> = open.cloned().chain(users).collect();
        roots.sort_unstable();
        roots.dedup();
        roots
    }

    /// The projects of recipes that read the file at `path`, those of open files first.
    pub fn projects_with(&self, path: &Path) -> Vec<Arc<Project>> {
        let mut users = self.index.users(path);
        users.sort_by_key(|user| !self.host.open.contains_key(user));
        let projects = users.iter().filter_map(|user| self.project(user));
        projects.filter(|project| project.file(path).is_some()).collect()
    }

    /// What is known of the open file at `path`.
    pub fn view(self: &Arc<Self>, path: &Path) -> Option<View> {
        let document = self.host.open.get(path)?;
        let own = self.project(path)?;
        let project = if own.recipes.is_empty() {
            self.projects_with(path).into_iter().find(|project| !project.recipes.is_empty()).unwrap_or(own)
        } else {
            own
        };
        let file = project.file(path)?;
        Some(View {
            uri: document.uri.clone(),
            path: path.to_owned(),
            file,
            project,
            snapshot: Arc::clone(self),
        })
    }

    /// The path of a document that a client names.
    pub fn path(&self, uri: &Uri) -> Option<PathBuf> {
        let by_name = || self.host.open.iter().find(|(_, document)| document.uri == *uri);
        uri::to_path(uri).or_else(|| by_name().map(|(path, _)| path.clone()))
    }

    /// Whether the document that a request is about has another text in `newest`.
    pub fn changed_since(&self, newest: &Snapshot, params: &Value) -> bool {
        let Some(uri) = params.pointer("/textDocument/uri").and_then(Value::as_str) else { return false };
        let Some(path) = self.path(&Uri(uri.to_owned())) else { return false };
        let text =
            |snapshot: &Snapshot| snapshot.host.open.get(&path).map(|document| Arc::clone(&document.text));
        match (text(self), text(newest)) {
            (Some(then), Some(now)) => !Arc::ptr_eq(&then, &now),
            (then, now) => then.is_some() != now.is_some(),
        }
    }

    /// The open file at `path` and what was known of it last; reads it only where nothing is.
    pub fn glance(self: &Arc<Self>, path: &Path) -> Option<Glance> {
        let document = self.host.open.get(path)?;
        let known = |path: &Path| {
            let read = self.slots().get(path).and_then(|slot| slot.get().cloned().flatten());
            read.or_else(|| self.former.get(path).cloned()).or_else(|| self.project(path))
        };
        let own = known(path)?;
        let project = if own.recipes.is_empty() {
            let users = self.index.users(path);
            let mut users = users.iter().filter_map(|user| known(user));
            users.find(|project| !project.recipes.is_empty() && project.file(path).is_some()).unwrap_or(own)
        } else {
            own
        };
        Some(Glance::new(self, path.to_owned(), document, project))
    }

    /// The URI of a file, spelt as the client does where it is open.
    pub fn uri(&self, path: &Path) -> Uri {
        match (self.host.open.get(path), uri::embedded(path)) {
            (Some(document), _) => document.uri.clone(),
            (None, Some(inside)) => self.library(inside),
            (None, None) => uri::from_path(path),
        }
    }

    /// The URI of a file of the library: in the program, or written to disk for a client that cannot look there.
    pub fn library(&self, inside: &str) -> Uri {
        let on_disk = (!self.shows_library).then(|| shelf::file(inside)).flatten();
        on_disk.map_or_else(|| uri::from_library(inside), |file| uri::from_path(&file))
    }

    /// A place in a file of `project`.
    pub fn location(&self, project: &Project, span: Span) -> Location {
        Location {
            uri: self.uri(Path::new(project.sources.path(span.file))),
            range: range(project, span, self.encoding),
        }
    }

    fn parser(&self, path: &Path) -> Arc<Mutex<Parser>> {
        let remembering = || Arc::new(Mutex::new(Parser::with_memory()));
        Arc::clone(lock(&self.parsers).entry(path.to_owned()).or_insert_with(remembering))
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<PathBuf, Slot>> {
        lock(&self.projects)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

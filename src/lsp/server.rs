//! The life of a session: greeting, edits in their order, requests handed to workers, goodbye.

use super::capabilities::capabilities;
use super::document::Document;
use super::index::{Index, is_step};
use super::position::Encoding;
use super::requests::refused;
use super::snapshot::Snapshot;
use super::workers::Workers;
use super::{guard, publish, uri};
use crate::base::Host;
use crossbeam_channel::{Receiver, Sender, never, select, unbounded};
use lsp_server::{Connection, ErrorCode, Message, Notification as Note, Request as Ask, RequestId, Response};
use lsp_types::*;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// By `shutdown` and `exit`.
    Properly,
    /// The client went away, or said `exit` without `shutdown`.
    Abruptly,
}

/// Serves one client until it says goodbye or is gone.
pub fn serve(connection: Connection, disk: Arc<dyn Host>) -> Ended {
    let Connection { sender, receiver } = connection;
    let Some(params) = greet(&sender, &receiver) else { return Ended::Abruptly };
    Server::new(sender, params, disk).run(&receiver)
}

/// Waits for `initialize` and answers it. `None` where the client goes away first.
fn greet(sender: &Sender<Message>, receiver: &Receiver<Message>) -> Option<InitializeParams> {
    loop {
        let Ask { id, method, params } = match receiver.recv().ok()? {
            Message::Request(request) => request,
            Message::Notification(note) if note.method == "exit" => return None,
            _ => continue,
        };
        let error = if method != "initialize" {
            refused(ErrorCode::ServerNotInitialized, format!("`{method}` before `initialize`"))
        } else {
            match serde_json::from_value::<InitializeParams>(params) {
                Ok(params) => {
                    let result = InitializeResult {
                        capabilities: capabilities(encoding(&params)),
                        server_info: Some(ServerInfo {
                            name: env!("CARGO_PKG_NAME").to_owned(),
                            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
                        }),
                    };
                    sender.send(Response::new_ok(id, result).into()).ok()?;
                    return Some(params);
                }
                Err(error) => refused(ErrorCode::InvalidParams, error.to_string()),
            }
        };
        sender.send(Response { id, response_result: Err(error) }.into()).ok()?;
    }
}

fn encoding(params: &InitializeParams) -> Encoding {
    let general = params.capabilities.general.as_ref();
    Encoding::negotiate(general.and_then(|general| general.position_encodings.as_deref()))
}

fn shows_library(params: &InitializeParams) -> bool {
    let workspace = params.capabilities.workspace.as_ref();
    workspace.is_some_and(|workspace| workspace.text_document_content.is_some())
}

fn refreshes_hints(params: &InitializeParams) -> bool {
    let hints = params.capabilities.workspace.as_ref().and_then(|workspace| workspace.inlay_hint.as_ref());
    hints.and_then(|hints| hints.refresh_support) == Some(true)
}

fn snippets(params: &InitializeParams) -> bool {
    let document = params.capabilities.text_document.as_ref();
    let item = document.and_then(|document| document.completion.as_ref()?.completion_item.as_ref());
    item.and_then(|item| item.snippet_support) == Some(true)
}

struct Server {
    out: Sender<Message>,
    workers: Workers,
    /// Where new states go to be checked.
    check: Sender<Arc<Snapshot>>,
    current: Arc<RwLock<Arc<Snapshot>>>,
    folders: Vec<PathBuf>,
    /// The index of the workspace, when it has been read.
    indexed: Receiver<Index>,
    watches_files: bool,
    shut_down: bool,
}

impl Server {
    #[allow(deprecated)] // Clients from before there were several folders send a root.
    fn new(out: Sender<Message>, params: InitializeParams, disk: Arc<dyn Host>) -> Server {
        let refreshes = refreshes_hints(&params).then(|| out.clone());
        let snapshot = Snapshot::new(encoding(&params), shows_library(&params), disk);
        let snapshot = Arc::new(snapshot.with_snippets(snippets(&params)).with_refreshes(refreshes));
        let current = Arc::new(RwLock::new(snapshot));
        let folders = match params.workspace_folders_initialize_params.workspace_folders {
            Some(WorkspaceFolders::WorkspaceFolderList(folders)) => {
                folders.iter().filter_map(|folder| uri::to_path(&folder.uri)).collect()
            }
            _ => params.root_uri.iter().filter_map(uri::to_path).collect(),
        };
        let watched = params.capabilities.workspace.and_then(|workspace| workspace.did_change_watched_files);
        Server {
            workers: Workers::start(out.clone(), &current),
            check: publish::start(out.clone()),
            out,
            current,
            folders,
            indexed: never(),
            watches_files: watched.and_then(|watched| watched.dynamic_registration) == Some(true),
            shut_down: false,
        }
    }

    fn run(mut self, receiver: &Receiver<Message>) -> Ended {
        self.read_index();
        loop {
            let message = select! {
                recv(receiver) -> message => message,
                recv(self.indexed) -> index => {
                    self.indexed = never();
                    if let Ok(index) = index {
                        self.take_index(index);
                    }
                    continue;
                }
            };
            match message {
                Ok(Message::Request(request)) => self.request(request),
                Ok(Message::Notification(note)) if note.method == "exit" => break,
                Ok(Message::Notification(note)) => self.notice(note),
                Ok(Message::Response(_)) => {}
                Err(_) => break,
            }
        }
        if self.shut_down { Ended::Properly } else { Ended::Abruptly }
    }

    fn request(&mut self, Ask { id, method, params }: Ask) {
        let refuse = |code, text: &str| Response {
            id: id.clone(),
            response_result: Err(refused(code, text.to_owned())),
        };
        let response = match method.as_str() {
            _ if self.shut_down => refuse(ErrorCode::InvalidRequest, "the server has been shut down"),
            "initialize" => refuse(ErrorCode::InvalidRequest, "initialized already"),
            "shutdown" => {
                self.shut_down = true;
                Response::new_ok(id, Value::Null)
            }
            _ => return self.workers.ask(id, method, params, self.snapshot()),
        };
        let _ = self.out.send(response.into());
    }

    /// Notifications have no answer: what is wrong with one goes to the log.
    fn notice(&mut self, note: Note) {
        let method = note.method.clone();
        match guard::catch(|| self.take(note)) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.log(&format!("{method}: {error}")),
            Err(panic) => self.log(&format!("{method}: {panic}")),
        }
    }

    fn take(&mut self, note: Note) -> Result<(), String> {
        fn read<N: Notification>(params: Value) -> Result<N::Params, String> {
            serde_json::from_value(params).map_err(|error| error.to_string())
        }
        let Note { method, params } = note;
        match LspNotificationMethod::from(method.as_str()) {
            DidOpenTextDocumentNotification::METHOD => {
                let TextDocumentItem { uri, version, text, .. } =
                    read::<DidOpenTextDocumentNotification>(params)?.text_document;
                let path = self.place(&uri);
                self.put(path, Document { uri, version, text: text.into() });
            }
            DidChangeTextDocumentNotification::METHOD => {
                let params = read::<DidChangeTextDocumentNotification>(params)?;
                let VersionedTextDocumentIdentifier { version, text_document_identifier } =
                    params.text_document;
                let uri = &text_document_identifier.uri;
                let snapshot = self.snapshot();
                let path = snapshot.path(uri).ok_or_else(|| format!("`{uri}` is not open"))?;
                let document = snapshot.host.open.get(&path).ok_or_else(|| format!("`{uri}` is not open"))?;
                let document = document.edited(version, params.content_changes, snapshot.encoding);
                self.put(path, document);
            }
            DidCloseTextDocumentNotification::METHOD => {
                let uri = read::<DidCloseTextDocumentNotification>(params)?.text_document.uri;
                let path = self.snapshot().path(&uri).ok_or_else(|| format!("`{uri}` is not open"))?;
                let (mut open, mut index) = (self.snapshot().host.open.clone(), self.index());
                open.remove(&path).ok_or_else(|| format!("`{uri}` is not open"))?;
                Arc::make_mut(&mut index).read(&path);
                self.advance(open, index, &[path]);
            }
            DidChangeWatchedFilesNotification::METHOD => {
                let changes = read::<DidChangeWatchedFilesNotification>(params)?.changes;
                let paths: Vec<_> = changes.iter().filter_map(|change| uri::to_path(&change.uri)).collect();
                let (open, mut index) = (self.snapshot().host.open.clone(), self.index());
                for path in paths.iter().filter(|path| is_step(path) && !open.contains_key(*path)) {
                    Arc::make_mut(&mut index).read(path);
                }
                self.advance(open, index, &paths);
            }
            DidChangeWorkspaceFoldersNotification::METHOD => {
                let event = read::<DidChangeWorkspaceFoldersNotification>(params)?.event;
                let gone: Vec<_> =
                    event.removed.iter().filter_map(|folder| uri::to_path(&folder.uri)).collect();
                self.folders.retain(|folder| !gone.contains(folder));
                self.folders.extend(event.added.iter().filter_map(|folder| uri::to_path(&folder.uri)));
                self.read_index();
            }
            CancelNotification::METHOD => {
                let id = match read::<CancelNotification>(params)?.id {
                    Id::Int(id) => RequestId::from(id),
                    Id::String(id) => RequestId::from(id),
                };
                self.workers.cancel(id);
            }
            InitializedNotification::METHOD if self.watches_files => self.watch(),
            _ => {}
        }
        Ok(())
    }

    /// Asks the client to tell of changes on disk.
    fn watch(&self) {
        let watcher =
            FileSystemWatcher { glob_pattern: GlobPattern::Pattern("**/*.step".to_owned()), kind: None };
        let options = DidChangeWatchedFilesRegistrationOptions { watchers: vec![watcher] };
        let registration = Registration {
            id: "files".to_owned(),
            method: DidChangeWatchedFilesNotification::METHOD.to_string(),
            register_options: serde_json::to_value(options).ok(),
        };
        let params = RegistrationParams { registrations: vec![registration] };
        let method = RegistrationRequest::METHOD.to_string();
        let _ = self.out.send(Ask::new(RequestId::from("files".to_owned()), method, params).into());
    }

    /// The path that stands for a document: its file, or for one that has none a place in the first folder.
    fn place(&self, uri: &Uri) -> PathBuf {
        let folder = || self.folders.first().map_or(Path::new(""), PathBuf::as_path);
        uri::to_path(uri).unwrap_or_else(|| folder().join(uri.0.replace('/', "%2F")))
    }

    fn put(&self, path: PathBuf, document: Document) {
        let (mut open, mut index) = (self.snapshot().host.open.clone(), self.index());
        if index.differs(&path, &document.text) {
            Arc::make_mut(&mut index).set(&path, &document.text);
        }
        open.insert(path.clone(), document);
        self.advance(open, index, &[path]);
    }

    /// Reads the workspace on a thread of its own.
    fn read_index(&mut self) {
        let (done, indexed) = unbounded();
        self.indexed = indexed;
        let folders = self.folders.clone();
        thread::spawn(move || done.send(Index::of(&folders)));
    }

    fn take_index(&self, mut index: Index) {
        let open = self.snapshot().host.open.clone();
        for (path, document) in &open {
            index.set(path, &document.text);
        }
        self.advance(open, Arc::new(index), &[]);
    }

    /// Goes on to the state after a change, and has it checked.
    fn advance(&self, open: BTreeMap<PathBuf, Document>, index: Arc<Index>, changed: &[PathBuf]) {
        let next = Arc::new(self.snapshot().next(open, index, changed));
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&next);
        let _ = self.check.send(next);
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn index(&self) -> Arc<Index> {
        Arc::clone(&self.snapshot().index)
    }

    fn log(&self, message: &str) {
        let params = LogMessageParams { kind: MessageType::Warning, message: message.to_owned() };
        let _ = self.out.send(Note::new(LogMessageNotification::METHOD.to_string(), params).into());
    }
}

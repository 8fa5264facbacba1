//! A small editor.

use lsp_server::{Connection, Message, Notification, Request, RequestId, Response, ResponseError};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use stepc::base::Host;
use stepc::base::host::OsHost;
use stepc::lsp::{Ended, serve};
use tempfile::TempDir;

/// The small recipe of the documentation, without mistakes.
pub const SMALL: &str = include_str!("../../../docs/errors/small.step");

/// How long any answer may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Client {
    connection: Connection,
    server: Option<JoinHandle<Ended>>,
    last: i32,
    /// What the server has said without being asked, oldest first.
    pub told: Vec<Notification>,
    /// What it answered to `initialize`.
    pub greeting: Value,
}

/// A folder with the small recipe and what it names in it.
pub fn desk() -> TempDir {
    let desk = tempfile::tempdir().unwrap();
    for (name, text) in
        [("small.step", SMALL), ("data/text.txt", "A line of text.\n"), ("data/tokenizer.json", "{}")]
    {
        write(&desk, name, text);
    }
    desk
}

pub fn write(desk: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = desk.path().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    path
}

pub fn uri(path: &Path) -> String {
    format!("file://{}", path.display())
}

/// The position of the first byte of `wanted` in `text`, in UTF-16.
pub fn position(text: &str, wanted: &str) -> Value {
    let at = text.find(wanted).unwrap_or_else(|| panic!("no `{wanted}`"));
    let line = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    json!({ "line": text[..at].matches('\n').count(), "character": text[line..at].encode_utf16().count() })
}

/// The range of the first `wanted` in `text`, which lies on one line.
pub fn range(text: &str, wanted: &str) -> Value {
    let start = position(text, wanted);
    let mut end = start.clone();
    end["character"] = (start["character"].as_u64().unwrap() + wanted.encode_utf16().count() as u64).into();
    json!({ "start": start, "end": end })
}

/// `text` after edits as a client applies them: all of them refer to the text before any.
pub fn edited(text: &str, edits: &Value) -> String {
    let offset = |position: &Value| {
        let [line, character] = ["line", "character"].map(|key| position[key].as_u64().unwrap() as usize);
        let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
        let units = text[start..].chars().scan(0, |units, c| {
            let before = *units;
            *units += c.len_utf16();
            Some((before, c))
        });
        start + units.take_while(|(before, _)| *before < character).map(|(_, c)| c.len_utf8()).sum::<usize>()
    };
    let edits = edits.as_array().unwrap().iter();
    let mut edits: Vec<_> = edits
        .map(|edit| {
            let range = offset(&edit["range"]["start"])..offset(&edit["range"]["end"]);
            (range, edit["newText"].as_str().unwrap())
        })
        .collect();
    edits.sort_by_key(|(range, _)| std::cmp::Reverse(range.start));
    let mut text = text.to_owned();
    for (range, new) in edits {
        text.replace_range(range, new);
    }
    text
}

impl Client {
    /// A client that has said hello, with one folder.
    pub fn in_folder(folder: &Path) -> Client {
        Client::new(&[folder], json!({ "workspace": { "textDocumentContent": {} } }), Arc::new(OsHost))
    }

    pub fn new(folders: &[&Path], capabilities: Value, host: Arc<dyn Host>) -> Client {
        let mut client = Client::silent(host);
        let folders = folders.iter().map(|folder| json!({ "uri": uri(folder), "name": "folder" }));
        let params = json!({
            "processId": null,
            "rootUri": null,
            "capabilities": capabilities,
            "workspaceFolders": folders.collect::<Vec<_>>(),
        });
        client.greeting = client.ask("initialize", params).unwrap();
        client.tell("initialized", json!({}));
        client
    }

    /// A client that has said nothing yet.
    pub fn silent(host: Arc<dyn Host>) -> Client {
        let (theirs, connection) = Connection::memory();
        let server = thread::spawn(move || serve(theirs, host));
        Client { connection, server: Some(server), last: 0, told: Vec::new(), greeting: Value::Null }
    }

    pub fn send(&mut self, method: &str, params: Value) -> i32 {
        self.last += 1;
        let request = Request { id: self.last.into(), method: method.to_owned(), params };
        self.connection.sender.send(request.into()).unwrap();
        self.last
    }

    /// The answer to a request that has been sent.
    pub fn answer(&mut self, id: i32) -> Result<Value, ResponseError> {
        loop {
            match self.receive() {
                Message::Response(Response { id: other, response_result })
                    if other == RequestId::from(id) =>
                {
                    return response_result;
                }
                Message::Notification(note) => self.told.push(note),
                _ => {}
            }
        }
    }

    pub fn ask(&mut self, method: &str, params: Value) -> Result<Value, ResponseError> {
        let id = self.send(method, params);
        self.answer(id)
    }

    pub fn tell(&mut self, method: &str, params: Value) {
        let note = Notification { method: method.to_owned(), params };
        self.connection.sender.send(note.into()).unwrap();
    }

    pub fn receive(&mut self) -> Message {
        self.connection.receiver.recv_timeout(PATIENCE).expect("the server says something")
    }

    pub fn open(&mut self, uri: &str, version: i32, text: &str) {
        let document = json!({ "uri": uri, "languageId": "step", "version": version, "text": text });
        self.tell("textDocument/didOpen", json!({ "textDocument": document }));
    }

    pub fn change(&mut self, uri: &str, version: i32, changes: Value) {
        let document = json!({ "uri": uri, "version": version });
        self.tell("textDocument/didChange", json!({ "textDocument": document, "contentChanges": changes }));
    }

    /// Puts `new` in place of the first `old` of `text`. Gives the text after it.
    pub fn replace(&mut self, uri: &str, version: i32, text: &str, old: &str, new: &str) -> String {
        self.change(uri, version, json!([{ "range": range(text, old), "text": new }]));
        text.replacen(old, new, 1)
    }

    /// The diagnostics of a file as soon as they satisfy `wanted`.
    pub fn diagnostics_when(&mut self, uri: &str, wanted: impl Fn(&Value) -> bool) -> Vec<Value> {
        loop {
            let about = self.told.iter().position(|note| {
                note.method == "textDocument/publishDiagnostics"
                    && note.params["uri"] == uri
                    && wanted(&note.params)
            });
            if let Some(index) = about {
                let note = self.told.remove(index);
                // What was said of the file before is out of date.
                let mut place = 0;
                self.told.retain(|other| {
                    place += 1;
                    place > index || other.method != note.method || other.params["uri"] != uri
                });
                return note.params["diagnostics"].as_array().unwrap().clone();
            }
            if let Message::Notification(note) = self.receive() {
                self.told.push(note);
            }
        }
    }

    /// The diagnostics of an open file at a version.
    pub fn diagnostics(&mut self, uri: &str, version: i32) -> Vec<Value> {
        self.diagnostics_when(uri, |params| params["version"] == version)
    }

    /// Says goodbye.
    pub fn end(mut self) -> Ended {
        assert_eq!(self.ask("shutdown", Value::Null).unwrap(), Value::Null);
        self.tell("exit", Value::Null);
        self.server.take().unwrap().join().unwrap()
    }

    /// Goes away, after saying `last` if anything.
    pub fn vanish(mut self, last: Option<&str>) -> Ended {
        if let Some(last) = last {
            self.tell(last, Value::Null);
        }
        let server = self.server.take().unwrap();
        drop(self);
        server.join().unwrap()
    }
}

/// What is said of a field whose name is misspelt.
pub const SLIP: [&str; 2] = ["step::recipe::missing", "step::recipe::unknown_key"];

/// The codes of diagnostics, sorted.
pub fn codes(diagnostics: &[Value]) -> Vec<&str> {
    let mut codes: Vec<_> =
        diagnostics.iter().map(|diagnostic| diagnostic["code"].as_str().unwrap()).collect();
    codes.sort_unstable();
    codes
}

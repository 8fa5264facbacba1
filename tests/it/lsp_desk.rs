//! Requests to the language server without a session: files, a cursor, an answer.

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use stepc::base::Host;
use stepc::base::host::{MemoryHost, OsHost};
use stepc::lsp::{Document, Encoding, Lines, Snapshot, requests};

/// Open files and a cursor in one of them, written `$0` in its text.
pub struct Desk {
    pub snapshot: Arc<Snapshot>,
    pub path: PathBuf,
    pub text: String,
    pub offset: usize,
}

impl Desk {
    /// Files in memory, all of them open.
    pub fn new(files: &[(&str, &str)]) -> Desk {
        Desk::over(Arc::new(MemoryHost::new()), files)
    }

    /// The one file of a test.
    pub fn file(text: &str) -> Desk {
        Desk::new(&[("/w/a.step", text)])
    }

    /// A file of the repository with an edit in which `$0` is the cursor.
    pub fn repository(file: &str, find: &str, put: &str) -> Desk {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(find), "{file} holds no {find:?}");
        Desk::over(Arc::new(OsHost), &[(path.to_str().unwrap(), &text.replacen(find, put, 1))])
    }

    pub fn over(disk: Arc<dyn Host>, files: &[(&str, &str)]) -> Desk {
        Desk::of(Snapshot::new(Encoding::Utf16, true, disk).with_snippets(true), files)
    }

    /// The files as a client has them that has said what it can do.
    pub fn of(mut snapshot: Snapshot, files: &[(&str, &str)]) -> Desk {
        let (mut open, mut index) = (snapshot.host.open.clone(), Arc::clone(&snapshot.index));
        let mut at = None;
        for (path, text) in files {
            let path = PathBuf::from(path);
            let plain = text.replacen("$0", "", 1);
            if at.is_none() || text.contains("$0") {
                at = Some((path.clone(), plain.clone(), text.find("$0").unwrap_or_default()));
            }
            Arc::make_mut(&mut index).set(&path, &plain);
            let uri = lsp_types::Uri(format!("file://{}", path.display()));
            open.insert(path, Document { uri, version: 1, text: plain.into() });
        }
        snapshot = snapshot.next(open, index, &[]);
        let (path, text, offset) = at.expect("a file");
        Desk { snapshot: Arc::new(snapshot), path, text, offset }
    }

    fn params(&self) -> Value {
        let position = Lines::new(&self.text).position(&self.text, self.offset, Encoding::Utf16);
        json!({
            "textDocument": { "uri": format!("file://{}", self.path.display()) },
            "position": { "line": position.line, "character": position.character },
        })
    }

    /// The answer to a request about the cursor, with more parameters than its place; an error as `{"error": …}`.
    pub fn ask_with(&self, method: &str, more: Value) -> Value {
        let mut params = self.params();
        params.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        match requests::answer(&self.snapshot, method, params) {
            Ok(answer) => answer,
            Err(error) => json!({ "error": error.message }),
        }
    }

    pub fn ask(&self, method: &str) -> Value {
        self.ask_with(&format!("textDocument/{method}"), json!({}))
    }
}

/// The bytes of an LSP range in a text.
pub fn bytes(text: &str, range: &Value) -> [usize; 2] {
    let lines = Lines::new(text);
    ["start", "end"].map(|end| {
        let position = serde_json::from_value(range[end].clone()).expect("a position");
        lines.offset(text, position, Encoding::Utf16)
    })
}

/// A text after edits.
pub fn edited(text: &str, edits: &Value) -> String {
    let mut places: Vec<_> = edits
        .as_array()
        .unwrap()
        .iter()
        .map(|edit| (bytes(text, &edit["range"]), &edit["newText"]))
        .collect();
    places.sort_by_key(|(place, _)| std::cmp::Reverse(*place));
    let mut out = text.to_owned();
    for ([start, end], new) in places {
        out.replace_range(start..end, new.as_str().unwrap());
    }
    out
}

//! Latency of the language server as an editor feels it: the real program over stdio, a session of typing in the
//! flagship and in recipes of 20,000 lines, from the edit to its diagnostics and to completions.
//!
//! `cargo bench --bench lsp` prints percentiles and fails where a limit is passed; `-- --test` types a few letters.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

const FLAGSHIP: &str = include_str!("../recipes/step35_flash.step");
const MODEL: &str = include_str!("../recipes/models/step35.step");

/// Lines of a large recipe.
const LINES: usize = 20_000;

/// What a person types and takes back, letter by letter: a wrong divisor, a wrong key, a broken line.
const TYPED: [(&str, &str); 4] = [
    ("ep        = 9", "7"),
    ("    fsdp      = 192", "\n    prefetch = 1"),
    ("    seed = 4", "21"),
    ("    clip = 1.0", "\n    weihgt = {"),
];

/// Edits in a row that nobody waits for.
const BURST: usize = 20;

struct Editor {
    server: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    uri: String,
    text: String,
    version: i64,
    requests: i64,
}

impl Editor {
    /// Starts the server and opens `text` as a file beside the flagship.
    fn open(text: &str) -> Editor {
        let mut server = Command::new(env!("CARGO_BIN_EXE_stepc"))
            .arg("lsp")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let input = server.stdin.take().expect("piped");
        let output = BufReader::new(server.stdout.take().expect("piped"));
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("recipes/typed.step");
        let uri = format!("file://{}", path.display());
        let mut editor =
            Editor { server, input, output, uri, text: text.to_owned(), version: 1, requests: 0 };
        editor.ask("initialize", json!({ "processId": null, "rootUri": null, "capabilities": {} }));
        editor.tell("initialized", json!({}));
        let document = json!({ "uri": editor.uri, "languageId": "step", "version": 1, "text": text });
        editor.tell("textDocument/didOpen", json!({ "textDocument": document }));
        editor.diagnostics();
        editor
    }

    fn send(&mut self, message: Value) {
        let text = message.to_string();
        write!(self.input, "Content-Length: {}\r\n\r\n{text}", text.len()).expect("the server reads");
        self.input.flush().expect("the server reads");
    }

    fn tell(&mut self, method: &str, params: Value) {
        self.send(json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.requests += 1;
        let id = self.requests;
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        self.receive(|message| message["id"] == id)
    }

    fn receive(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let mut length = 0;
            loop {
                let mut line = String::new();
                self.output.read_line(&mut line).expect("the server writes");
                match line.trim().strip_prefix("Content-Length: ") {
                    Some(number) => length = number.parse().expect("a number"),
                    None if line.trim().is_empty() => break,
                    None => {}
                }
            }
            let mut body = vec![0; length];
            self.output.read_exact(&mut body).expect("the server writes");
            let message: Value = serde_json::from_slice(&body).expect("JSON");
            if wanted(&message) {
                return message;
            }
        }
    }

    /// Waits for the diagnostics of the text as it is.
    fn diagnostics(&mut self) -> Value {
        let (uri, version) = (self.uri.clone(), self.version);
        self.receive(|message| {
            let params = &message["params"];
            message["method"] == "textDocument/publishDiagnostics"
                && params["uri"] == uri
                && params["version"] == version
        })
    }

    /// Puts `new` in place of the bytes `start..end`.
    fn edit(&mut self, start: usize, end: usize, new: &str) {
        let place = |at: usize| {
            let before = &self.text[..at];
            let line = before.rfind('\n').map_or(0, |newline| newline + 1);
            json!({ "line": before.matches('\n').count(), "character": before[line..].encode_utf16().count() })
        };
        let change = json!({ "range": { "start": place(start), "end": place(end) }, "text": new });
        self.text.replace_range(start..end, new);
        self.version += 1;
        let document = json!({ "uri": self.uri, "version": self.version });
        self.tell("textDocument/didChange", json!({ "textDocument": document, "contentChanges": [change] }));
    }

    /// Every state that typing and taking back goes through: where to edit, what goes, and what comes.
    fn keystrokes(&self) -> Vec<(usize, usize, String)> {
        let keys = TYPED.iter().flat_map(|(behind, typed)| {
            let at = self.text.find(behind).expect("in every text") + behind.len();
            let come = typed.char_indices().map(move |(index, letter)| (at + index, 0, letter.to_string()));
            let go = typed.char_indices().rev().map(move |(index, _)| (at + index, 1, String::new()));
            come.chain(go)
        });
        keys.collect()
    }

    /// Completions at the end of the first `parallel` line, and whether there were any to wait for.
    fn complete(&mut self) -> Duration {
        let at = self.text.find("parallel {").expect("in every text");
        let line = self.text[..at].matches('\n').count() + 1;
        let begun = Instant::now();
        let answer = self.ask(
            "textDocument/completion",
            json!({ "textDocument": { "uri": self.uri }, "position": { "line": line, "character": 4 } }),
        );
        assert!(answer.get("error").is_none(), "{answer}");
        begun.elapsed()
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        self.ask("shutdown", Value::Null);
        self.tell("exit", Value::Null);
        assert!(self.server.wait().expect("it ends").success(), "the server ends properly");
    }
}

/// The flagship, and copies of its model until there are [`LINES`].
fn models() -> String {
    let copies = (0..).map(|copy| MODEL.replace("model step35_flash", &format!("model copy_{copy}")));
    grown(FLAGSHIP.to_owned(), copies)
}

/// The flagship with its profile again and again until there are [`LINES`].
fn profiles() -> String {
    let (head, profile) = FLAGSHIP.split_at(FLAGSHIP.find("  profile laptop").expect("the profile"));
    let profile = profile.trim_end().trim_end_matches('}');
    let copies = (0..).map(|copy| profile.replace("profile laptop", &format!("profile laptop_{copy}")));
    grown(head.to_owned(), copies) + "}\n"
}

fn grown(text: String, mut copies: impl Iterator<Item = String>) -> String {
    let (mut text, mut lines) = (text.clone(), text.lines().count());
    while lines < LINES {
        let copy = copies.next().expect("endless");
        lines += copy.lines().count();
        text += &copy;
    }
    text
}

/// Times of a kind, and the most that the slowest hundredth may take.
struct Times {
    what: &'static str,
    limit: Duration,
    taken: Vec<Duration>,
}

impl Times {
    fn percentile(&self, percent: usize) -> Duration {
        self.taken[(self.taken.len() * percent).div_ceil(100).max(1) - 1]
    }

    /// Prints a line. Whether the limit holds.
    fn report(mut self) -> bool {
        self.taken.sort_unstable();
        let [middle, slow] = [50, 99].map(|percent| self.percentile(percent));
        let Times { what, limit, taken } = &self;
        println!("{what:<42} {:>5}  p50 {middle:>9.2?}  p99 {slow:>9.2?}  limit {limit:?}", taken.len());
        slow <= *limit
    }
}

/// Types in `text` for so many `rounds`.
fn session(text: &str, rounds: usize, names: [&'static str; 3], limits: [u64; 3]) -> bool {
    let mut editor = Editor::open(text);
    let mut taken = [const { Vec::new() }; 3];
    for _ in 0..rounds {
        for (at, gone, come) in editor.keystrokes() {
            let begun = Instant::now();
            editor.edit(at, at + gone, &come);
            editor.diagnostics();
            taken[0].push(begun.elapsed());
        }
        // Faster than anybody types: only the last state counts.
        let keys = editor.keystrokes();
        for (at, gone, come) in keys.iter().take(BURST) {
            editor.edit(*at, at + gone, come);
        }
        let begun = Instant::now();
        editor.diagnostics();
        taken[1].push(begun.elapsed());
        for (at, gone, come) in keys.iter().skip(BURST) {
            editor.edit(*at, at + gone, come);
            taken[2].push(editor.complete());
        }
    }
    assert_eq!(editor.text, text, "all that was typed has been taken back");
    let times = names.into_iter().zip(limits).zip(taken);
    let held = times
        .map(|((what, limit), taken)| Times { what, limit: Duration::from_millis(limit), taken }.report());
    // All of them are reported.
    held.collect::<Vec<_>>().into_iter().all(|held| held)
}

fn main() -> ExitCode {
    let smoke = std::env::args().any(|argument| argument == "--test");
    let rounds = |full| if smoke { 1 } else { full };
    let sessions = [
        session(
            FLAGSHIP,
            rounds(20),
            [
                "flagship: edit to diagnostics",
                "flagship: burst to diagnostics",
                "flagship: edit to completion",
            ],
            [15, 15, 10],
        ),
        session(
            &models(),
            rounds(4),
            ["20,000 lines of models: edit to diagnostics", "… burst to diagnostics", "… edit to completion"],
            [200, 200, 200],
        ),
        session(
            &profiles(),
            rounds(4),
            [
                "20,000 lines of profiles: edit to diagnostics",
                "… burst to diagnostics",
                "… edit to completion",
            ],
            [200, 200, 200],
        ),
    ];
    // A machine under test has other things to do.
    if smoke || sessions.iter().all(|held| *held) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

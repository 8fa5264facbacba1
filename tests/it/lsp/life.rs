//! From hello to goodbye, also when one of them never comes.

use super::client::{Client, SMALL, codes, desk, range, uri, write};
use serde_json::{Value, json};
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use stepc::base::Host;
use stepc::base::host::OsHost;
use stepc::lsp::Ended;

const NOT_INITIALIZED: i32 = -32002;
const INVALID_REQUEST: i32 = -32600;
const METHOD_NOT_FOUND: i32 = -32601;
const INVALID_PARAMS: i32 = -32602;
const INTERNAL: i32 = -32603;
const CANCELLED: i32 = -32800;
const MODIFIED: i32 = -32801;

#[test]
fn nothing_is_served_before_hello() {
    let mut client = Client::silent(Arc::new(OsHost));
    client.tell("textDocument/didOpen", json!({}));
    assert_eq!(client.ask("textDocument/hover", json!({})).unwrap_err().code, NOT_INITIALIZED);
    assert_eq!(client.ask("shutdown", Value::Null).unwrap_err().code, NOT_INITIALIZED);
    assert_eq!(client.ask("initialize", json!({ "capabilities": 7 })).unwrap_err().code, INVALID_PARAMS);
    let greeting =
        client.ask("initialize", json!({ "processId": null, "rootUri": null, "capabilities": {} }));
    assert_eq!(greeting.unwrap()["serverInfo"]["name"], "stepc");
    assert_eq!(client.ask("initialize", json!({})).unwrap_err().code, INVALID_REQUEST);
    assert_eq!(client.end(), Ended::Properly);
}

#[test]
fn nothing_is_served_after_goodbye() {
    let desk = desk();
    let mut client = Client::in_folder(desk.path());
    assert_eq!(client.ask("no/such", json!({})).unwrap_err().code, METHOD_NOT_FOUND);
    client.ask("shutdown", Value::Null).unwrap();
    assert_eq!(client.ask("workspace/symbol", json!({ "query": "" })).unwrap_err().code, INVALID_REQUEST);
    assert_eq!(client.vanish(Some("exit")), Ended::Properly);
}

#[test]
fn a_client_that_goes_away_ends_the_server() {
    let desk = desk();
    assert_eq!(Client::in_folder(desk.path()).vanish(None), Ended::Abruptly);
    assert_eq!(Client::in_folder(desk.path()).vanish(Some("exit")), Ended::Abruptly);
    assert_eq!(Client::silent(Arc::new(OsHost)).vanish(None), Ended::Abruptly);
    assert_eq!(Client::silent(Arc::new(OsHost)).vanish(Some("exit")), Ended::Abruptly);
}

#[test]
fn every_request_has_one_answer_also_when_cancelled_or_late() {
    let desk = desk();
    let uri = uri(&desk.path().join("small.step"));
    let mut client = Client::in_folder(desk.path());
    client.open(&uri, 1, SMALL);
    let params = json!({ "textDocument": { "uri": uri } });
    for version in 2..12 {
        let cancelled = client.send("textDocument/semanticTokens/full", params.clone());
        client.tell("$/cancelRequest", json!({ "id": cancelled }));
        let late = client.send("textDocument/documentSymbol", params.clone());
        client.change(&uri, version, json!([{ "text": SMALL }]));
        let answers = [client.answer(cancelled), client.answer(late)];
        let codes = answers.map(|answer| answer.err().map_or(0, |error| error.code));
        assert!(
            [0, CANCELLED, MODIFIED].contains(&codes[0]) && [0, MODIFIED].contains(&codes[1]),
            "{codes:?}"
        );
    }
    // Nobody waits for these any more, or ever did.
    client.tell("$/cancelRequest", json!({ "id": 1 }));
    client.tell("$/cancelRequest", json!({ "id": "none" }));
    client.tell("$/cancelRequest", json!({ "id": [] }));
    assert_eq!(client.end(), Ended::Properly);
}

/// A disk with a defect: reading one file panics.
struct Cursed;

impl Host for Cursed {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        assert!(!path.ends_with("cursed.step"), "this file is cursed");
        Err(io::Error::new(ErrorKind::NotFound, "no such file"))
    }

    fn exists(&self, _: &Path) -> bool {
        true
    }
}

#[test]
fn a_panic_ends_a_request_and_not_the_server() {
    let mut client = Client::new(&[], json!({}), Arc::new(Cursed));
    let (bad, good) = ("file:///desk/bad.step", "file:///desk/small.step");
    client.open(bad, 1, "use \"cursed.step\"\n");
    let params = json!({ "textDocument": { "uri": bad } });
    let error = client.ask("textDocument/documentSymbol", params).unwrap_err();
    assert_eq!(error.code, INTERNAL, "{error:?}");
    client.open(good, 1, SMALL);
    assert_eq!(codes(&client.diagnostics(good, 1)), [] as [&str; 0]);
    assert_eq!(client.end(), Ended::Properly);
}

/// The program on bytes that a client writes: what it answers, and its exit code.
fn program(input: &[u8]) -> (String, Option<i32>) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_stepc"))
        .args(["lsp", "--stdio"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    program.stdin.take().unwrap().write_all(input).unwrap();
    let output = program.wait_with_output().unwrap();
    (String::from_utf8(output.stdout).unwrap(), output.status.code())
}

fn framed(messages: &[Value]) -> Vec<u8> {
    let texts = messages.iter().map(Value::to_string);
    texts.flat_map(|text| format!("Content-Length: {}\r\n\r\n{text}", text.len()).into_bytes()).collect()
}

#[test]
fn the_program_speaks_over_standard_streams() {
    let desk = desk();
    let text = SMALL.replace("heads = 4,", "haeds = 4,");
    let uri = uri(&write(&desk, "wrong.step", &text));
    let document = json!({ "uri": uri, "languageId": "step", "version": 1, "text": text });
    let hello = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "processId": null, "rootUri": null, "capabilities": {} } }),
        json!({ "jsonrpc": "2.0", "method": "initialized", "params": {} }),
        json!({ "jsonrpc": "2.0", "method": "textDocument/didOpen", "params": { "textDocument": document } }),
        json!({ "jsonrpc": "2.0", "id": "two", "method": "textDocument/codeAction", "params": {
            "textDocument": { "uri": uri }, "range": range(&text, "haeds"), "context": { "diagnostics": [] } } }),
    ];
    let goodbye = [
        json!({ "jsonrpc": "2.0", "id": 3, "method": "shutdown" }),
        json!({ "jsonrpc": "2.0", "method": "exit" }),
    ];
    let (said, code) = program(&[framed(&hello), framed(&goodbye)].concat());
    assert_eq!(code, Some(0));
    assert!(said.contains("\"id\":\"two\"") && said.contains("\"newText\":\"heads\""), "{said}");
    // Standard input closes without a goodbye, in the middle of a message, behind nonsense.
    assert_eq!(program(&framed(&hello)).1, Some(1));
    assert_eq!(program(b"Content-Length: 100\r\n\r\n{").1, Some(1));
    assert_eq!(program(b"GET / HTTP/1.1\r\n\r\n").1, Some(1));
    assert_eq!(program(b"").1, Some(1));
    // A body that is no message is passed over.
    let nonsense = b"Content-Length: 5\r\n\r\n[1,2]".to_vec();
    assert_eq!(program(&[nonsense, framed(&hello), framed(&goodbye)].concat()).1, Some(0));
}

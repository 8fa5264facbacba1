//! Every request that is served, with what it should be sent and with what it should not.

use super::client::{Client, SLIP, SMALL, codes, desk, range, uri};
use serde_json::{Value, json};
use stepc::lsp::Ended;

const INTERNAL: i32 = -32603;
const INVALID_PARAMS: i32 = -32602;

/// Every request about an open file, with what it takes beside the file.
fn about_files() -> Vec<(&'static str, Value)> {
    let place = json!({ "line": 20, "character": 10 });
    let range = json!({ "start": { "line": 0, "character": 0 }, "end": { "line": 30, "character": 0 } });
    let options = json!({ "tabSize": 2, "insertSpaces": true });
    vec![
        ("textDocument/codeAction", json!({ "range": range, "context": { "diagnostics": [] } })),
        ("textDocument/codeLens", json!({})),
        ("textDocument/completion", json!({ "position": place })),
        ("textDocument/definition", json!({ "position": place })),
        ("textDocument/documentLink", json!({})),
        ("textDocument/documentSymbol", json!({})),
        ("textDocument/foldingRange", json!({})),
        ("textDocument/formatting", json!({ "options": options })),
        ("textDocument/hover", json!({ "position": place })),
        ("textDocument/inlayHint", json!({ "range": range })),
        ("textDocument/prepareRename", json!({ "position": place })),
        ("textDocument/rangeFormatting", json!({ "range": range, "options": options })),
        ("textDocument/references", json!({ "position": place, "context": { "includeDeclaration": true } })),
        ("textDocument/rename", json!({ "position": place, "newName": "other" })),
        ("textDocument/selectionRange", json!({ "positions": [place] })),
        ("textDocument/semanticTokens/full", json!({})),
        ("textDocument/semanticTokens/full/delta", json!({ "previousResultId": "0" })),
        ("textDocument/semanticTokens/range", json!({ "range": range })),
        ("textDocument/signatureHelp", json!({ "position": place })),
    ]
}

fn with_file(mut params: Value, uri: &str) -> Value {
    params["textDocument"] = json!({ "uri": uri });
    params
}

/// Every number in a value replaced.
fn with_numbers(value: &Value, number: u64) -> Value {
    match value {
        Value::Number(_) => number.into(),
        Value::Array(items) => items.iter().map(|item| with_numbers(item, number)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (key.clone(), with_numbers(value, number))).collect()
        }
        other => other.clone(),
    }
}

#[test]
fn every_request_is_served() {
    let desk = desk();
    let uri = uri(&desk.path().join("small.step"));
    let mut client = Client::in_folder(desk.path());
    client.open(&uri, 1, SMALL);
    for (method, params) in about_files() {
        let answer = client.ask(method, with_file(params, &uri));
        // There need not be anything to rename; there always is an answer.
        assert!(answer.is_ok() || method == "textDocument/rename", "{method}: {answer:?}");
    }
    assert_eq!(client.end(), Ended::Properly);
}

#[test]
fn places_beyond_the_end_are_served() {
    let desk = desk();
    let uri = uri(&desk.path().join("small.step"));
    let mut client = Client::in_folder(desk.path());
    for (version, text) in (1..).zip(["", "\n", "recipe", "// 步\r\n🦀", SMALL, "recipe a {\n model b {"])
    {
        client.open(&uri, version, text);
        for (method, params) in about_files() {
            for number in [0, 1, 12, u64::from(u32::MAX)] {
                let params = with_file(with_numbers(&params, number), &uri);
                let code = client.ask(method, params).err().map(|error| error.code);
                assert!(
                    code != Some(INTERNAL) && code != Some(INVALID_PARAMS),
                    "{method} in {text:?} at {number}"
                );
            }
        }
    }
    assert_eq!(client.end(), Ended::Properly);
}

#[test]
fn wrong_parameters_are_refused() {
    let desk = desk();
    let open = uri(&desk.path().join("small.step"));
    let mut client = Client::in_folder(desk.path());
    client.open(&open, 1, SMALL);
    for (method, params) in about_files() {
        let shapes = [Value::Null, json!({}), json!([]), json!(7), json!({ "textDocument": 7 })];
        let files =
            ["", "small.step", "file://elsewhere/a.step", "file:///no/such.step", "untitled:1", "%%%"];
        let files = files.map(|uri| with_file(params.clone(), uri));
        let numbers = with_file(with_numbers(&params, u64::MAX), &open);
        let numbers = (params.to_string().contains("character")).then_some(numbers);
        for wrong in shapes.into_iter().chain(files).chain(numbers) {
            let error = client.ask(method, wrong.clone()).expect_err(&format!("{method} takes {wrong}"));
            assert_eq!(error.code, INVALID_PARAMS, "{method} of {wrong}: {}", error.message);
        }
    }
    for method in ["workspace/symbol", "workspace/executeCommand", "workspace/textDocumentContent"] {
        let error = client.ask(method, json!([])).unwrap_err();
        assert_eq!(error.code, INVALID_PARAMS, "{method}");
    }
    assert_eq!(client.end(), Ended::Properly);
}

#[test]
fn wrong_notifications_change_nothing() {
    let desk = desk();
    let uri = uri(&desk.path().join("small.step"));
    let mut client = Client::in_folder(desk.path());
    client.open(&uri, 1, SMALL);
    let notices = [
        "textDocument/didOpen",
        "textDocument/didChange",
        "textDocument/didClose",
        "workspace/didChangeWatchedFiles",
        "workspace/didChangeWorkspaceFolders",
        "$/cancelRequest",
        "$/setTrace",
        "no/such",
    ];
    for method in notices {
        for params in
            [Value::Null, json!({}), json!([]), json!({ "textDocument": { "uri": "untitled:none" } })]
        {
            client.tell(method, params);
        }
    }
    let other = json!({ "uri": "file:///not/open.step", "version": 2 });
    client
        .tell("textDocument/didChange", json!({ "textDocument": other, "contentChanges": [{ "text": "" }] }));
    client.tell("textDocument/didClose", json!({ "textDocument": other }));
    client.replace(&uri, 2, SMALL, "heads = 4,", "haeds = 4,");
    assert_eq!(codes(&client.diagnostics(&uri, 2)), SLIP);
    assert_eq!(client.end(), Ended::Properly);
}

#[test]
fn commands_answer_with_pages() {
    let desk = desk();
    let uri = uri(&desk.path().join("small.step"));
    let mut client = Client::in_folder(desk.path());
    client.open(&uri, 1, SMALL);
    let mut run = |command: &str, argument: Value| {
        client.ask("workspace/executeCommand", json!({ "command": command, "arguments": [argument] }))
    };
    for target in [json!(uri), json!({ "uri": uri }), json!({ "uri": uri, "recipe": "small" })] {
        let page = run("stepc.openPlan", target).unwrap();
        assert!(page["html"].as_str().unwrap().contains("<html"), "{page}");
        assert!(page["text"].as_str().unwrap().contains("small"), "{page}");
    }
    assert!(
        run("stepc.explain", json!("step::parallel::ep_experts"))
            .unwrap()
            .as_str()
            .unwrap()
            .starts_with("# ")
    );
    let wrong = [
        ("stepc.plan", json!({ "uri": uri, "recipe": "other" })),
        ("stepc.plan", json!({ "uri": uri, "profile": "other" })),
        ("stepc.plan", json!({ "uri": "file:///no/such.step" })),
        ("stepc.plan", json!(7)),
        ("stepc.explain", json!("step::no::such")),
        ("stepc.none", Value::Null),
    ];
    for (command, argument) in wrong {
        assert!(run(command, argument.clone()).is_err(), "{command} of {argument}");
    }
    let lenses = client.ask("textDocument/codeLens", json!({ "textDocument": { "uri": uri } })).unwrap();
    let titles: Vec<_> =
        lenses.as_array().unwrap().iter().map(|lens| lens["command"]["title"].clone()).collect();
    assert_eq!(titles, ["Check", "Plan", "Run", "Open plan"]);
    assert_eq!(lenses[0]["range"], range(SMALL, "recipe small"));
    assert_eq!(lenses[3]["command"]["arguments"], json!([{ "uri": uri, "recipe": "small" }]));
    assert_eq!(client.end(), Ended::Properly);
}

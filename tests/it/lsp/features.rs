//! What answers say.

use super::client::{Client, SMALL, codes, desk, edited, position, range, uri};
use serde_json::{Value, json};
use std::path::Path;

fn flagship() -> (String, String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("recipes/step35_flash.step");
    (uri(&path), std::fs::read_to_string(path).unwrap())
}

fn in_repository() -> Client {
    Client::in_folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join("recipes"))
}

#[test]
fn a_quick_fix_mends() {
    let desk = desk();
    let uri = uri(&desk.path().join("small.step"));
    let mut client = Client::in_folder(desk.path());
    client.open(&uri, 1, SMALL);
    assert_eq!(codes(&client.diagnostics(&uri, 1)), [] as [&str; 0]);
    // Before: the word, what it is to be; after: it is mended.
    let slips = [
        ("heads = 4,", "haeds = 4,"),
        ("schedule cosine", "schedule cosin"),
        ("checkpoint { dir", "checkpoit { dir"),
        ("optimizer adamw { lr = 1e-3 }", "optimizer adamw { learning_rate = 1e-3 }"),
        ("path = \"data/*.txt\"", "path = 'data/*.txt'"),
        ("recipe small", "recip small"),
    ];
    let mut version = 1;
    for (right, wrong) in slips {
        version += 1;
        let text = client.replace(&uri, version, SMALL, right, wrong);
        let found = client.diagnostics(&uri, version);
        let offered = found.iter().find_map(|problem| {
            let context = json!({ "diagnostics": [problem] });
            let params =
                json!({ "textDocument": { "uri": uri }, "range": problem["range"], "context": context });
            let actions = client.ask("textDocument/codeAction", params).unwrap();
            let offered =
                actions.as_array().unwrap().iter().find(|action| action["diagnostics"][0] == *problem);
            offered.cloned()
        });
        let action = offered.unwrap_or_else(|| panic!("{wrong}: {found:?}"));
        assert_eq!((&action["kind"], &action["isPreferred"]), (&json!("quickfix"), &json!(true)));
        let mended = edited(&text, &action["edit"]["changes"][&uri]);
        version += 1;
        client.change(&uri, version, json!([{ "text": mended }]));
        assert_eq!(codes(&client.diagnostics(&uri, version)), [] as [&str; 0], "{wrong}: {mended}");
        version += 1;
        client.change(&uri, version, json!([{ "text": SMALL }]));
        client.diagnostics(&uri, version);
    }
    // Nothing to mend here, and all at once where asked for.
    let text = SMALL.replace("heads = 4,", "haeds = 4,").replace("'", "").replace("vocab  =", "vcoab  =");
    client.change(&uri, version + 1, json!([{ "text": text }]));
    let found = client.diagnostics(&uri, version + 1);
    assert_eq!(found.len(), 4, "{found:?}");
    let start = json!({ "start": { "line": 0, "character": 0 }, "end": { "line": 0, "character": 0 } });
    let ask = |only: Value| json!({ "textDocument": { "uri": uri }, "range": start, "context": { "diagnostics": [], "only": only } });
    assert_eq!(client.ask("textDocument/codeAction", ask(json!(["quickfix"]))).unwrap(), json!([]));
    let all = client.ask("textDocument/codeAction", ask(json!(["source.fixAll"]))).unwrap();
    assert_eq!(edited(&text, &all[0]["edit"]["changes"][&uri]), SMALL);
    client.end();
}

#[test]
fn diagnostics_are_those_of_check() {
    let (uri, text) = flagship();
    let mut client = in_repository();
    client.open(&uri, 1, &text);
    assert_eq!(codes(&client.diagnostics(&uri, 1)), [] as [&str; 0]);
    client.replace(&uri, 2, &text, "ep        = 96", "ep        = 90");
    let found = client.diagnostics(&uri, 2);
    let experts = found.iter().find(|one| one["code"] == "step::parallel::ep_experts").expect("the rule");
    assert_eq!((&experts["severity"], &experts["source"]), (&json!(1), &json!("stepc")));
    assert_eq!(experts["range"], range(&text, "ep        = 96"));
    assert!(experts["message"].as_str().unwrap().contains("nearest"), "{experts}");
    assert_eq!(experts["codeDescription"]["href"], "step-library:/errors/step::parallel::ep_experts.md");
    let model = experts["relatedInformation"][0]["location"]["uri"].as_str().unwrap();
    assert!(model.ends_with("recipes/models/step35.step"), "{model}");
    let page = json!({ "uri": "step-library:/errors/step::parallel::ep_experts.md" });
    let page = client.ask("workspace/textDocumentContent", page).unwrap();
    assert!(page["text"].as_str().unwrap().starts_with("# "), "{page}");
    client.end();
}

#[test]
fn layout_is_that_of_fmt() {
    let desk = desk();
    let uri = uri(&desk.path().join("small.step"));
    let mut client = Client::in_folder(desk.path());
    let options = json!({ "tabSize": 8, "insertSpaces": false });
    let text =
        "\n\nlet a   = 1\nlet long = 2 // two\nmodel m   {\nhidden = 1,layers=2\n\n\n\n}\nlet  z=[1,\n 2]\n";
    for (version, text) in (1..).zip([text.to_owned(), text.replace('\n', "\r\n"), format!("\u{feff}{text}")])
    {
        client.open(&uri, version, &text);
        let ask = json!({ "textDocument": { "uri": uri }, "options": options });
        let edits = client.ask("textDocument/formatting", ask).unwrap();
        let mut sources = stepc::base::SourceMap::default();
        let file = sources.add("a.step", text.as_str());
        let laid_out = stepc::syntax::format::format(file, &text, &mut Default::default()).unwrap();
        assert_eq!(edited(&text, &edits), laid_out);
        // The model only: the lines around it stay.
        let place = json!({ "start": position(&text, "model"), "end": position(&text, "layers") });
        let ask = json!({ "textDocument": { "uri": uri }, "options": options, "range": place });
        let edits = client.ask("textDocument/rangeFormatting", ask).unwrap();
        let partly = edited(&text, &edits);
        assert!(partly.contains("let a   = 1") && partly.contains("let  z=[1,"), "{partly}");
        assert!(partly.contains("model m {") && partly.contains("  hidden = 1, layers = 2"), "{partly}");
    }
    // What cannot be read is left alone.
    client.open(&uri, 9, "model {{{ = ");
    let ask = json!({ "textDocument": { "uri": uri }, "options": options });
    assert_eq!(client.ask("textDocument/formatting", ask).unwrap(), Value::Null);
    client.end();
}

#[test]
fn every_file_of_the_library_is_laid_out_already() {
    let mut client = in_repository();
    for (name, text) in stepc::recipe::library::LIBRARY {
        let uri = uri(&Path::new(env!("CARGO_MANIFEST_DIR")).join("recipes").join(name));
        client.open(&uri, 1, text);
        let ask =
            json!({ "textDocument": { "uri": uri }, "options": { "tabSize": 2, "insertSpaces": true } });
        assert_eq!(client.ask("textDocument/formatting", ask).unwrap(), json!([]), "{name}");
        assert_eq!(codes(&client.diagnostics(&uri, 1)), [] as [&str; 0], "{name}");
    }
    client.end();
}

#[test]
fn the_outline_follows_the_blocks() {
    let (uri, text) = flagship();
    let mut client = in_repository();
    client.open(&uri, 1, &text);
    let ask = json!({ "textDocument": { "uri": uri } });
    let symbols = client.ask("textDocument/documentSymbol", ask).unwrap();
    assert_eq!(symbols[0]["name"], "recipe step35_flash");
    let children = symbols[0]["children"].as_array().unwrap();
    let names: Vec<_> = children.iter().map(|child| child["name"].as_str().unwrap()).collect();
    let blocks = [
        "model step35_flash",
        "cluster atlas_a3",
        "parallel",
        "data",
        "train",
        "checkpoint",
        "profile laptop",
    ];
    assert_eq!(names, blocks);
    assert_eq!(children[2]["children"][1]["name"], "ep");
    assert_eq!(children[2]["children"][1]["detail"], "96");
    assert_eq!(children[2]["selectionRange"], range(&text, "parallel"));
    let found = client.ask("workspace/symbol", json!({ "query": "ST35F" })).unwrap();
    let names: Vec<_> =
        found.as_array().unwrap().iter().map(|item| (&item["name"], &item["containerName"])).collect();
    assert!(names.contains(&(&json!("step35_flash"), &json!("recipe"))), "{names:?}");
    client.end();
}

#[test]
fn folds_and_selections_nest() {
    let (uri, text) = flagship();
    let mut client = in_repository();
    client.open(&uri, 1, &text);
    let ask = json!({ "textDocument": { "uri": uri } });
    let folds = client.ask("textDocument/foldingRange", ask).unwrap();
    let lines = |fold: &Value| (fold["startLine"].as_u64().unwrap(), fold["endLine"].as_u64().unwrap());
    let folds: Vec<_> = folds.as_array().unwrap().iter().map(lines).collect();
    let line = |wanted: &str| position(&text, wanted)["line"].as_u64().unwrap();
    assert!(folds.contains(&(line("use \"models"), line("use \"devices"))), "{folds:?}");
    assert!(
        folds.iter().any(|(start, end)| *start == line("  parallel {") && *end == *start + 6),
        "{folds:?}"
    );
    let ask = json!({ "textDocument": { "uri": uri }, "positions": [position(&text, "0.95")] });
    let mut selection = &client.ask("textDocument/selectionRange", ask).unwrap()[0];
    let mut ranges = Vec::new();
    while selection["range"].is_object() {
        ranges.push(selection["range"].clone());
        selection = &selection["parent"];
    }
    assert_eq!(ranges[0], range(&text, "0.95"));
    assert_eq!(ranges[1], range(&text, "[0.9, 0.95]"));
    assert_eq!(ranges[2], range(&text, "betas = [0.9, 0.95]"));
    assert_eq!(ranges.len(), 7, "{ranges:?}");
    client.end();
}

#[test]
fn links_lead_to_files() {
    let desk = desk();
    let text = format!("use \"models/llama.step\"\nuse \"small.step\"\n{}", SMALL.replace("small", "other"));
    let uri = uri(&desk.path().join("other.step"));
    let mut client = Client::in_folder(desk.path());
    client.open(&uri, 1, &text);
    let links = client.ask("textDocument/documentLink", json!({ "textDocument": { "uri": uri } })).unwrap();
    let targets: Vec<_> =
        links.as_array().unwrap().iter().map(|link| link["target"].as_str().unwrap()).collect();
    assert_eq!(targets[0], "step-library:/models/llama.step");
    assert!(
        targets[1].ends_with("/small.step") && targets[2].ends_with("/data/tokenizer.json"),
        "{targets:?}"
    );
    assert_eq!(links[0]["range"], range(&text, "models/llama.step"));
    let library = client.ask("workspace/textDocumentContent", json!({ "uri": targets[0] })).unwrap();
    assert!(library["text"].as_str().unwrap().contains("model llama"), "{library}");
    client.end();
}

/// Tokens as text and kind.
fn words(text: &str, data: &Value, legend: &Value) -> Vec<(String, String)> {
    let lines: Vec<Vec<u16>> = text.split('\n').map(|line| line.encode_utf16().collect()).collect();
    let numbers: Vec<usize> = data.as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize).collect();
    let (mut line, mut column) = (0, 0);
    let tokens = numbers.chunks(5).map(|token| {
        column = if token[0] == 0 { column + token[1] } else { token[1] };
        line += token[0];
        let word = String::from_utf16(&lines[line][column..column + token[2]]).unwrap();
        (word, legend[token[3]].as_str().unwrap().to_owned())
    });
    tokens.collect()
}

#[test]
fn colours_tell_what_words_mean() {
    let desk = desk();
    let uri = uri(&desk.path().join("small.step"));
    let mut client = Client::in_folder(desk.path());
    let legend = client.greeting["capabilities"]["semanticTokensProvider"]["legend"]["tokenTypes"].clone();
    let text = format!("/* 🦀步 */ let size = 64\n{}", SMALL.replace("inner = 128", "inner = 2 * size"));
    client.open(&uri, 1, &text);
    let file = json!({ "textDocument": { "uri": uri } });
    let full = client.ask("textDocument/semanticTokens/full", file.clone()).unwrap();
    let found = words(&text, &full["data"], &legend);
    let has = |word: &str, kind: &str| found.contains(&(word.to_owned(), kind.to_owned()));
    for (word, kind) in [
        ("model", "keyword"),
        ("tiny", "class"),
        ("sliding", "class"),
        ("size", "variable"),
        ("i", "parameter"),
        ("heads", "property"),
        ("cosine", "enumMember"),
        ("512", "number"),
        ("\"data/*.txt\"", "string"),
    ] {
        assert!(has(word, kind), "{word} is {kind}: {found:?}");
    }
    // A range is a part of it, and what changed makes the old into the new.
    let ask = json!({ "textDocument": { "uri": uri }, "range": range(&text, "recipe small") });
    let part = client.ask("textDocument/semanticTokens/range", ask).unwrap();
    assert_eq!(words(&text, &part["data"], &legend).len(), 2);
    let changed = client.replace(&uri, 2, &text, "hidden = 64", "hidden = size, layers = 2");
    let ask = json!({ "textDocument": { "uri": uri }, "previousResultId": full["resultId"] });
    let delta = client.ask("textDocument/semanticTokens/full/delta", ask).unwrap();
    let mut numbers = full["data"].as_array().unwrap().clone();
    for edit in delta["edits"].as_array().unwrap() {
        let [start, gone] = ["start", "deleteCount"].map(|key| edit[key].as_u64().unwrap() as usize);
        numbers.splice(start..start + gone, edit["data"].as_array().unwrap().iter().cloned());
    }
    let again = client.ask("textDocument/semanticTokens/full", file).unwrap();
    assert_eq!(json!(numbers), again["data"]);
    assert!(words(&changed, &again["data"], &legend).contains(&("size".to_owned(), "variable".to_owned())));
    let ask = json!({ "textDocument": { "uri": uri }, "previousResultId": "none" });
    assert_eq!(client.ask("textDocument/semanticTokens/full/delta", ask).unwrap()["data"], again["data"]);
    client.end();
}

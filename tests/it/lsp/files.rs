//! Files that use one another, on disk and in the editor, and how clients name and count in them.

use super::client::{Client, SLIP, SMALL, codes, desk, edited, range, uri, write};
use serde_json::{Value, json};
use std::sync::Arc;
use stepc::base::host::OsHost;
use tempfile::TempDir;

const NONE: [&str; 0] = [];

/// A model in a file of its own, and a recipe that uses it.
fn apart(desk: &TempDir) -> (String, String, String) {
    let (model, recipe) = SMALL.split_at(SMALL.find("recipe small").unwrap());
    let recipe = uri(&write(
        desk,
        "runs/recipe.step",
        &format!("use \"../models/tiny.step\"\n{}", recipe.replace("\"data/", "\"../data/")),
    ));
    (uri(&write(desk, "models/tiny.step", model)), model.to_owned(), recipe)
}

#[test]
fn a_recipe_hears_of_the_files_it_uses() {
    let desk = desk();
    let (model, text, recipe) = apart(&desk);
    let mut client = Client::in_folder(desk.path());
    client.open(&model, 1, &text);
    assert_eq!(codes(&client.diagnostics(&model, 1)), NONE);
    // The recipe is not open, the model is not saved.
    client.replace(&model, 2, &text, "model tiny", "model other");
    let found = client.diagnostics_when(&recipe, |params| params["diagnostics"] != json!([]));
    assert_eq!(codes(&found), ["step::recipe::unknown_item"], "{found:?}");
    client.change(&model, 3, json!([{ "text": text }]));
    assert_eq!(codes(&client.diagnostics_when(&recipe, |_| true)), NONE);
    // A mistake of the model is shown in the model, once, though both files are read twice.
    client.replace(&model, 4, &text, "heads = 4,", "haeds = 4,");
    assert_eq!(codes(&client.diagnostics(&model, 4)), SLIP);
    // Closed without saving, the file is as it was.
    client.tell("textDocument/didClose", json!({ "textDocument": { "uri": model } }));
    assert_eq!(codes(&client.diagnostics_when(&model, |_| true)), NONE);
    client.end();
}

#[test]
fn changes_on_disk_are_heard_of() {
    let desk = desk();
    let (model, text, recipe) = apart(&desk);
    let content = std::fs::read_to_string(desk.path().join("runs/recipe.step")).unwrap();
    let mut client = Client::in_folder(desk.path());
    client.open(&recipe, 1, &content);
    assert_eq!(codes(&client.diagnostics(&recipe, 1)), NONE);
    let changed = |kind: u32| json!({ "changes": [{ "uri": model, "type": kind }] });
    write(&desk, "models/tiny.step", &text.replace("heads = 4,", "haeds = 4,"));
    client.tell("workspace/didChangeWatchedFiles", changed(2));
    assert_eq!(codes(&client.diagnostics_when(&model, |_| true)), SLIP);
    std::fs::remove_file(desk.path().join("models/tiny.step")).unwrap();
    client.tell("workspace/didChangeWatchedFiles", changed(3));
    let found =
        client.diagnostics_when(&recipe, |params| !params["diagnostics"].as_array().unwrap().is_empty());
    assert!(codes(&found).contains(&"step::recipe::use_not_found"), "{found:?}");
    write(&desk, "models/tiny.step", &text);
    client.tell("workspace/didChangeWatchedFiles", changed(1));
    assert_eq!(codes(&client.diagnostics_when(&recipe, |params| params["diagnostics"] == json!([]))), NONE);
    client.end();
}

#[test]
fn several_folders_and_files_outside_of_all() {
    let (first, second, outside) = (desk(), desk(), desk());
    let mut client = Client::new(&[first.path()], json!({}), Arc::new(OsHost));
    let folder = json!({ "uri": uri(second.path()), "name": "second" });
    client.tell(
        "workspace/didChangeWorkspaceFolders",
        json!({ "event": { "added": [folder], "removed": [] } }),
    );
    write(&first, "first.step", "recipe first_one {}\n");
    for desk in [&second, &outside] {
        let uri = uri(&desk.path().join("small.step"));
        client.open(&uri, 1, SMALL);
        assert_eq!(codes(&client.diagnostics(&uri, 1)), NONE);
    }
    let folders = |client: &mut Client| {
        let found = client.ask("workspace/symbol", json!({ "query": "small" })).unwrap();
        found.as_array().unwrap().len()
    };
    // Folders are read behind the editor's back.
    let mut left = 600;
    while folders(&mut client) < 3 && left > 0 {
        std::thread::sleep(std::time::Duration::from_millis(50));
        left -= 1;
    }
    assert_eq!(folders(&mut client), 3);
    client.end();
}

#[test]
fn a_file_without_a_place_is_checked() {
    let desk = desk();
    let mut client = Client::in_folder(desk.path());
    let uri = "untitled:Untitled-1";
    client.open(uri, 1, SMALL);
    assert_eq!(codes(&client.diagnostics(uri, 1)), NONE);
    client.replace(uri, 2, SMALL, "heads = 4,", "haeds = 4,");
    assert_eq!(codes(&client.diagnostics(uri, 2)), SLIP);
    client.end();
}

#[test]
fn names_of_files_are_decoded_and_kept() {
    let desk = desk();
    let path = write(&desk, "a b#步%.step", SMALL);
    let spelt = format!("file://{}/a%20b%23%e6%ad%a5%25.step", desk.path().display());
    let mut client = Client::in_folder(desk.path());
    client.open(&spelt, 1, &SMALL.replace("heads = 4,", "haeds = 4,"));
    assert_eq!(codes(&client.diagnostics(&spelt, 1)), SLIP);
    // Another spelling of the same file.
    let other = format!("file://localhost{}/./a%20b%23%E6%AD%A5%25.step", desk.path().display());
    let ask = json!({ "textDocument": { "uri": other } });
    assert!(client.ask("textDocument/documentSymbol", ask).is_ok());
    assert!(path.exists());
    client.end();
}

#[test]
fn columns_are_counted_as_agreed() {
    let desk = desk();
    let uri = uri(&desk.path().join("small.step"));
    let text = SMALL.replace("  vocab  = 512", "  /* 🦀步 */ vcoab = 512").replace('\n', "\r\n");
    let line = text.lines().position(|line| line.contains("vcoab")).unwrap();
    let offers = [json!(["utf-8", "utf-16"]), json!(["utf-16"]), json!(["utf-32"]), Value::Null];
    for (offered, agreed, column) in offers
        .into_iter()
        .zip(["utf-8", "utf-16", "utf-16", "utf-16"])
        .zip([16, 12, 12, 12])
        .map(|((a, b), c)| (a, b, c))
    {
        let capabilities = json!({ "general": { "positionEncodings": offered } });
        let mut client = Client::new(&[desk.path()], capabilities, Arc::new(OsHost));
        assert_eq!(client.greeting["capabilities"]["positionEncoding"], agreed);
        client.open(&uri, 1, &text);
        let found = client.diagnostics(&uri, 1);
        assert_eq!(codes(&found), SLIP, "{found:?}");
        let start = json!({ "line": line, "character": column });
        let end = json!({ "line": line, "character": column + 5 });
        let place = json!({ "start": start, "end": end });
        assert!(found.iter().any(|one| one["range"] == place), "{agreed}: {found:?}");
        // An edit in the same columns puts it right.
        client.change(&uri, 2, json!([{ "range": place, "text": "vocab" }]));
        assert_eq!(codes(&client.diagnostics(&uri, 2)), NONE);
        client.end();
    }
}

#[test]
fn several_recipes_in_one_file_are_all_checked() {
    let desk = desk();
    let uri = uri(&desk.path().join("small.step"));
    let second = SMALL[SMALL.find("recipe small").unwrap()..].replace("recipe small", "recipe second");
    let text = format!("{SMALL}\n{}", second.replace("steps        = 10", "steps        = none"));
    let mut client = Client::in_folder(desk.path());
    client.open(&uri, 1, &text);
    let found = client.diagnostics(&uri, 1);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0]["range"]["start"]["line"].as_u64().unwrap() as usize > SMALL.lines().count());
    client.end();
}

#[test]
fn a_library_item_is_fetched_by_a_quick_fix() {
    let desk = desk();
    let uri = uri(&desk.path().join("small.step"));
    let text = SMALL.replace("cluster cpu { devices = 4 }", "cluster atlas_a3 { nodes = 1 }");
    let mut client = Client::in_folder(desk.path());
    client.open(&uri, 1, &text);
    let found = client.diagnostics(&uri, 1);
    let place = range(&text, "atlas_a3");
    let ask = json!({ "textDocument": { "uri": uri }, "range": place, "context": { "diagnostics": found } });
    let actions = client.ask("textDocument/codeAction", ask).unwrap();
    assert_eq!(actions[0]["title"], "Insert `use \"devices/atlas.step\"`");
    let mended = edited(&text, &actions[0]["edit"]["changes"][&uri]);
    assert_eq!(mended, format!("use \"devices/atlas.step\"\n{text}"));
    client.end();
}

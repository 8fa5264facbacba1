//! Definitions, references, highlights, renaming.

use crate::lsp_desk::{Desk, bytes, edited};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const MODEL: &str = "\
model base {
  vocab = 64, hidden = 8, layers = 2
  norm rms { }
  attention full { heads = 2, head_dim = 4, rope { theta = 1e4 } }
  attention sliding: full { window = 4 }
  mlp dense { inner = 16 }
  layer i {
    attention = if i == 0 { full } else { sliding }
    ffn = dense
    if i == 1 { dense { clamp = 7.0 } }
  }
}
";
const RECIPE: &str = "\
use \"model.step\"
let batch = 2
recipe r {
  model base { attention full { heads = 4 } }
  cluster cpu { }
  data { source text { path = \"a.txt\" }, tokenizer = \"t.json\", sequence = 8 }
  train { steps = 3, global_batch = batch * cluster.devices, optimizer adamw { lr = 1e-3 } }
  require model.full.heads % 2 == 0
  profile small for cpu { model { attention full { heads = 2 } }, train { steps = 1 } }
}
";

/// The two files with the cursor at the n-th `find` of one of them.
fn at(file: &str, find: &str, n: usize) -> Desk {
    let put = |own: &str, text: &str| {
        if own != file {
            return text.to_owned();
        }
        let (index, _) = text.match_indices(find).nth(n).unwrap_or_else(|| panic!("no {find} in {own}"));
        format!("{}$0{}", &text[..index], &text[index..])
    };
    let (model, recipe) = (put("model", MODEL), put("recipe", RECIPE));
    Desk::new(&[("/w/model.step", &model), ("/w/recipe.step", &recipe)])
}

fn text_of(uri: &str) -> &'static str {
    match uri {
        "file:///w/model.step" => MODEL,
        "file:///w/recipe.step" => RECIPE,
        other => panic!("{other}"),
    }
}

/// A place as `file: line from there on`.
fn shown(location: &Value) -> String {
    let uri = location["uri"].as_str().unwrap();
    if !uri.starts_with("file:///w/") {
        return uri.to_owned();
    }
    let text = text_of(uri);
    let [start, _] = bytes(text, &location["range"]);
    let line = text[start..].lines().next().unwrap_or_default();
    format!(
        "{}: {}",
        uri.trim_start_matches("file:///w/").trim_end_matches(".step"),
        line.chars().take(24).collect::<String>().trim_end()
    )
}

fn all_shown(locations: &Value) -> Vec<String> {
    locations.as_array().map(|all| all.iter().map(shown).collect()).unwrap_or_default()
}

#[track_caller]
fn leads(file: &str, find: &str, n: usize, to: &[&str]) {
    let found = at(file, find, n).ask("definition");
    assert_eq!(all_shown(&found), to, "{file} {find}");
}

#[test]
fn definitions_through_files_bases_and_profiles() {
    leads("recipe", "model.step", 0, &["model: model base {"]);
    leads("recipe", "base {", 0, &["model: base {"]);
    leads("recipe", "full { heads = 4", 0, &["model: full { heads = 2, head_d"]);
    leads("recipe", "heads = 4", 0, &["model: heads = 2, head_dim = 4,"]);
    leads("recipe", "heads = 2", 0, &["recipe: heads = 4 } }"]);
    leads("recipe", "steps = 1", 0, &["recipe: steps = 3, global_batch"]);
    leads("recipe", "steps = 3", 0, &["recipe: steps = 3, global_batch"]);
    leads("recipe", "batch *", 0, &["recipe: batch = 2"]);
    leads("recipe", "cluster.devices", 0, &["recipe: cluster cpu { }"]);
    leads("recipe", "model.full", 0, &["recipe: model base { attention f"]);
    leads("recipe", "full.heads", 0, &["recipe: full { heads = 4 } }"]);
    leads("recipe", "heads %", 0, &["recipe: heads = 4 } }"]);
    leads("recipe", "small", 0, &["recipe: small for cpu { model {"]);
    leads("model", "full { window", 0, &["model: full { heads = 2, head_d"]);
    leads("model", "full }", 0, &["model: full { heads = 2, head_d"]);
    leads("model", "sliding }", 0, &["model: sliding: full { window ="]);
    leads("model", "dense { clamp", 0, &["model: dense { inner = 16 }"]);
    leads("model", "i == 0", 0, &["model: i {"]);
}

#[test]
fn definitions_in_the_library() {
    let of = |find: &str, put: &str| {
        let desk = Desk::repository("recipes/step35_flash.step", find, put);
        desk.ask("definition")
    };
    let model = of("model step35_flash {", "model step35$0_flash {");
    assert!(model[0]["uri"].as_str().unwrap().ends_with("recipes/models/step35.step"), "{model}");
    let used = of("use \"models/step35", "use \"mod$0els/step35");
    assert!(used[0]["uri"].as_str().unwrap().ends_with("recipes/models/step35.step"), "{used}");
    // A default leads to what it refers to.
    let experts = of("require model.experts", "require model.ex$0perts");
    assert_eq!(experts[0]["range"]["start"]["line"], 29, "{experts}");
    let alone =
        Desk::file("use \"models/step35.step\"\nrecipe r { model step35$0_flash { } }").ask("definition");
    assert_eq!(alone[0]["uri"], "step-library:/models/step35.step");
}

#[test]
fn references_in_every_file() {
    let found = at("model", "full {", 0)
        .ask_with("textDocument/references", json!({ "context": { "includeDeclaration": false } }));
    assert_eq!(
        all_shown(&found),
        ["recipe: full.heads % 2 == 0", "model: full { window = 4 }", "model: full } else { sliding }"]
    );
    let found = at("recipe", "full.heads", 0)
        .ask_with("textDocument/references", json!({ "context": { "includeDeclaration": true } }));
    assert_eq!(found.as_array().unwrap().len(), 6, "{:?}", all_shown(&found));
    let found = at("recipe", "batch =", 0)
        .ask_with("textDocument/references", json!({ "context": { "includeDeclaration": true } }));
    assert_eq!(all_shown(&found), ["recipe: batch = 2", "recipe: batch * cluster.devices,"]);
    let found = at("recipe", "steps = 1", 0).ask("documentHighlight");
    assert_eq!(found.as_array().unwrap().len(), 2);
    assert_eq!(found[0]["kind"], 3);
}

/// Both files after a renaming, or why there is none.
fn renamed(desk: &Desk, to: &str) -> Result<BTreeMap<String, String>, String> {
    let answer = desk.ask_with("textDocument/rename", json!({ "newName": to }));
    if let Some(error) = answer["error"].as_str() {
        return Err(error.to_owned());
    }
    let changes = answer["changes"].as_object().unwrap();
    Ok(changes.iter().map(|(uri, edits)| (uri.clone(), edited(text_of(uri), edits))).collect())
}

#[test]
fn names_change_everywhere_at_once() {
    for (file, find) in
        [("model", "full {"), ("recipe", "full.heads"), ("model", "full }"), ("recipe", "full { heads = 2")]
    {
        let files = renamed(&at(file, find, 0), "global").unwrap();
        assert_eq!(files["file:///w/model.step"], MODEL.replace("full", "global"));
        assert_eq!(files["file:///w/recipe.step"], RECIPE.replace("full", "global"));
    }
    let files = renamed(&at("recipe", "base {", 0), "tiny").unwrap();
    assert_eq!(files["file:///w/model.step"], MODEL.replace("base", "tiny"));
    assert_eq!(files["file:///w/recipe.step"], RECIPE.replace("base", "tiny"));
    let files = renamed(&at("model", "i {", 0), "n").unwrap();
    assert!(files["file:///w/model.step"].contains("layer n {\n    attention = if n == 0"));
    let files = renamed(&at("recipe", "small", 0), "laptop").unwrap();
    assert_eq!(files["file:///w/recipe.step"], RECIPE.replace("small", "laptop"));
    let files = renamed(&at("model", "dense { clamp", 0), "wide").unwrap();
    assert_eq!(files["file:///w/model.step"], MODEL.replace("dense", "wide"));
    let ask = at("model", "dense { clamp", 0).ask("prepareRename");
    assert_eq!(ask["placeholder"], "dense");
}

#[test]
fn some_names_stay() {
    let refused = |file, find, to| renamed(&at(file, find, 0), to).unwrap_err();
    assert!(refused("recipe", "steps = 3", "count").contains("belong to the language"));
    assert!(refused("recipe", "cpu {", "mine").contains("library"));
    assert!(refused("recipe", "adamw", "mine").contains("belong to the language"));
    for name in ["2x", "a b", "", "let", "if", "none", "ü", "a-b"] {
        assert!(refused("model", "full {", name).contains("is not a name"), "{name}");
    }
    assert!(refused("model", "full {", "sliding").contains("taken"));
    let hidden = Desk::file("let b$0 = 2\nrecipe r { train { steps = 4, global_batch = steps * b } }");
    let answer = hidden.ask_with("textDocument/rename", json!({ "newName": "steps" }));
    assert!(answer["error"].as_str().unwrap().contains("taken"), "the field would be hidden: {answer}");
    let desk = Desk::file("let a = 1\nlet b$0 = 2\nrecipe r { train { steps = a + b } }");
    assert!(desk.ask_with("textDocument/rename", json!({ "newName": "a" }))["error"].is_string());
    let ask = at("recipe", "cpu {", 0).ask("prepareRename");
    assert!(ask["error"].as_str().unwrap().contains("library"));
    let nowhere = Desk::file("recipe r { $0 }").ask("prepareRename");
    assert_eq!(nowhere, Value::Null);
}

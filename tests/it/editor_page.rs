//! `docs/editor.md` shows what the server says: every picture is drawn anew from its answers and compared.
//! `STEPC_DRAW=1 cargo test --test it -- editor_page` writes what has changed.

use crate::lsp::client::{Client, edited, position, range, uri};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The flagship recipe in an editor, as it is or with an edit.
struct Editor {
    client: Client,
    uri: String,
    text: String,
    version: i32,
}

impl Editor {
    fn new() -> Editor {
        let path = root().join("recipes/step35_flash.step");
        let (uri, text) = (uri(&path), std::fs::read_to_string(&path).unwrap());
        let mut client = Client::in_folder(path.parent().unwrap());
        client.open(&uri, 1, &text);
        client.diagnostics(&uri, 1);
        Editor { client, uri, text, version: 1 }
    }

    /// Writes `new` for `old`, and gives what is wrong then.
    fn write(&mut self, old: &str, new: &str) -> Vec<Value> {
        self.version += 1;
        self.text = self.client.replace(&self.uri, self.version, &self.text, old, new);
        self.client.diagnostics(&self.uri, self.version)
    }

    fn ask(&mut self, method: &str, rest: Value) -> Value {
        let mut params = json!({ "textDocument": { "uri": self.uri } });
        params.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        self.client.ask(&format!("textDocument/{method}"), params).unwrap()
    }

    /// Asks about the place behind `before` where it is followed by `after`.
    fn ask_at(&mut self, method: &str, (before, after): (&str, &str)) -> Value {
        let at = position(&self.text, &format!("{before}{after}"));
        let column = at["character"].as_u64().unwrap() + before.len() as u64;
        self.ask(method, json!({ "position": { "line": at["line"], "character": column } }))
    }

    fn line(&self, number: u64) -> &str {
        self.text.lines().nth(number as usize).unwrap()
    }
}

fn number(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{pointer} of {value}"))
}

fn word<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A file and a line as people name them, without the folders of this machine.
fn place(location: &Value) -> String {
    let folder = uri(&root().join("recipes/"));
    let name = word(location, "/uri").trim_start_matches(&folder).to_owned();
    format!("{name}:{}", number(location, "/range/start/line") + 1)
}

/// A line with its number, and marks under what a diagnostic is about.
fn problem(editor: &Editor, found: &Value) -> String {
    let start = number(found, "/range/start/character") as usize;
    let length = (number(found, "/range/end/character") as usize).saturating_sub(start).max(1);
    let line = number(found, "/range/start/line");
    let mut drawn = format!("{:>3} │ {}\n", line + 1, editor.line(line));
    writeln!(drawn, "    │ {}{}", " ".repeat(start), "~".repeat(length)).unwrap();
    writeln!(drawn, "    {} [{}]", word(found, "/message").replace('\n', "\n    "), word(found, "/code"))
        .unwrap();
    for related in list(&found["relatedInformation"]) {
        writeln!(drawn, "    {} {}", place(&related["location"]), word(related, "/message")).unwrap();
    }
    drawn
}

fn mistake() -> String {
    let mut editor = Editor::new();
    let found = editor.write("ep_fsdp   = 2", "ep_fspd   = 2");
    let mut drawn = problem(&editor, &found[0]);
    let params = json!({ "range": found[0]["range"], "context": { "diagnostics": [found[0]] } });
    for action in list(&editor.ask("codeAction", params)) {
        writeln!(drawn, "    💡 {}", word(action, "/title")).unwrap();
    }
    drawn
}

fn rule() -> String {
    let mut editor = Editor::new();
    let found = editor.write("ep        = 96", "ep        = 90");
    found.iter().map(|found| problem(&editor, found)).collect::<Vec<_>>().join("\n")
}

/// Lenses above the lines they belong to, hints behind what they explain.
fn overview() -> String {
    let mut editor = Editor::new();
    let end = editor.text.lines().count();
    let whole = json!({ "start": { "line": 0, "character": 0 }, "end": { "line": end, "character": 0 } });
    let lenses = editor.ask("codeLens", json!({}));
    let hints = editor.ask("inlayHint", json!({ "range": whole }));
    let mut drawn = String::new();
    for (at, line) in editor.text.lines().enumerate() {
        let on = |value: &Value, pointer: &str| number(value, pointer) == at as u64;
        let offered: Vec<_> = list(&lenses).iter().filter(|lens| on(lens, "/range/start/line")).collect();
        if let Some(first) = offered.first() {
            let titles: Vec<_> = offered.iter().map(|lens| word(lens, "/command/title")).collect();
            let indent = " ".repeat(number(first, "/range/start/character") as usize);
            writeln!(drawn, "    │ {indent}{}", titles.join(" | ")).unwrap();
        }
        let mut line = line.to_owned();
        let mut here: Vec<_> = list(&hints).iter().filter(|hint| on(hint, "/position/line")).collect();
        here.sort_by_key(|hint| std::cmp::Reverse(number(hint, "/position/character")));
        for hint in &here {
            let label = match &hint["label"] {
                Value::String(label) => label.clone(),
                parts => list(parts).iter().map(|part| word(part, "/value")).collect(),
            };
            line.insert_str(number(hint, "/position/character") as usize, &format!(" ‹{label}›"));
        }
        if !here.is_empty() || !offered.is_empty() {
            writeln!(drawn, "{:>3} │ {line}", at + 1).unwrap();
        }
    }
    drawn
}

fn hover(before: &str, after: &str) -> String {
    let mut editor = Editor::new();
    let found = editor.ask_at("hover", (before, after));
    word(&found, "/contents/value").to_owned()
}

fn completion() -> String {
    let mut editor = Editor::new();
    editor.write("recompute = none", "recompute = none\n    off");
    let found = editor.ask_at("completion", ("    off", ""));
    let items = if found.is_array() { &found } else { &found["items"] };
    let mut drawn = "    │ off▏\n".to_owned();
    for item in list(items).iter().filter(|item| word(item, "/label").starts_with("off")) {
        let detail = word(item, "/detail");
        writeln!(drawn, "    {:<22} {detail}", word(item, "/label")).unwrap();
    }
    drawn
}

fn words() -> String {
    let mut editor = Editor::new();
    let found = editor.ask_at("completion", ("recompute = ", "none"));
    let items = if found.is_array() { &found } else { &found["items"] };
    let mut drawn = "    │ recompute = ▏\n".to_owned();
    for item in list(items).iter().take(3) {
        let text = item.pointer("/documentation/value").or(item.get("documentation"));
        let text = text.and_then(Value::as_str).unwrap_or(word(item, "/detail"));
        writeln!(drawn, "    {:<12} {}", word(item, "/label"), text.split(". ").next().unwrap_or_default())
            .unwrap();
    }
    drawn
}

fn signature() -> String {
    let mut editor = Editor::new();
    editor.write("steps        = 2000", "steps        = max(10, )");
    let found = editor.ask_at("signatureHelp", ("max(10, ", ")"));
    let active = number(&found, "/activeSignature") as usize;
    let shown = &found["signatures"][active];
    let parameter = shown.get("activeParameter").or(found.get("activeParameter"));
    format!(
        "max(10, ▏)\n{}\nargument {}\n",
        word(shown, "/label"),
        parameter.and_then(Value::as_u64).unwrap() + 1
    )
}

fn definition() -> String {
    let mut editor = Editor::new();
    let mut drawn = String::new();
    for (before, after) in [("  model step35", "_flash"), ("cluster atlas", "_a3"), ("model.ex", "perts")] {
        let found = editor.ask_at("definition", (before, after));
        let found = if found.is_array() { &found[0] } else { &found };
        let target = match found.get("targetUri") {
            Some(uri) => place(&json!({ "uri": uri, "range": found["targetSelectionRange"] })),
            None => place(found),
        };
        writeln!(drawn, "{:<22} → {target}", format!("{before}{after}").trim()).unwrap();
    }
    drawn
}

fn outline() -> String {
    fn draw(symbol: &Value, depth: usize, drawn: &mut String) {
        let (name, detail) = (word(symbol, "/name"), word(symbol, "/detail"));
        writeln!(drawn, "{}{}", "  ".repeat(depth), format!("{name}  {detail}").trim_end()).unwrap();
        if depth < 1 {
            list(&symbol["children"]).iter().for_each(|child| draw(child, depth + 1, drawn));
        }
    }
    let mut drawn = String::new();
    list(&Editor::new().ask("documentSymbol", json!({})))
        .iter()
        .for_each(|symbol| draw(symbol, 0, &mut drawn));
    drawn
}

fn formatted() -> String {
    let mut editor = Editor::new();
    let untidy = "    steps=2000,clip_at  =1.0";
    editor.write("    steps        = 2000", untidy);
    let options = json!({ "tabSize": 2, "insertSpaces": true });
    let place = range(&editor.text, untidy);
    let edits = editor.ask("rangeFormatting", json!({ "range": place, "options": options }));
    let text = edited(&editor.text, &edits);
    let after = text.lines().find(|line| line.contains("clip_at")).unwrap();
    format!("{untidy}\n\n{after}\n")
}

/// The picture of a name.
fn picture(name: &str) -> String {
    match name {
        "mistake" => mistake(),
        "rule" => rule(),
        "overview" => overview(),
        "hover-ep" => hover("    e", "p        = 96"),
        "hover-batch" => hover("global_ba", "tch = cluster.devices"),
        "completion" => completion(),
        "words" => words(),
        "signature" => signature(),
        "definition" => definition(),
        "outline" => outline(),
        "formatted" => formatted(),
        other => panic!("there is no picture `{other}`"),
    }
}

#[test]
fn its_pictures_are_what_the_server_says() {
    let path: PathBuf = root().join("docs/editor.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let folder = format!("{}/", root().display());
    let (mut drawn, mut count) = (String::new(), 0);
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        writeln!(drawn, "{line}").unwrap();
        if let Some((info, name)) = line.split_once(" shows=") {
            let fence = info.trim_end_matches(char::is_alphabetic);
            lines.by_ref().find(|line| *line == fence).expect("the picture ends");
            // Links lead to files of this machine.
            let picture = picture(name).replace("file://", "").replace(&folder, "");
            writeln!(drawn, "{}\n{fence}", picture.trim_end()).unwrap();
            count += 1;
        }
    }
    assert!(count >= 10, "{count} pictures");
    if std::env::var_os("STEPC_DRAW").is_some() {
        std::fs::write(&path, &drawn).unwrap();
    }
    assert!(page == drawn, "docs/editor.md is stale:\n{drawn}");
}

//! Completion and signature help.

use crate::lsp_desk::{Desk, edited};
use serde_json::{Value, json};

fn items(desk: &Desk) -> Vec<Value> {
    desk.ask("completion")["items"]
        .as_array()
        .cloned()
        .unwrap_or_else(|| panic!("{}", desk.ask("completion")))
}

fn labels(text: &str) -> Vec<String> {
    items(&Desk::file(text)).iter().map(|item| item["label"].as_str().unwrap().to_owned()).collect()
}

#[track_caller]
fn offers(text: &str, some: &[&str], none: &[&str]) {
    let found = labels(text);
    for label in some {
        assert!(found.iter().any(|found| found == label), "{label} is not among {found:?} of {text}");
    }
    for label in none {
        assert!(found.iter().all(|found| found != label), "{label} is among {found:?} of {text}");
    }
}

/// The text after the item called `label` was chosen, placeholders as they are.
#[track_caller]
fn chosen(text: &str, label: &str) -> String {
    let desk = Desk::file(text);
    let all = items(&desk);
    let item =
        all.iter().find(|item| item["label"] == label).unwrap_or_else(|| panic!("no {label} in {all:?}"));
    let mut edits = vec![item["textEdit"].clone()];
    edits.extend(item["additionalTextEdits"].as_array().into_iter().flatten().cloned());
    edited(&desk.text, &Value::Array(edits))
}

#[test]
fn keys_that_are_not_yet_set() {
    offers("recipe r { parallel { ep = 2, $0 } }", &["fsdp", "tp", "precision"], &["ep", "steps"]);
    offers("recipe r { parallel { $0\n ep = 2 } }", &["fsdp"], &["ep"]);
    offers("recipe r { parallel { f$0sdp = 2 } }", &["fsdp"], &[]);
    offers("recipe r { $0 }", &["model", "data", "train", "profile", "require", "let"], &["name", "use"]);
    offers("recipe r { train { $0 } }", &["steps", "optimizer adamw", "schedule cosine"], &["learning_rate"]);
    offers(
        "recipe r { train { optimizer adamw { lr = 1e-3 }\n $0 } }",
        &["schedule cosine"],
        &["optimizer adamw"],
    );
    offers("model m { moe sparse { experts = 8\n $0 } }", &["top_k", "router", "shared"], &["experts"]);
    offers("model m { $0 }", &["vocab", "attention", "layer"], &["experts"]);
    offers("$0", &["use", "let", "recipe", "model", "cluster", "device"], &["parallel"]);
    offers("recipe r { profile laptop for cpu { $0 } }", &["parallel", "train"], &["profile", "name"]);
}

#[test]
fn items_say_what_they_are() {
    let desk = Desk::file("recipe r { train { $0 } }");
    let all = items(&desk);
    let steps = all.iter().find(|item| item["label"] == "steps").unwrap();
    assert_eq!(steps["detail"], "count of steps, at least 1, must be written");
    assert_eq!(steps["documentation"]["value"], "Optimizer steps.");
    assert_eq!(all[0]["label"], "steps", "what must be written comes first");
    assert_eq!(chosen("recipe r { train { st$0 } }", "steps"), "recipe r { train { steps = $0 } }");
    assert_eq!(chosen("recipe r { train { st$0 = 1 } }", "steps"), "recipe r { train { steps = 1 } }");
    assert_eq!(
        chosen("recipe r { train { o$0 } }", "optimizer adamw"),
        "recipe r { train { optimizer adamw {\n\tlr = $1\n} } }"
    );
    assert_eq!(
        chosen("model m { att$0 }", "attention"),
        "model m { attention ${1:name} {\n\theads = $2\n\thead_dim = $3\n} }"
    );
}

#[test]
fn words_names_and_references() {
    offers("recipe r { parallel { recompute = $0 } }", &["none", "selective", "full", "if"], &["bf16"]);
    offers("recipe r { parallel { recompute = sel$0", &["selective"], &[]);
    offers("recipe r { parallel { precision { params = $0 } } }", &["f32", "bf16"], &["full"]);
    offers("recipe r { train { clip = $0 } }", &["none", "min", "steps", "model"], &[]);
    offers("model m { tie_embeddings = $0 }", &["true", "false"], &[]);
    let model = "model m {\n attention full { heads = 4 }\n attention sliding: full { window = 8 }\n mlp dense { inner = 8 }\n";
    offers(&format!("{model} layer i {{ attention = $0 }}\n}}"), &["full", "sliding", "i"], &["dense"]);
    offers(
        &format!("{model} layer i {{ ffn = if i < 3 {{ $0 }} else {{ dense }} }}\n}}"),
        &["dense"],
        &["full"],
    );
    offers(&format!("{model} layer i {{ $0 }}\n}}"), &["full", "dense", "if", "attention", "ffn"], &[]);
    offers(&format!("{model} layer i {{ full {{ $0 }} }}\n}}"), &["heads", "window", "rope"], &["attention"]);
    offers(&format!("{model} attention more: $0 {{ }}\n}}"), &["full", "sliding"], &["dense"]);
    offers(&format!("{model}}}\nrecipe r {{ model m {{ attention $0 }} }}"), &["full", "sliding"], &[]);
    offers("recipe r { train { schedule $0 } }", &["cosine", "constant"], &[]);
    offers("model m { norm $0 }", &["rms"], &[]);
    offers("recipe r { profile a for $0 }", &["cpu", "npu", "gpu"], &[]);
    offers("recipe r { require model.$0 }", &["experts", "layers", "norm"], &["parallel"]);
    offers("recipe r { train { global_batch = cluster.$0 } }", &["devices", "nodes"], &["experts"]);
    offers("recipe r { train { steps = mo$0 } }", &["model"], &[]);
    offers("let half = 4\nrecipe r { let own = 2\n train { steps = $0 } }", &["half", "own"], &[]);
    offers("recipe r { train { steps = max(ha$0, 2) } }\nlet half = 4", &["half"], &[]);
}

#[test]
fn items_of_the_library_bring_their_use() {
    offers("recipe r { model $0 }", &["step35_flash", "llama31_8b"], &[]);
    offers("cluster c { device = $0 }", &["cpu", "ascend_910c"], &["atlas_a3"]);
    assert_eq!(
        chosen("// mine\nuse \"devices/atlas.step\"\n\nrecipe r { model st$0 }", "step35_flash"),
        "// mine\nuse \"devices/atlas.step\"\nuse \"models/step35.step\"\n\nrecipe r { model step35_flash }"
    );
    assert_eq!(
        chosen("recipe r {\r\n  cluster at$0\r\n}", "atlas_a2"),
        "use \"devices/atlas.step\"\r\nrecipe r {\r\n  cluster atlas_a2\r\n}"
    );
    let known = Desk::file("use \"models/step35.step\"\nrecipe r { model $0 }");
    let all = items(&known);
    let item = all.iter().find(|item| item["label"] == "step35_flash").unwrap();
    assert_eq!(item["additionalTextEdits"], Value::Null);
}

#[test]
fn units_that_suit_the_field() {
    offers("recipe r { data { sequence = 4$0 } }", &["4Ki", "4K"], &["4GiB", "4ms", "4%"]);
    offers("device d { memory = 64G$0 }", &["64GiB", "64GB"], &["64Ki"]);
    offers("device d { launch = 5$0 }", &["5us", "5ms"], &["5GB"]);
    offers("device d { efficiency { compute = 55$0 } }", &["55%"], &["55s"]);
    assert_eq!(
        chosen("recipe r { data { sequence = 4K$0 } }", "4Ki"),
        "recipe r { data { sequence = 4Ki } }"
    );
}

#[test]
fn paths_relative_to_the_file() {
    let host = || {
        stepc::base::host::MemoryHost::new()
            .with("/w/common.step", "model m { }")
            .with("/w/data/a.txt", "")
            .with("/w/data/inner/b.txt", "")
    };
    let offered = |text: &str| -> Vec<String> {
        let desk = Desk::over(std::sync::Arc::new(host()), &[("/w/r.step", text)]);
        items(&desk).iter().map(|item| item["label"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(offered("use \"$0\""), ["devices", "models", "common.step", "data"]);
    assert!(offered("use \"models/$0").contains(&"step35.step".to_owned()));
    assert_eq!(offered("recipe r { data { tokenizer = \"data/$0\" } }"), ["a.txt", "inner"]);
    assert_eq!(offered("recipe r { data { tokenizer = \"data/in$0\" } }"), ["a.txt", "inner"]);
    assert!(offered("recipe r { require true else \"$0\" }").is_empty());
    assert_eq!(
        chosen("use \"mod$0els/step35.step\"", "devices"),
        "use \"devices/step35.step\"",
        "the slash behind the word stays"
    );
}

#[test]
fn broken_text_is_no_hindrance() {
    offers("recipe r {\n parallel {\n  ep = $0\n\n data {", &["min", "cluster"], &[]);
    offers("recipe r {\n parallel {\n  ep = 2\n data {\n  $0", &["tokenizer", "sequence"], &["ep"]);
    offers("recipe r {\n parallel { fsdp = max(1,\n ep = 2, $0", &["tp"], &["ep", "fsdp"]);
    offers("model m {\n attention full { heads = 3\n\nrecipe r {\n $0", &["train"], &["heads"]);
    offers("recipe r { train { steps = = = 3\n mi$0", &["micro_batch"], &[]);
    offers("recipe 步 { train {\r\n st$0\r\n}\r\n}", &["steps"], &[]);
    offers("/* 步 */ recipe r { /* ü */ train { seed = $0", &["steps"], &[]);
    offers("recipe r { // train { $0\n }", &[], &["steps", "train"]);
    offers("recipe r { /* $0", &[], &["train"]);
    offers("recipe r { train { seed = 3 $0 } }", &[], &["steps", "min"]);
    offers("} } recipe r { train { $0", &["steps"], &[]);
}

#[test]
fn the_flagship_is_completed() {
    let desk =
        Desk::repository("recipes/step35_flash.step", "    ep_fsdp   = 2\n", "    ep_fsdp   = 2\n    $0\n");
    let all = items(&desk);
    let has = |label: &str| all.iter().any(|item| item["label"] == label);
    assert!(has("tp") && has("ep_imbalance") && !has("fsdp") && !has("recompute"));
    let desk = Desk::repository("recipes/step35_flash.step", "attention sliding {", "attention $0 {");
    let all = items(&desk);
    assert_eq!(all.iter().map(|item| &item["label"]).collect::<Vec<_>>(), ["sliding"]);
}

#[test]
fn arguments_of_functions() {
    let help = |text: &str| Desk::file(text).ask("signatureHelp");
    let found = help("recipe r { train { steps = ceil_div(3, $0");
    assert_eq!(found["signatures"][0]["label"], "ceil_div(a, b)");
    assert_eq!(found["signatures"][0]["parameters"][1]["label"], json!([12, 13]));
    assert_eq!(found["activeParameter"], 1);
    assert_eq!(help("recipe r { train { steps = max(1, 2, 3, 4$0) } }")["activeParameter"], 2);
    assert_eq!(
        help("recipe r { train { steps = max(1, min($0) } }")["signatures"][0]["label"],
        "min(a, b, …)"
    );
    assert_eq!(
        help("recipe r { train { steps = max(1, (2 + $0) } }")["signatures"][0]["label"],
        "max(a, b, …)"
    );
    assert_eq!(help("recipe r { train { steps = max(1)$0 } }"), Value::Null);
    assert_eq!(help("recipe r { train { steps = nothing($0) } }"), Value::Null);
}

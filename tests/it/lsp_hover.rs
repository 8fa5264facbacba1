//! Hovers and inlay hints.

use crate::lsp_desk::Desk;
use lsp_server::Message;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use stepc::base::host::OsHost;
use stepc::lsp::{Encoding, Snapshot};

fn flagship(find: &str, put: &str) -> Desk {
    Desk::repository("recipes/step35_flash.step", find, put)
}

fn hover(desk: &Desk) -> String {
    desk.ask("hover")["contents"]["value"].as_str().unwrap_or_default().to_owned()
}

#[track_caller]
fn says(desk: &Desk, parts: &[&str]) {
    let found = hover(desk);
    for part in parts {
        assert!(found.contains(part), "no {part:?} in:\n{found}");
    }
}

#[test]
fn fields_say_what_they_are_and_where_they_come_from() {
    let steps = flagship("steps        = 2000", "st$0eps        = 2000");
    says(
        &steps,
        &["train.steps = 2000", "count of steps", "at least 1", "must be written", "Optimizer steps."],
    );
    says(&steps, &["**2000**, [step35_flash.step:30]", "profile `laptop`: **200**", "over `steps = 2000`"]);
    let batch = flagship("global_batch = cluster.devices", "global_ba$0tch = cluster.devices");
    says(&batch, &["train.global_batch = 192", "profile `laptop`: **8**"]);
    let devices = flagship("cluster.devices             //", "cluster.dev$0ices             //");
    says(&devices, &["cluster.devices = 192", "nodes * devices_per_node", "the default"]);
    let recompute = flagship("recompute = none", "recom$0pute = none");
    says(&recompute, &["- `full`: Only the input of each layer is kept."]);
    let word = flagship("recompute = none", "recompute = no$0ne");
    says(&word, &["Every activation is kept."]);
}

#[test]
fn values_that_vary_are_told_layer_by_layer() {
    let desk = |find: &str, put: &str| {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("recipes");
        let model =
            std::fs::read_to_string(folder.join("models/step35.step")).unwrap().replacen(find, put, 1);
        let recipe = std::fs::read_to_string(folder.join("step35_flash.step")).unwrap();
        let (model_path, recipe_path) = (folder.join("models/step35.step"), folder.join("step35_flash.step"));
        Desk::over(
            Arc::new(OsHost),
            &[(recipe_path.to_str().unwrap(), &recipe), (model_path.to_str().unwrap(), &model)],
        )
    };
    says(
        &desk("clamp = 7.0", "cl$0amp = 7.0"),
        &["**none** in 40 layers: 3–42", "**7.0** in 2 layers: 43, 44"],
    );
    says(
        &desk("clamp = 16.0", "cl$0amp = 16.0"),
        &["model.moe.sparse.shared.clamp", "**16.0** in 1 layer: 44"],
    );
    says(&desk("attention sliding: full", "attention sli$0ding: full"), &["33 of 45 layers: 1–3, 5–7"]);
    says(
        &desk("layers         = 45", "lay$0ers         = 45"),
        &["model.layers = 45", "profile `laptop`: **8**"],
    );
    says(
        &desk("    ffn       = if", "    f$0fn       = if"),
        &["**dense** in 3 layers: 0–2", "**sparse** in 42 layers"],
    );
    says(&desk("heads = 64", "he$0ads = 64"), &["model.attention.full.heads = 64"]);
}

#[test]
fn parallel_shows_its_memory_and_the_legal_values() {
    let ep = flagship("ep        = 96", "e$0p        = 96");
    says(
        &ep,
        &[
            "Legal on 192 devices: `1`, `2`, `3`, `4`, `6`",
            "`96`",
            "not `64`",
            "does not divide the 288 experts",
        ],
    );
    let shown = hinted(&flagship("recipe step35_flash", "recipe step35_flash$0"));
    let peak = shown.split("«peak ").nth(1).and_then(|rest| rest.split(' ').next()).expect("a hint");
    let peak = format!("| **peak** | **{peak} GiB** | of 61.3 GiB |");
    says(&ep, &[&peak, "expert dispatch", "a step, bound by"]);
    let block = flagship("parallel {\n    fsdp      = 192", "para$0llel {\n    fsdp      = 192");
    says(&block, &[&peak]);
    let laptop = flagship("fsdp = 2, ep = 2", "fs$0dp = 2, ep = 2");
    says(&laptop, &["parallel.fsdp = 2", "of 2.00 GiB"]);
}

#[test]
fn other_names() {
    says(
        &flagship("use \"models/step35", "us$0e \"models/step35"),
        &["models/step35.step", "`model step35_flash`"],
    );
    says(&flagship("model step35_flash {", "model step35$0_flash {"), &["196.96B", "11.46B", "Written in"]);
    says(&flagship("cluster atlas_a3", "cluster atlas$0_a3"), &["**192** devices", "ascend_910c"]);
    says(&flagship("4Ki", "4K$0i"), &["1Ki = 1024"]);
    says(
        &Desk::file("recipe r { train { steps = ma$0x(1, 2) } }"),
        &["max(a, b, …)", "the largest argument"],
    );
    says(
        &Desk::file("let half = 1 + 1\nrecipe r { train { steps = ha$0lf } }"),
        &["let half = 1 + 1", "- **2**"],
    );
    says(&Desk::file("recipe r { train { step$0s = } }"), &[]);
    says(
        &Desk::file("model m { moe s { router { sc$0ore = softmax } } }"),
        &["model.moe.s.router.score", "How logits"],
    );
    assert_eq!(Desk::file("// he$0re").ask("hover"), Value::Null);
}

/// The text with every hint in its place, as `«hint»`.
fn hinted(desk: &Desk) -> String {
    let lines = desk.text.lines().count();
    let range =
        json!({ "start": { "line": 0, "character": 0 }, "end": { "line": lines + 1, "character": 0 } });
    let answer = desk.ask_with("textDocument/inlayHint", json!({ "range": range }));
    let hints = answer.as_array().unwrap_or_else(|| panic!("{answer}"));
    let mut places: Vec<_> = hints
        .iter()
        .map(|hint| {
            let at = json!({ "start": hint["position"], "end": hint["position"] });
            (crate::lsp_desk::bytes(&desk.text, &at)[0], hint["label"].as_str().unwrap())
        })
        .collect();
    places.sort_unstable();
    let mut text = desk.text.clone();
    for (at, label) in places.into_iter().rev() {
        text.insert_str(at, &format!("«{label}»"));
    }
    text
}

#[test]
fn hints_show_what_the_compiler_derives() {
    let text = hinted(&flagship("recipe step35_flash", "recipe step35_flash$0"));
    for hint in [
        "model step35_flash«196.96B parameters, 11.46B active» {",
        " of 61.3 GiB»\n    ep        = 96",
        "ep        = 96«3 of 288 experts a rank»",
        "sequence  = 4Ki«= 4096»",
        "global_batch = cluster.devices«= 192 · 786k tokens a step»",
        "tokenizer = model.weights«= ",
        "nodes = 12«192 devices»",
        "ep = 2«8 of 16 experts a rank»",
        "global_batch = 8«2.05k tokens a step»",
    ] {
        assert!(text.contains(hint), "no {hint} in\n{text}");
    }
    assert!(text.contains("steps        = 2000«1.57B tokens · about "), "{text}");
}

#[test]
fn a_client_that_can_be_told_gets_the_plan_later() {
    let (client, told) = crossbeam_channel::unbounded();
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("recipes/step35_flash.step");
    let text = std::fs::read_to_string(&path).unwrap();
    let snapshot = Snapshot::new(Encoding::Utf16, true, Arc::new(OsHost)).with_refreshes(Some(client));
    let desk = Desk::of(snapshot, &[(path.to_str().unwrap(), &text)]);
    let first = hinted(&desk);
    assert!(first.contains("192 devices") && !first.contains("«peak "), "{first}");
    for _ in 0..2 {
        let Ok(Message::Request(request)) = told.recv_timeout(Duration::from_secs(120)) else {
            panic!("not told")
        };
        assert_eq!(request.method, "workspace/inlayHint/refresh");
    }
    assert_eq!(hinted(&desk).matches("«peak ").count(), 2);
}

#[test]
fn hints_in_a_model_and_without_a_recipe() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("recipes");
    let [model, recipe] = ["models/step35.step", "step35_flash.step"].map(|file| folder.join(file));
    let texts = [&model, &recipe].map(|path| std::fs::read_to_string(path).unwrap());
    let desk = Desk::over(
        Arc::new(OsHost),
        &[(model.to_str().unwrap(), &texts[0]), (recipe.to_str().unwrap(), &texts[1])],
    );
    let text = hinted(&desk);
    assert!(text.contains("layers         = 45«196.96B parameters, 11.46B active»"), "{text}");
    assert!(text.contains("kv_heads = 8«each for 8 heads»"), "{text}");
    assert!(text.contains("top_k = 8«2.8% of the experts»"), "{text}");
    assert!(text.contains("mtp { layers = 3«"), "{text}");
    assert!(text.contains("{ full } else { sliding }«12 full, 33 sliding»"), "{text}");
    let broken = Desk::file("recipe r { train { steps = 2 * 4\n global_batch = } }");
    assert_eq!(hinted(&broken), "recipe r { train { steps = 2 * 4«= 8»\n global_batch = } }");
}

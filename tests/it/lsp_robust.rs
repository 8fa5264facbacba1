//! No request fails on any text: every feature at many places of recipes that are cut, doubled, and sprinkled with odd
//! characters.

use crate::lsp_desk::Desk;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};
use std::path::Path;

const FEATURES: [&str; 7] = [
    "completion",
    "hover",
    "definition",
    "documentHighlight",
    "signatureHelp",
    "prepareRename",
    "references",
];

/// What a mistyped recipe may hold anywhere.
const ODD: [&str; 20] = [
    "{", "}", "(", ")", "[", "]", "\"", "=", ":", ".", ",", "\r\n", "//", "/*", "步", "\u{feff}", "0..",
    "if ", "4K", "model.",
];

/// Every feature at a place of a text; none may fail but by saying why a name cannot be renamed.
fn ask_all(text: &str, offset: usize) {
    let marked = format!("{}$0{}", &text[..offset], &text[offset..]);
    let desk = Desk::file(&marked);
    for feature in FEATURES {
        let more = match feature {
            "references" => json!({ "context": { "includeDeclaration": true } }),
            _ => json!({}),
        };
        let answer = desk.ask_with(&format!("textDocument/{feature}"), more);
        let error = answer["error"].as_str().unwrap_or_default();
        assert!(!error.contains("failed, please report"), "{feature} in {marked:?}: {error}");
        assert!(error.is_empty() || feature == "prepareRename", "{feature} in {marked:?}: {error}");
    }
    let renamed = desk.ask_with("textDocument/rename", json!({ "newName": "other" }));
    assert!(
        !renamed["error"].as_str().unwrap_or_default().contains("please report"),
        "{marked:?}: {renamed}"
    );
    let range = json!({ "start": { "line": 0, "character": 0 }, "end": { "line": 9999, "character": 0 } });
    let hints = desk.ask_with("textDocument/inlayHint", json!({ "range": range }));
    assert!(hints.is_array() || hints == Value::Null, "{marked:?}: {hints}");
}

/// The nearest place between two characters at or before `at`.
fn boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default()
}

fn recipe(file: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}

/// A recipe that is small enough to ask about everywhere.
const SMALL: &str = "\
use \"devices/atlas.step\"\nlet two = 2\r\nmodel m: other { hidden = 8, layers = two, attention a { heads = 4Ki }
 layer i { attention = if i < 1 { a } else { b }\n a { window = none } }\n names { layer = \"m.{i}\" } }
recipe 步 { model m { moe none }, train { steps = max(1, two * model.layers), schedule cosine { } }
 profile p for cpu { parallel { ep = 2 }, data { source s { path = \"x/*.txt\" } } }\n require len([1, 2]) > 1 else \"ü\" }
";

#[test]
fn everywhere_in_a_small_recipe() {
    for offset in (0..=SMALL.len()).filter(|at| SMALL.is_char_boundary(*at)) {
        ask_all(SMALL, offset);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, rng_seed: RngSeed::Fixed(20_261_201), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn anywhere_in_broken_recipes(
        file in prop::sample::select(vec!["examples/llama.step", "examples/qwen3_moe.step", "recipes/models/step35.step"]),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..60), 0..4),
        odd in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(ODD.to_vec())), 0..6),
        at in any::<prop::sample::Index>(),
    ) {
        let mut text = recipe(file);
        for (start, length) in cuts {
            let start = boundary(&text, start.index(text.len() + 1));
            let end = boundary(&text, start + length).max(start);
            text.replace_range(start..end, "");
        }
        for (place, odd) in odd {
            let place = boundary(&text, place.index(text.len() + 1));
            text.insert_str(place, odd);
        }
        let at = boundary(&text, at.index(text.len() + 1));
        ask_all(&text, at);
    }
}

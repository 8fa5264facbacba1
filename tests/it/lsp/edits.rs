//! Any sequence of edits leaves the server with the text that the editor has.

use super::client::{Client, desk, uri};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::json;
use stepc::lsp::{Document, Encoding};

/// One edit: from and to as shares of the text, so that most lie inside of it, and what comes.
#[derive(Debug, Clone)]
struct Edit {
    from: (u32, u32),
    to: (u32, u32),
    text: String,
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let place = || (0..12_u32, 0..20_u32);
    let text = prop_oneof![
        4 => "[a-z=0-9 {}\\[\\]\"/,.:]{0,12}",
        2 => Just("\n".to_owned()),
        1 => Just("\r\n".to_owned()),
        1 => Just("\r".to_owned()),
        1 => Just("步🦀é".to_owned()),
        1 => Just("recipe r {\n  model m {\n".to_owned()),
        1 => Just("model m { vocab = 1 }\n".to_owned()),
    ];
    let edit = (place(), place(), text).prop_map(|(from, to, text)| Edit { from, to, text });
    prop::collection::vec(edit, 1..12)
}

/// A text as lines of UTF-16, each with its end: another way to say what the server does with bytes.
fn model(text: &str, edit: &Edit) -> String {
    let units: Vec<u16> = text.encode_utf16().collect();
    let [newline, carriage] = [b'\n', b'\r'].map(u16::from);
    let mut starts = vec![0];
    let mut ends = Vec::new();
    let mut at = 0;
    while at < units.len() {
        let width = match units[at..] {
            [first, second, ..] if first == carriage && second == newline => 2,
            [first, ..] if first == carriage || first == newline => 1,
            _ => 0,
        };
        if width > 0 {
            ends.push(at);
            starts.push(at + width);
        }
        at += width.max(1);
    }
    ends.push(units.len());
    let offset = |(line, column): (u32, u32)| {
        let Some(start) = starts.get(line as usize) else { return units.len() };
        let at = (start + column as usize).min(ends[line as usize]);
        // Inside of a pair stands for its front.
        let inside = at > 0 && at < units.len() && (0xdc00..0xe000).contains(&units[at]);
        at - usize::from(inside)
    };
    let (from, to) = (offset(edit.from), offset(edit.to));
    let new: Vec<u16> = edit.text.encode_utf16().collect();
    String::from_utf16(&[&units[..from.min(to)], &new, &units[from.max(to)..]].concat()).unwrap()
}

fn change(edit: &Edit) -> serde_json::Value {
    let [start, end] =
        [edit.from, edit.to].map(|(line, character)| json!({ "line": line, "character": character }));
    json!({ "range": { "start": start, "end": end }, "text": edit.text })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, rng_seed: RngSeed::Fixed(20_261_201), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_document_follows_its_edits(edits in edits()) {
        let document = Document { uri: "file:///a.step".into(), version: 0, text: "".into() };
        let changes = serde_json::from_value(edits.iter().map(change).collect()).unwrap();
        let text = document.edited(1, changes, Encoding::Utf16).text;
        prop_assert_eq!(text.as_ref(), edits.iter().fold(String::new(), |text, edit| model(&text, edit)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, rng_seed: RngSeed::Fixed(20_261_201), failure_persistence: None, ..ProptestConfig::default() })]

    /// After any edits the server says of a file what it says when the same text is opened.
    #[test]
    fn a_server_follows_its_edits(rounds in prop::collection::vec(edits(), 1..6)) {
        let desk = desk();
        let (file, fresh) = (uri(&desk.path().join("typed.step")), uri(&desk.path().join("fresh.step")));
        let mut client = Client::in_folder(desk.path());
        let mut text = String::new();
        client.open(&file, 0, &text);
        for (version, edits) in (1..).zip(&rounds) {
            client.change(&file, version, edits.iter().map(change).collect());
            text = edits.iter().fold(text, |text, edit| model(&text, edit));
            client.open(&fresh, version, &text);
            let found = [&file, &fresh].map(|uri| client.diagnostics(uri, version));
            let found = found.map(|found| serde_json::to_string(&found).unwrap().replace(&fresh, &file));
            prop_assert_eq!(&found[0], &found[1]);
            for method in ["textDocument/documentSymbol", "textDocument/semanticTokens/full", "textDocument/foldingRange"] {
                let [mut old, mut new] = [&file, &fresh].map(|uri| {
                    client.ask(method, json!({ "textDocument": { "uri": uri } })).unwrap()
                });
                for answer in [&mut old, &mut new] {
                    answer.as_object_mut().and_then(|answer| answer.remove("resultId"));
                }
                prop_assert_eq!(old, new);
            }
        }
        client.end();
    }
}

//! Conversations against what `transformers` makes of them (`tests/golden/make_data.py`), and what is refused.

use super::*;
use crate::data::chat::Chat;
use crate::data::tokenizer::Tokenizer;
use crate::data::{Answers, ChatConfig};
use std::path::PathBuf;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/data").join(name)
}

pub(super) fn answers(template: &str) -> ChatConfig {
    let template = Some(golden(template));
    ChatConfig { template, date: None, assistant: Answers::All, system: false, user: false, tool: false }
}

/// The conversations of a golden file, in whole documents.
pub(super) fn chats(file: &str, template: &str) -> Config {
    let source = SourceConfig { glob: golden(file), ..source(Path::new(""), "") };
    let base = config(Path::new(""), "", 320);
    Config {
        sources: vec![source],
        tokenizer: golden("tokenizer.json"),
        vocab: 512,
        policy: Policy { overlong: Overlong::Error, unsupervised: Fault::Stop, ..base.policy },
        chat: Some(answers(template)),
        ..base
    }
}

/// Tokens, and which of them are learned, of the conversations of a golden file.
fn expected(name: &str) -> Vec<(Vec<u32>, Vec<bool>)> {
    let text = fs::read_to_string(golden(&format!("{name}.golden.jsonl"))).unwrap();
    let numbers = |value: &serde_json::Value| {
        value.as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as u32).collect::<Vec<_>>()
    };
    let line = |line| {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        (numbers(&value["ids"]), numbers(&value["mask"]).into_iter().map(|bit| bit == 1).collect())
    };
    text.lines().map(line).collect()
}

/// The documents of sequences: tokens, and which of them some label asks for.
pub(super) fn documents(sequences: &[Arc<Sequence>]) -> Vec<(Vec<u32>, Vec<bool>)> {
    let mut found = Vec::new();
    for sequence in sequences {
        for segment in sequence.segments.windows(2) {
            let range = segment[0] as usize..segment[1] as usize;
            let (tokens, labels) = (&sequence.tokens[range.clone()], &sequence.labels[range]);
            // The first token is never learned; padding has no labels at all.
            let learned: Vec<bool> = std::iter::once(false).chain(labels.iter().map(|&l| l >= 0)).collect();
            for (token, label) in tokens.iter().skip(1).zip(labels).filter(|(_, label)| **label >= 0) {
                assert_eq!(*token as i32, *label);
            }
            assert_eq!(labels[labels.len() - 1], -1, "a document ends with nothing to predict");
            if labels.iter().any(|&label| label >= 0) {
                found.push((tokens.to_vec(), learned[..tokens.len()].to_vec()));
            }
        }
    }
    found
}

#[test]
fn packed_conversations_have_the_tokens_and_masks_of_transformers() {
    for name in ["chatml", "headers"] {
        for template in [format!("{name}.jinja"), format!("{name}_unmarked.jinja")] {
            let sequences = read(&chats(&format!("{name}.jsonl"), &template), 0, 8);
            let (found, mut expected) = (documents(&sequences), expected(name));
            for document in &found {
                assert!(expected.contains(document), "{template}: {document:?}");
            }
            expected.retain(|document| !found.contains(document));
            assert!(expected.is_empty(), "{template}: never came {expected:?}");
        }
    }
}

#[test]
fn only_the_last_answer_is_learned_where_that_is_asked_for() {
    let base = chats("headers.jsonl", "headers_unmarked.jinja");
    let last = Config {
        chat: Some(ChatConfig { assistant: Answers::Last, ..answers("headers.jinja") }),
        ..base.clone()
    };
    let last_unmarked = ChatConfig { assistant: Answers::Last, ..answers("headers_unmarked.jinja") };
    let last_unmarked = Config { chat: Some(last_unmarked), ..base.clone() };
    assert_eq!(read(&last, 0, 4), read(&last_unmarked, 0, 4));
    let runs = |mask: &[bool]| mask.windows(2).filter(|pair| !pair[0] && pair[1]).count();
    assert!(documents(&read(&last, 0, 4)).iter().all(|(_, mask)| runs(mask) == 1));
    assert!(documents(&read(&base, 0, 4)).iter().any(|(_, mask)| runs(mask) > 1));
}

#[test]
fn other_roles_are_learned_where_that_is_asked_for() {
    let base = chats("headers.jsonl", "headers.jinja");
    for template in ["headers.jinja", "headers_unmarked.jinja"] {
        let everybody = ChatConfig { system: true, user: true, ..answers(template) };
        let found = documents(&read(&Config { chat: Some(everybody), ..base.clone() }, 0, 4));
        let tokenizer = Tokenizer::open(&base.tokenizer, 512, None).unwrap();
        let learned = |(tokens, mask): &(Vec<u32>, Vec<bool>)| {
            let tokens: Vec<u32> = tokens.iter().zip(mask).filter(|(_, m)| **m).map(|(t, _)| *t).collect();
            tokenizer.show(&tokens)
        };
        let texts: Vec<String> = found.iter().map(learned).collect();
        assert!(
            texts.iter().any(|text| text == "Who was Anne Elliot?The second daughter of Sir Walter.<|end|>"),
            "{texts:?}"
        );
    }
}

#[test]
fn records_of_every_shape_are_the_same_conversation() {
    let shapes = [
        r#"{"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "a\nb"}, {"role": "assistant", "content": "c"}]}"#,
        r#"{"conversations": [{"from": "system", "value": "s"}, {"from": "human", "value": "a\nb"}, {"from": "gpt", "value": "c"}]}"#,
        r#"{"system": "s", "conversations": [{"from": "human", "value": "a\nb"}, {"from": "gpt", "value": "c"}]}"#,
        r#"{"messages": [{"from": "system", "value": "s"}, {"role": "user", "content": "a\nb"}, {"from": "gpt", "value": "c"}]}"#,
        r#"{"instruction": "a", "input": "b", "output": "c", "system": "s"}"#,
        r#"{"system": "s", "prompt": "a\nb", "completion": "c"}"#,
        r#"{"prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "a\nb"}], "completion": [{"role": "assistant", "content": "c"}]}"#,
    ];
    let made = shapes.map(|record| {
        let folder = folder(&[("a.jsonl", record.as_bytes())]);
        let base = chats("headers.jsonl", "headers.jinja");
        let found =
            documents(&read(&Config { sources: vec![source(folder.path(), "a.jsonl")], ..base }, 0, 1));
        found[0].clone()
    });
    assert!(made.iter().all(|document| *document == made[0]), "{made:?}");
}

#[test]
fn records_that_are_no_conversation_are_named() {
    let cases = [
        (r#"{"text": "plain"}"#, "step::data::column", "a.jsonl:1:1: no conversation"),
        (
            r#"{"messages": "plain"}"#,
            "step::data::conversation",
            "`messages` is a string, not a list of messages",
        ),
        (
            r#"{"messages": [{"role": "user"}]}"#,
            "step::data::conversation",
            "message 1 of `messages` has no `content`",
        ),
        (
            r#"{"messages": [{"role": "user", "content": 3}]}"#,
            "step::data::conversation",
            "the content of message 1",
        ),
        (r#"{"messages": [{"who": "user"}]}"#, "step::data::conversation", "neither `role` and `content`"),
        (
            r#"{"messages": [{"role": "user", "content": "a"}]}"#,
            "step::data::unsupervised",
            "a.jsonl:1:1: 0 of ",
        ),
        (r#"{"messages": []}"#, "step::data::empty", "holds no text that can be used"),
    ];
    for (record, code, message) in cases {
        let folder = folder(&[("a.jsonl", record.as_bytes())]);
        let base = chats("headers.jsonl", "headers.jinja");
        let (found, said) = code_of(&Config { sources: vec![source(folder.path(), "a.jsonl")], ..base });
        assert_eq!(found, code, "{said}");
        assert!(said.contains(message), "{said}");
    }
}

#[test]
fn templates_that_cannot_work_are_refused_at_the_start() {
    let cases = [
        ("{% for m in messages %}{{ m.content }", "t.jinja:1", "another one"),
        ("{{ raise_exception('no systems here') }}", "no systems here", "another one"),
        ("{{ messages|length }}", "does not let the answer be told", "generation"),
        (
            "{% generation %}{% for m in messages %}{{ m.content }}{% endfor %}{% endgeneration %}",
            "does not let",
            "generation",
        ),
        (
            "{{ strftime_now('%Y') }}{% for m in messages %}{{ m.content }}{% endfor %}",
            "strftime_now",
            "date =",
        ),
    ];
    for (template, message, help) in cases {
        let folder = folder(&[("t.jinja", template.as_bytes())]);
        let chat = ChatConfig { template: Some(folder.path().join("t.jinja")), ..answers("") };
        let Err(problem) = Chat::open(&chat, folder.path(), Vec::new()) else {
            panic!("{template} is taken")
        };
        assert_eq!(problem.code, "step::data::template");
        assert!(problem.message.contains(message), "{}", problem.message);
        assert!(problem.help.as_ref().unwrap().contains(help), "{:?}", problem.help);
    }
    let folder = folder(&[(
        "t.jinja",
        b"{{ strftime_now('%d %b %Y') }}{% for m in messages %}{{ m.content }}{% endfor %}",
    )]);
    let template = Some(folder.path().join("t.jinja"));
    let chat = ChatConfig { template, date: Some("2026-01-31".into()), ..answers("") };
    assert!(Chat::open(&chat, folder.path(), Vec::new()).is_ok());
    let Err(none) = Chat::open(&ChatConfig { template: None, ..answers("") }, folder.path(), Vec::new())
    else {
        panic!("there is no template")
    };
    assert!(none.message.contains("has no chat template"), "{}", none.message);
}

//! What becomes of documents that do not fit, cannot be read or teach nothing.

use super::chat::chats;
use super::*;
use crate::data::Counts;

fn with(config: Config, policy: Policy) -> Config {
    Config { policy, ..config }
}

#[test]
fn overlong_documents_are_dropped_truncated_split_or_refused() {
    let (long, short) = (["w7"; 20].join(" "), "w1 w2");
    let text = format!("{long}\n\n\n{short}");
    let folder = folder(&[("a.txt", text.as_bytes())]);
    let config = config(folder.path(), "a.txt", 8);
    let policy = |overlong| with(config.clone(), Policy { overlong, ..config.policy });
    let counts = |config: &Config| {
        let loader = Loader::open(config, 1).unwrap();
        let tokens = loader.sequence(0, 0).unwrap().tokens.clone();
        loader.sequence(0, 9).unwrap();
        (tokens, loader.statistics())
    };
    let (tokens, dropped) = counts(&policy(Overlong::Drop));
    assert_eq!(tokens, [1, 2, EOS, 1, 2, EOS, EOS, EOS], "two documents and padding");
    assert!(dropped.counts.overlong > 0);
    let note = &dropped.notes["step::data::overlong"];
    assert!(
        note.message.contains("a.txt:1:1: a document of 21 tokens, a sequence has 8"),
        "{}",
        note.message
    );

    let whole = read(&policy(Overlong::Truncate), 0, 9);
    assert!(whole.iter().any(|sequence| sequence.tokens == [7; 8]), "eight tokens of the long one");
    let (_, split) = counts(&policy(Overlong::Split));
    assert!(split.counts.overlong > 0);
    let (code, message) = code_of(&policy(Overlong::Error));
    assert_eq!(code, "step::data::overlong");
    assert!(message.contains("a document of 21 tokens"), "{message}");
}

#[test]
fn whole_documents_are_never_cut_and_positions_begin_anew() {
    // Two documents of five and four tokens in one sequence: positions 0..5 and 0..4.
    let folder = folder(&[("a.txt", b"w1 w2 w3 w4\n\n\nw5 w6 w7")]);
    let base = config(folder.path(), "a.txt", 9);
    let sequence = &read(&with(base.clone(), Policy { overlong: Overlong::Error, ..base.policy }), 0, 1)[0];
    let (mut positions, labels) = (sequence.positions.clone(), &sequence.labels);
    assert_eq!(sequence.segments.len(), 3, "two documents");
    assert_eq!(labels.iter().filter(|&&label| label == -1).count(), 2, "two ends");
    positions.sort_unstable();
    assert_eq!(positions, [0, 0, 1, 1, 2, 2, 3, 3, 4]);
}

#[test]
fn whole_documents_fill_sequences_well() {
    let words =
        |i: usize| (0..1 + (i * 7919) % 60).map(|w| format!("w{}", 1 + w)).collect::<Vec<_>>().join(" ");
    let text: String = (0..500).map(|i| format!("{{\"text\": \"{}\"}}\n", words(i))).collect();
    let folder = folder(&[("a.jsonl", text.as_bytes())]);
    let base = config(folder.path(), "a.jsonl", 128);
    let sequences = read(&with(base.clone(), Policy { overlong: Overlong::Drop, ..base.policy }), 0, 100);
    let used: usize = sequences.iter().map(|s| s.labels.iter().filter(|&&l| l >= 0).count()).sum();
    let documents: usize = sequences.iter().map(|s| s.segments.len() - 1).sum();
    let share = (used + documents) as f64 / (100.0 * 128.0);
    assert!(share > 0.98, "{share}");
}

#[test]
fn what_cannot_be_read_is_skipped_and_counted_or_stops_the_run() {
    let mut text = jsonl(20).into_bytes();
    text.extend_from_slice(b"{\"text\": \"w1 \xff\"}\n{\"text\": \"w1\"}{\"text\": \"w2\"}\n{\"text\": [\"w1\"]}\n{\"text\": \"\"}\n");
    text.extend_from_slice(b"{\"text\": \"w1 \\udbc0 w2\"}\n{\"text\": \"\\ud83d\\ude00\"}\n{\"text\": \"w1");
    let folder = folder(&[("a.jsonl", &text)]);
    let base = config(folder.path(), "a.jsonl", 16);
    let loader =
        Loader::open(&with(base.clone(), Policy { invalid: Fault::Skip, ..base.policy }), 1).unwrap();
    // Until the second pass has begun, and no further than its first documents.
    let mut index = 0;
    while loader.statistics().epochs < 1.0 {
        loader.sequence(0, index).unwrap();
        index += 1;
    }
    let statistics = loader.statistics();
    let passes = statistics.epochs.floor() as u64;
    let Counts { invalid, empty, replaced, .. } = statistics.counts;
    assert!((4 * passes..=4 * passes + 4).contains(&invalid), "{statistics:?}");
    assert!(
        (passes..=passes + 1).contains(&empty) && (passes..=passes + 1).contains(&replaced),
        "{statistics:?}"
    );
    let told: String = statistics.notes.values().map(|note| format!("{}\n", note.message)).collect();
    assert!(told.contains("a.jsonl:21:14: byte 0xff is not valid UTF-8"), "{told}");
    assert!(told.contains("a.jsonl:25:1: half of a surrogate pair"), "{told}");
    let stops =
        Loader::open(&base, 1).and_then(|loader| (0..100).try_for_each(|i| loader.sequence(0, i).map(drop)));
    assert!(
        ["step::data::utf8", "step::data::json", "step::data::column"].contains(&stops.unwrap_err().code)
    );
}

#[test]
fn empty_documents_stop_a_run_that_wants_none() {
    let folder = folder(&[("a.jsonl", b"{\"text\": \"w1\"}\n{\"text\": \"\"}\n")]);
    let base = config(folder.path(), "a.jsonl", 8);
    let (code, message) = code_of(&with(base.clone(), Policy { empty: Fault::Stop, ..base.policy }));
    assert_eq!(code, "step::data::empty");
    assert!(message.contains("a.jsonl:2:1: the document is empty"), "{message}");
}

#[test]
fn a_question_that_fills_the_sequence_leaves_nothing_to_learn() {
    let base = chats("headers.jsonl", "headers.jinja");
    let short = Config { sequence: 40, ..base };
    let skip = Policy { overlong: Overlong::Truncate, unsupervised: Fault::Skip, ..short.policy };
    let stop = with(short.clone(), Policy { unsupervised: Fault::Stop, ..skip });
    let problem = Loader::open(&stop, 1).and_then(|loader| loader.sequence(0, 20)).unwrap_err();
    assert_eq!(problem.code, "step::data::unsupervised");
    assert!(problem.message.contains(": 0 of 40 tokens are to be learned"), "{}", problem.message);
    let loader = Loader::open(&with(short, skip), 1).unwrap();
    loader.sequence(0, 20).unwrap();
    assert!(loader.statistics().counts.unsupervised > 0);
}

#[test]
fn a_pass_without_a_document_that_can_be_used_ends_the_run_with_the_reason() {
    let text = "{\"text\": 1}\n".repeat(100);
    let folder = folder(&[("a.jsonl", text.as_bytes())]);
    let base = config(folder.path(), "a.jsonl", 8);
    let skip = with(base.clone(), Policy { invalid: Fault::Skip, overlong: Overlong::Drop, ..base.policy });
    let Err(problem) = Loader::open(&skip, 1) else { panic!("there is nothing to read") };
    assert_eq!(problem.code, "step::data::empty");
    assert!(
        problem.message.contains("holds no text that can be used in 100 documents"),
        "{}",
        problem.message
    );
    assert!(problem.help.unwrap().contains("field `text` is not a string but a number"));
}

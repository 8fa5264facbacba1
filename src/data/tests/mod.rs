//! The data path from files to sequences, with a tokenizer of a hundred words.

mod changed;
mod chat;
mod damage;
mod formats;
mod policies;
mod resume;

use super::{Config, Fault, Format, Loader, Overlong, Policy, Sequence, SourceConfig};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Word `w7` is token 7; 0 is unknown, 100 the end of text.
const EOS: u32 = 100;

fn write_tokenizer(folder: &Path) {
    write_tokenizer_with(folder, "[UNK]");
}

fn write_tokenizer_with(folder: &Path, unknown: &str) {
    let vocab: BTreeMap<String, u32> =
        (1..100).map(|i| (format!("w{i}"), i)).chain([(unknown.into(), 0)]).collect();
    let json = serde_json::json!({
        "version": "1.0",
        "added_tokens": [{
            "id": EOS, "content": "<|endoftext|>", "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true
        }],
        "pre_tokenizer": { "type": "WhitespaceSplit" },
        "model": { "type": "WordLevel", "vocab": vocab, "unk_token": unknown }
    });
    fs::write(folder.join("tokenizer.json"), json.to_string()).unwrap();
}

fn source(folder: &Path, pattern: &str) -> SourceConfig {
    SourceConfig {
        name: "test".into(),
        glob: folder.join(pattern),
        format: Format::Auto,
        column: None,
        weight: 1.0,
        separator: None,
    }
}

fn config(folder: &Path, pattern: &str, sequence: usize) -> Config {
    Config {
        sources: vec![source(folder, pattern)],
        tokenizer: folder.to_owned(),
        sequence,
        documents: true,
        seed: 42,
        vocab: 101,
        eos: None,
        policy: Policy {
            overlong: Overlong::Split,
            invalid: Fault::Stop,
            empty: Fault::Skip,
            unsupervised: Fault::Skip,
        },
        chat: None,
        workers: 2,
        ahead: 32,
    }
}

/// A folder with a tokenizer and the given files.
fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_tokenizer(folder.path());
    for (name, content) in files {
        fs::write(folder.path().join(name), content).unwrap();
    }
    folder
}

/// `count` documents of one to seven words, one for each line of a jsonl file.
fn jsonl(count: usize) -> String {
    let words =
        |i: usize| (0..=i % 7).map(|w| format!("w{}", 1 + (i * 5 + w) % 99)).collect::<Vec<_>>().join(" ");
    (0..count).map(|i| format!("{{\"id\": {i}, \"text\": \"{}\"}}\n", words(i))).collect()
}

fn read(config: &Config, first: u64, count: u64) -> Vec<Arc<Sequence>> {
    let loader = Loader::open(config, 1).unwrap();
    (first..first + count).map(|index| loader.sequence(0, index).unwrap()).collect()
}

fn code_of(config: &Config) -> (&'static str, String) {
    match Loader::open(config, 1) {
        Ok(_) => panic!("opened"),
        Err(error) => (error.code, error.message),
    }
}

#[test]
fn one_document_by_hand() {
    let folder = folder(&[("a.txt", b"w1 w2 w3")]);
    let sequences = read(&config(folder.path(), "*.txt", 3), 0, 2);
    // The stream is 1 2 3 eos 1 2 3 eos …: it goes on over the end of the file.
    assert_eq!(
        *sequences[0],
        Sequence {
            tokens: vec![1, 2, 3],
            labels: vec![2, 3, 100],
            segments: vec![0, 3],
            positions: vec![0, 1, 2]
        }
    );
    assert_eq!(
        *sequences[1],
        Sequence {
            tokens: vec![100, 1, 2],
            labels: vec![-1, 2, 3],
            segments: vec![0, 1, 3],
            positions: vec![0, 0, 1]
        }
    );
    let together = Config { documents: false, ..config(folder.path(), "*.txt", 3) };
    let sequence = &read(&together, 1, 1)[0];
    assert_eq!((&sequence.segments[..], &sequence.positions[..]), (&[0, 3][..], &[0, 1, 2][..]));
    assert_eq!(sequence.labels, [-1, 2, 3]);
}

#[test]
fn sequences_keep_their_invariants_and_every_document_comes_once_an_epoch() {
    let text = jsonl(200);
    let folder = folder(&[("a.jsonl", text.as_bytes())]);
    let config = config(folder.path(), "*.jsonl", 16);
    let sequences = read(&config, 0, 70);
    for sequence in &sequences {
        assert_eq!([sequence.tokens.len(), sequence.labels.len(), sequence.positions.len()], [16; 3]);
        assert_eq!((sequence.segments[0], sequence.segments[sequence.segments.len() - 1]), (0, 16));
        assert!(sequence.segments.is_sorted_by(|a, b| a < b));
        for (t, &label) in sequence.labels.iter().enumerate() {
            assert_eq!(label == -1, sequence.tokens[t] == EOS, "an eos ends a document and predicts nothing");
            if label != -1 && t + 1 < 16 {
                assert_eq!(label as u32, sequence.tokens[t + 1]);
            }
            let start = sequence.segments.iter().rfind(|&&start| start as usize <= t).unwrap();
            assert_eq!(sequence.positions[t], t as u32 - start);
        }
    }
    let stream: Vec<u32> = sequences.iter().flat_map(|s| s.tokens.iter().copied()).collect();
    let mut documents: Vec<&[u32]> = stream.split(|&token| token == EOS).take(200).collect();
    let in_order: Vec<Vec<u32>> = text
        .lines()
        .map(|line| {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            value["text"].as_str().unwrap().split(' ').map(|word| word[1..].parse().unwrap()).collect()
        })
        .collect();
    assert_ne!(documents, in_order, "documents are shuffled");
    let mut expected: Vec<&[u32]> = in_order.iter().map(Vec::as_slice).collect();
    documents.sort_unstable();
    expected.sort_unstable();
    assert_eq!(documents, expected);
}

#[test]
fn a_run_is_repeatable_and_starts_anywhere() {
    let text = jsonl(100);
    let folder = folder(&[("a.jsonl", text.as_bytes()), ("b.jsonl", text.as_bytes())]);
    let config = config(folder.path(), "?.jsonl", 32);
    let all = read(&config, 0, 50);
    assert_eq!(all, read(&config, 0, 50));
    assert_eq!(all[37..], read(&config, 37, 13)[..]);
    let reseeded = Config { seed: 43, ..config.clone() };
    assert_ne!(all, read(&reseeded, 0, 50));
}

#[test]
fn text_is_divided_at_its_separator_also_across_read_buffers() {
    // The separator of the second document straddles the first mebibyte.
    let mut text = b"w1\n\n\n".to_vec();
    while text.len() < (1 << 20) - 6 {
        text.extend_from_slice(b"w2  ");
    }
    text.truncate((1 << 20) - 1);
    text.extend_from_slice(b"\n\n\nw3 w4\n\n\n");
    let folder = folder(&[("a.txt", &text)]);
    let loader = Loader::open(&config(folder.path(), "*.txt", 64), 1).unwrap();
    let mut ends = 0;
    for index in 0.. {
        let sequence = loader.sequence(0, index).unwrap();
        ends += sequence.tokens.iter().filter(|&&token| token == EOS).count();
        if loader.statistics().epochs > 1.5 {
            break;
        }
    }
    assert!((3..=10).contains(&ends), "{ends}");
    drop(loader);
    let by_comma = SourceConfig { separator: Some(", ".into()), ..source(folder.path(), "b.txt") };
    fs::write(folder.path().join("b.txt"), "w1 w2, w3, w4").unwrap();
    let config = Config { sources: vec![by_comma], ..config(folder.path(), "", 6) };
    let mut tokens = read(&config, 0, 1)[0].tokens.clone();
    tokens.sort_unstable();
    assert_eq!(tokens.iter().filter(|&&token| token == EOS).count(), 2, "{tokens:?}");
}

#[test]
fn a_long_document_is_read_in_pieces_without_a_seam() {
    let text: String =
        (0..60_000).map(|i| format!("w{}{}", 1 + i % 99, if i % 10 == 9 { '\n' } else { ' ' })).collect();
    let folder = folder(&[("a.txt", text.as_bytes())]);
    let sequences = read(&config(folder.path(), "a.txt", 20_000), 0, 3);
    let tokens = sequences.iter().flat_map(|s| &s.tokens);
    assert!(tokens.enumerate().all(|(i, &token)| token == 1 + i as u32 % 99));
}

#[test]
fn sources_are_mixed_by_weight() {
    let (ones, twos) = ("w1 w1 w1\n\n\n".repeat(50), "w2\n\n\n".repeat(50));
    let folder = folder(&[("a.txt", ones.as_bytes()), ("b.txt", twos.as_bytes())]);
    let heavy = SourceConfig { weight: 3.0, ..source(folder.path(), "b.txt") };
    let config =
        Config { sources: vec![source(folder.path(), "a.txt"), heavy], ..config(folder.path(), "", 100) };
    let loader = Loader::open(&config, 1).unwrap();
    let mut counts = [0u32; 101];
    for index in 0..40 {
        loader.sequence(0, index).unwrap().tokens.iter().for_each(|&token| counts[token as usize] += 1);
    }
    // A document of source a has 4 tokens, 3 of them `w1`; one of b has 2, 1 of them `w2`.
    let (a, b) = (f64::from(counts[1]) * 4.0 / 3.0, f64::from(counts[2]) * 2.0);
    assert!((b / a - 3.0).abs() < 0.05, "{a} {b}");
    assert!(loader.statistics().epochs > 10.0);
}

#[test]
fn statistics_tell_the_trivial_loss() {
    let folder = folder(&[("a.txt", b"w1 w1 w2\n\n\nw1 w1 w2")]);
    let loader = Loader::open(&config(folder.path(), "*.txt", 4), 1).unwrap();
    loader.sequence(0, 10).unwrap();
    // Shares 1/2, 1/4 and, for the end of text, 1/4.
    assert!((loader.unigram_entropy() - 1.5 * 2f64.ln()).abs() < 1e-12);
    let statistics = loader.statistics();
    assert_eq!((statistics.files, statistics.bytes), (1, 19));
}

#[test]
fn readers_run_ahead_without_waiting_for_each_other() {
    let text = jsonl(100);
    let folder = folder(&[("a.jsonl", text.as_bytes())]);
    let config = config(folder.path(), "*.jsonl", 16);
    let expected = read(&config, 0, 400);
    let loader = Loader::open(&config, 4).unwrap();
    // Reader 0 reads everything it needs before the others begin.
    let mut got: Vec<(u64, Arc<Sequence>)> =
        (0..100).map(|i| (i * 4, loader.sequence(0, i * 4).unwrap())).collect();
    thread::scope(|scope| {
        let threads: Vec<_> = (1..4)
            .map(|reader| {
                let loader = &loader;
                scope.spawn(move || {
                    let indices = (0..100).map(|i| i * 4 + reader);
                    indices.map(|i| (i, loader.sequence(reader as usize, i).unwrap())).collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| got.extend(thread.join().unwrap()));
    });
    got.sort_unstable_by_key(|(index, _)| *index);
    assert!(got.iter().map(|(_, sequence)| sequence).eq(&expected));
    assert_eq!(loader.sequence(0, 3).unwrap_err().code, "step::data::order");
    assert_eq!(loader.sequence(4, 3).unwrap_err().code, "step::data::order");
}

#[test]
fn opening_a_megabyte_is_quick() {
    let text = jsonl(20_000);
    assert!(text.len() > 800_000);
    let folder = folder(&[("a.jsonl", text.as_bytes()), ("b.txt", text.as_bytes())]);
    for pattern in ["a.jsonl", "b.txt"] {
        let start = Instant::now();
        read(&config(folder.path(), pattern, 256), 0, 1);
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    }
}

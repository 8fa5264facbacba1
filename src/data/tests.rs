//! The data path from files to sequences, with a tokenizer of a hundred words.

use super::{Config, Format, Loader, Sequence, SourceConfig};
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
    let vocab: BTreeMap<String, u32> =
        (1..100).map(|i| (format!("w{i}"), i)).chain([("[UNK]".into(), 0)]).collect();
    let json = serde_json::json!({
        "version": "1.0",
        "added_tokens": [{
            "id": EOS, "content": "<|endoftext|>", "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true
        }],
        "pre_tokenizer": { "type": "WhitespaceSplit" },
        "model": { "type": "WordLevel", "vocab": vocab, "unk_token": "[UNK]" }
    });
    fs::write(folder.join("tokenizer.json"), json.to_string()).unwrap();
}

fn source(folder: &Path, pattern: &str) -> SourceConfig {
    SourceConfig {
        name: "test".into(),
        glob: folder.join(pattern),
        format: Format::Auto,
        column: "text".into(),
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
    let loader = Loader::open(config, first, 1).unwrap();
    (first..first + count).map(|index| loader.sequence(0, index).unwrap()).collect()
}

fn code_of(config: &Config) -> (&'static str, String) {
    match Loader::open(config, 0, 1) {
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
    let loader = Loader::open(&config(folder.path(), "*.txt", 64), 0, 1).unwrap();
    assert_eq!(loader.statistics().documents, 3);
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
    let loader = Loader::open(&config, 0, 1).unwrap();
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
    let loader = Loader::open(&config(folder.path(), "*.txt", 4), 0, 1).unwrap();
    loader.sequence(0, 10).unwrap();
    // Shares 1/2, 1/4 and, for the end of text, 1/4.
    assert!((loader.unigram_entropy() - 1.5 * 2f64.ln()).abs() < 1e-12);
    let statistics = loader.statistics();
    assert_eq!((statistics.files, statistics.documents, statistics.bytes), (1, 2, 19));
}

#[test]
fn readers_run_ahead_without_waiting_for_each_other() {
    let text = jsonl(100);
    let folder = folder(&[("a.jsonl", text.as_bytes())]);
    let config = config(folder.path(), "*.jsonl", 16);
    let expected = read(&config, 0, 400);
    let loader = Loader::open(&config, 0, 4).unwrap();
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
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    }
}

#[test]
fn a_bad_document_reaches_the_reader_with_its_place() {
    let cases: [(&str, Vec<u8>, &str, &str); 5] = [
        (
            "a.jsonl",
            b"{\"text\": \"w1\"}\n{\"text\": w2}\n".to_vec(),
            "step::data::json",
            "a.jsonl:2:10: not JSON",
        ),
        (
            "b.jsonl",
            b"{\"text\": \"w1\"}\n{\"body\": \"w2\"}\n".to_vec(),
            "step::data::column",
            "b.jsonl:2:1: no field `text`",
        ),
        (
            "c.jsonl",
            b"{\"text\": 3}\n".to_vec(),
            "step::data::column",
            "c.jsonl:1:1: field `text` is not a string",
        ),
        ("d.txt", b"w1 w2\nw3 \xff".to_vec(), "step::data::utf8", "d.txt:2:4: byte 0xff"),
        (
            "e.jsonl",
            b"{\"text\": \"\"}\n\n".to_vec(),
            "step::data::too_small",
            "0 tokens, one sequence needs 65",
        ),
    ];
    for (name, content, code, place) in cases {
        let folder = folder(&[(name, &content)]);
        let (found, message) = code_of(&config(folder.path(), name, 64));
        assert_eq!(found, code, "{message}");
        assert!(message.contains(place), "{message}");
    }
    // In the middle of a run: the sequences before it are still good, those after it are not.
    let mut text = jsonl(2000);
    text.push_str("broken\n");
    let folder = folder(&[("a.jsonl", text.as_bytes())]);
    let loader = Loader::open(&config(folder.path(), "a.jsonl", 8), 0, 1).unwrap();
    loader.sequence(0, 0).unwrap();
    let error = loader.sequence(0, 5000).unwrap_err();
    assert!(error.message.contains("a.jsonl:2001:1: not JSON"), "{}", error.message);
}

#[test]
fn what_cannot_work_is_refused_at_the_start() {
    let folder = folder(&[
        ("a.txt", b"w1 w2 w3 w4"),
        ("empty.txt", b""),
        ("p.parquet", b"PAR1"),
        ("x.dat", b"w1"),
        ("lfs.json", b"version https://git-lfs.github.com/spec/v1\n"),
    ]);
    let path = folder.path();
    let expect = |config: Config, code: &str, part: &str| {
        let (found, message) = code_of(&config);
        assert_eq!(found, code, "{message}");
        assert!(message.contains(part), "{message}");
    };
    expect(config(path, "*.jsonl", 2), "step::data::no_files", "no file matches");
    expect(config(path, "", 2), "step::data::no_files", "is a folder");
    expect(config(path, "[", 2), "step::data::no_files", "pattern");
    expect(config(path, "empty.txt", 2), "step::data::empty", "empty.txt is empty");
    expect(config(path, "*.parquet", 2), "step::data::parquet", "reads text and jsonl in this version");
    expect(config(path, "x.dat", 2), "step::data::format", "x.dat");
    expect(config(path, "a.txt", 9), "step::data::too_small", "5 tokens, one sequence needs 10");
    let base = config(path, "a.txt", 2);
    expect(Config { vocab: 100, ..base.clone() }, "step::data::vocab", "101 token ids, the model only 100");
    expect(Config { eos: Some(500), ..base.clone() }, "step::data::vocab", "end-of-text token 500");
    expect(Config { tokenizer: path.join("none"), ..base.clone() }, "step::data::tokenizer", "none");
    expect(
        Config { tokenizer: path.join("lfs.json"), ..base.clone() },
        "step::data::tokenizer",
        "Git LFS pointer",
    );
    expect(Config { tokenizer: path.join("a.txt"), ..base.clone() }, "step::data::tokenizer", "a.txt");
    expect(Config { sources: Vec::new(), ..base.clone() }, "step::data::config", "0 sources");
    for weight in [0.0, -1.0, f64::NAN] {
        let sources = vec![SourceConfig { weight, ..source(path, "a.txt") }];
        expect(Config { sources, ..base.clone() }, "step::data::weight", "weight");
    }
}

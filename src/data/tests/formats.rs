//! Every format gives the same documents.

use super::chat::{chats, documents};
use super::*;
use std::io::Write;
use std::path::PathBuf;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/data").join(name)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// The documents of one pass, sorted.
fn pass(config: &Config) -> Vec<Vec<u32>> {
    let whole = Config { policy: Policy { overlong: Overlong::Error, ..config.policy }, ..config.clone() };
    let mut found = BTreeMap::new();
    let loader = Loader::open(&whole, 1).unwrap();
    for index in 0..60 {
        for document in loader.sequence(0, index).unwrap().tokens.split_inclusive(|&token| token == EOS) {
            *found.entry(document.to_vec()).or_insert(0) += 1;
        }
    }
    found.into_keys().filter(|document| document.len() > 1).collect()
}

#[test]
fn compressed_lines_arrays_and_columns_hold_the_same_documents() {
    let texts: Vec<String> = (0..40)
        .map(|i| (0..=i % 7).map(|w| format!("w{}", 1 + (i * 5 + w) % 99)).collect::<Vec<_>>().join(" "))
        .collect();
    let lines: String =
        texts.iter().map(|text| format!("{{\"text\": \"{text}\", \"n\": [1, {{}}]}}\n")).collect();
    let array = format!("\u{feff}[\n  {}\n]\n", lines.trim_end().replace('\n', ",\n  "));
    let plain = texts.join("\n\n\n");
    let folder = folder(&[
        ("a.jsonl", lines.as_bytes()),
        ("a.jsonl.gz", &gzip(lines.as_bytes())),
        ("a.jsonl.zst", &zstd::encode_all(lines.as_bytes(), 1).unwrap()),
        ("lines.json", lines.as_bytes()),
        ("a.json", array.as_bytes()),
        ("a.json.gz", &gzip(array.as_bytes())),
        ("a.txt", plain.as_bytes()),
        ("a.txt.zst", &zstd::encode_all(plain.as_bytes(), 1).unwrap()),
    ]);
    for (from, to) in [("text.parquet", "a.parquet"), ("text.arrow", "a.arrow"), ("text.parquet", "unnamed")]
    {
        fs::copy(golden(from), folder.path().join(to)).unwrap();
    }
    let expected = pass(&config(folder.path(), "a.jsonl", 64));
    assert!(expected.len() > 30);
    for name in [
        "a.jsonl.gz",
        "a.jsonl.zst",
        "lines.json",
        "a.json",
        "a.json.gz",
        "a.txt",
        "a.txt.zst",
        "a.parquet",
        "a.arrow",
        "unnamed",
    ] {
        assert_eq!(pass(&config(folder.path(), name, 64)), expected, "{name}");
    }
}

#[test]
fn conversations_in_columns_are_those_of_the_lines() {
    let sorted = |config: &Config| {
        let mut found = documents(&read(config, 0, 12));
        found.sort_unstable();
        found.dedup();
        found
    };
    let expected = sorted(&chats("headers.jsonl", "headers.jinja"));
    assert_eq!(expected.len(), 6);
    for file in ["chat.parquet", "chat.feather", "chat_saved"] {
        assert_eq!(sorted(&chats(file, "headers.jinja")), expected, "{file}");
    }
}

#[test]
fn only_the_columns_that_are_needed_have_to_be_there() {
    let folder = folder(&[]);
    for name in ["text.parquet", "other_columns.parquet", "no_rows.parquet"] {
        fs::copy(golden(name), folder.path().join(name)).unwrap();
    }
    let loader = Loader::open(&config(folder.path(), "*.parquet", 64), 1).unwrap();
    loader.sequence(0, 20).unwrap();
    let statistics = loader.statistics();
    assert_eq!(statistics.files, 2);
    assert!(statistics.hollow[0].ends_with("no_rows.parquet"), "{:?}", statistics.hollow);
    assert!(statistics.counts.empty > 0, "a null is an empty document");
    let cases =
        [("no_text.parquet", "no field `text`"), ("numbers.parquet", "column `text` is INT64, not text")];
    for (name, message) in cases {
        fs::copy(golden(name), folder.path().join(name)).unwrap();
        let (code, said) = code_of(&config(folder.path(), "*.parquet", 64));
        fs::remove_file(folder.path().join(name)).unwrap();
        assert_eq!(code, "step::data::column", "{said}");
        assert!(said.contains(name) && said.contains(message), "{said}");
    }
}

#[test]
fn documents_of_all_units_come_once() {
    // Text whose separators, of three to five line breaks, lie across units and reads.
    let words =
        |i: usize| (0..1 + i % 2000).map(|w| format!("w{}", 1 + (i + w) % 99)).collect::<Vec<_>>().join(" ");
    let texts: Vec<String> = (0..900).map(words).collect();
    let mut plain = String::new();
    for (i, text) in texts.iter().enumerate() {
        plain += text;
        plain += &"\n".repeat(3 + i % 3);
    }
    assert!(plain.len() > 4 << 18, "more than four units");
    let lines: String = texts.iter().map(|text| format!("{{\"text\":\"{text}\"}}\r\n")).collect();
    let folder = folder(&[("a.txt", plain.as_bytes()), ("a.jsonl", lines.as_bytes())]);
    for name in ["a.txt", "a.jsonl"] {
        let loader = Loader::open(&config(folder.path(), name, 1000), 1).unwrap();
        let total: usize = (0..900).map(|i| 2 + i % 2000).sum();
        let sequences = (0..total as u64 / 1000).map(|index| loader.sequence(0, index).unwrap());
        let stream: Vec<u32> = sequences.flat_map(|sequence| sequence.tokens.clone()).collect();
        let mut seen: Vec<&[u32]> = stream.split(|&token| token == EOS).collect();
        seen.pop();
        let lengths: std::collections::BTreeSet<usize> = seen.iter().map(|document| document.len()).collect();
        assert_eq!(lengths.len(), seen.len(), "{name}: no document twice");
        assert!(seen.len() >= 898, "{name}: {}", seen.len());
    }
}

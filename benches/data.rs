//! Tokenises and packs jsonl, and goes on at sequence 1,000,000; prints one JSON line that `peers/data_map.py` compares.
//!
//! `cargo bench --bench data -- [--threads N] [--megabytes N] [--keep FILE]`; `--test` runs on little data. The documents
//! are pages of the novels in `examples/data`, each with a number so that no two are the same.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;
use stepc::data::{Config, Fault, Format, Loader, Overlong, Policy, SourceConfig};

/// Tokens of a sequence, where throughput is measured, and where a million sequences are passed.
const LENGTH: usize = 4096;
const SHORT: usize = 16;

fn main() {
    let given: Vec<String> = std::env::args().collect();
    let value = |name: &str| given.iter().position(|a| a == name).and_then(|at| given.get(at + 1));
    let number = |name: &str, or: usize| value(name).and_then(|v| v.parse().ok()).unwrap_or(or);
    let smoke = given.iter().any(|a| a == "--test");
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let threads = number("--threads", cores);
    let size = number("--megabytes", if smoke { 2 } else { 64 }) << 20;
    let folder = std::env::temp_dir().join("stepc-bench-data");
    let file = value("--keep").map_or_else(|| folder.join("pages.jsonl"), PathBuf::from);
    std::fs::create_dir_all(file.parent().unwrap_or(Path::new("."))).unwrap();
    std::fs::write(&file, pages(size)).unwrap();

    let (tokens, seconds) = throughput(&config(&file, LENGTH, threads));
    let (sequence, resumed) = resume(&config(&file, SHORT, threads), if smoke { 10_000 } else { 1_000_000 });
    println!(
        "{{\"threads\": {threads}, \"megabytes\": {}, \"tokens\": {tokens}, \"tokens_per_second\": {:.0}, \
         \"megabytes_per_second\": {:.2}, \"resumed_at\": {sequence}, \"resume_seconds\": {resumed:.4}}}",
        size >> 20,
        tokens as f64 / seconds,
        (size >> 20) as f64 / seconds,
    );
    if value("--keep").is_none() {
        let _ = std::fs::remove_dir_all(&folder);
    }
}

/// Pages of about two kilobytes, as JSON lines.
fn pages(size: usize) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data");
    let novels = ["persuasion.txt", "pride_and_prejudice.txt"];
    let text: String =
        novels.iter().map(|name| std::fs::read_to_string(folder.join(name)).unwrap()).collect();
    let paragraphs: Vec<&str> = text.split("\n\n").collect();
    let mut out = String::with_capacity(size + 4096);
    let mut next = 0;
    for page in 0.. {
        if out.len() >= size {
            break;
        }
        let mut text = format!("Page {page}.");
        while text.len() < 2000 {
            text += "\n\n";
            text += paragraphs[next % paragraphs.len()];
            next += 1;
        }
        let text = serde_json::Value::from(text);
        writeln!(out, "{{\"id\": {page}, \"text\": {text}}}").unwrap();
    }
    out
}

fn config(file: &Path, sequence: usize, threads: usize) -> Config {
    Config {
        sources: vec![SourceConfig {
            name: "pages".into(),
            glob: file.to_owned(),
            format: Format::Auto,
            column: None,
            weight: 1.0,
            separator: None,
        }],
        tokenizer: Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data/tokenizer.json"),
        sequence,
        documents: true,
        seed: 0,
        vocab: 4096,
        eos: None,
        policy: Policy {
            overlong: Overlong::Split,
            invalid: Fault::Stop,
            empty: Fault::Stop,
            unsupervised: Fault::Stop,
        },
        chat: None,
        workers: threads,
        ahead: 64,
    }
}

/// Tokens of one pass, packed, and the seconds it took, opening included.
fn throughput(config: &Config) -> (u64, f64) {
    let started = Instant::now();
    let loader = Loader::open(config, 1).unwrap();
    let mut tokens = 0;
    for index in 0.. {
        tokens += loader.sequence(0, index).unwrap().tokens.len() as u64;
        if loader.statistics().epochs >= 1.0 {
            break;
        }
    }
    (tokens, started.elapsed().as_secs_f64())
}

/// Seconds from nothing to the sequence `index` of a run that stopped there.
fn resume(config: &Config, index: u64) -> (u64, f64) {
    let loader = Loader::open(config, 1).unwrap();
    (0..index).for_each(|index| drop(loader.sequence(0, index).unwrap()));
    let (position, expected) = (loader.position(index).unwrap(), loader.sequence(0, index).unwrap());
    drop(loader);
    let started = Instant::now();
    let loader = Loader::open_at(config, &position, 1).unwrap();
    let sequence = loader.sequence(0, index).unwrap();
    let seconds = started.elapsed().as_secs_f64();
    assert_eq!(sequence, expected);
    (index, seconds)
}

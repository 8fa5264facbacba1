//! Time of the language front end: the flagship, and generated recipes of some thousand lines, checked and laid out.
//!
//! `cargo bench --bench language`; `cargo bench --bench language -- --test` runs everything once.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use stepc::base::SourceMap;
use stepc::base::host::{MemoryHost, OsHost};
use stepc::diag::Sink;
use stepc::recipe::{Request, load};
use stepc::syntax::format::format;
use stepc::syntax::parse;

const FLAGSHIP: &str = include_str!("../recipes/step35_flash.step");
const MODEL: &str = include_str!("../recipes/models/step35.step");

/// The flagship, and copies of its model until there are `lines`.
fn models(lines: usize) -> String {
    let mut text = FLAGSHIP.to_owned();
    for copy in 0.. {
        if text.lines().count() >= lines {
            break;
        }
        text += &MODEL.replace("model step35_flash", &format!("model copy_{copy}"));
    }
    text
}

/// The flagship with its profile again and again until there are `lines`: every one is laid over the recipe and checked.
fn profiles(lines: usize) -> String {
    let (head, profile) = FLAGSHIP.split_at(FLAGSHIP.find("  profile laptop").unwrap_or(FLAGSHIP.len()));
    let profile = profile.trim_end().trim_end_matches('}');
    let mut text = head.to_owned();
    for copy in 0.. {
        if text.lines().count() >= lines {
            break;
        }
        text += &profile.replace("profile laptop", &format!("profile laptop_{copy}"));
    }
    text + "}\n"
}

/// What `stepc check` does; the text has no mistakes.
fn check(text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("recipes/generated.step");
    let host = MemoryHost::over(OsHost).with(&path, text);
    let request = Request { path: PathBuf::from(&path), ..Request::default() };
    let (mut sources, mut sink) = (SourceMap::default(), Sink::default());
    if let Some(loaded) = load(&host, &request, &mut sources, &mut sink) {
        loaded.check_all(&mut sink);
    }
    assert!(!sink.has_errors(), "the generated recipe has mistakes");
}

fn language(c: &mut Criterion) {
    let mut group = c.benchmark_group("check");
    group.sample_size(10);
    group.bench_function("flagship", |b| b.iter(|| check(black_box(FLAGSHIP))));
    for lines in [5_000, 10_000, 20_000] {
        group.throughput(Throughput::Elements(lines as u64));
        for (name, text) in [("models", models(lines)), ("profiles", profiles(lines))] {
            group.bench_with_input(BenchmarkId::new(name, lines), &text, |b, text| b.iter(|| check(text)));
        }
    }
    group.finish();

    let mut group = c.benchmark_group("syntax");
    group.sample_size(10);
    let text = models(20_000);
    let id = SourceMap::default().add("generated.step", text.as_str());
    group.bench_function("parse/20000", |b| b.iter(|| parse(id, black_box(&text), &mut Sink::default())));
    group.bench_function("format/20000", |b| b.iter(|| format(id, black_box(&text), &mut Sink::default())));
    group.finish();
}

criterion_group!(benches, language);
criterion_main!(benches);

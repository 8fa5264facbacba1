//! How long planning takes, and that its memory does not grow with the devices.
//!
//! `cargo bench --bench plan`; beside it `peers/torch_meta.py` builds and shards the same model with PyTorch.

use criterion::Criterion;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use stepc::base::SourceMap;
use stepc::base::host::OsHost;
use stepc::diag::Sink;
use stepc::plan::{Task, compile};
use stepc::recipe::{Recipe, Request, load};
use stepc::report::html_page;

const FLAGSHIP: &str = "recipes/step35_flash.step";
const TRILLION: &str = "benches/trillion.step";
/// Asks this program to plan the trillion once on so many nodes and to print the memory that it took.
const MEMORY: &str = "--memory-on-nodes";

fn recipe(path: &str, set: &[String]) -> Recipe {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let request = Request { path, recipe: None, profile: None, set: set.to_vec() };
    let (mut sources, mut sink) = (SourceMap::default(), Sink::default());
    let loaded = load(&OsHost, &request, &mut sources, &mut sink);
    let resolved = loaded.and_then(|loaded| loaded.resolve(None, &mut sink));
    resolved.unwrap_or_else(|| panic!("{:#?}", sink.finish())).recipe
}

/// The most memory that this process ever held.
fn peak_rss_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kib = line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) / 1024.0
}

fn plan_on(nodes: &str) {
    let recipe = recipe(TRILLION, &[format!("cluster.nodes={nodes}")]);
    let plan = black_box(compile(&recipe, None, Task::Train));
    println!(
        "{:.2}T parameters on {:>5} devices: {:>6} instructions, peak RSS {:.1} MiB",
        plan.counts.total as f64 / 1e12,
        plan.mesh.devices,
        plan.program.instrs.len(),
        peak_rss_mib()
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == MEMORY) {
        return plan_on(arguments.get(at + 1).map_or("1", String::as_str));
    }
    let mut criterion = Criterion::default().sample_size(20).configure_from_args();
    let flagship = recipe(FLAGSHIP, &[]);
    let plan = compile(&flagship, None, Task::Train);
    criterion.bench_function("plan/flagship from text", |b| {
        b.iter(|| compile(&recipe(FLAGSHIP, &[]), None, Task::Train));
    });
    criterion.bench_function("plan/flagship", |b| b.iter(|| compile(&flagship, None, Task::Train)));
    criterion.bench_function("plan/flagship time alone", |b| b.iter(|| plan.schedule()));
    criterion.bench_function("plan/flagship page", |b| b.iter(|| html_page(&plan, None)));
    let trillion = recipe(TRILLION, &[]);
    criterion.bench_function("plan/trillion on 16,384 devices", |b| {
        b.iter(|| compile(&trillion, None, Task::Train));
    });
    criterion.final_summary();
    // A process of its own each, whose high-water mark is that of one plan.
    for nodes in ["4", "1024"] {
        let program = std::env::current_exe().expect("the path of this program");
        let status = Command::new(program).args([MEMORY, nodes]).status().expect("this program runs again");
        assert!(status.success());
    }
}

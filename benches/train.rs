//! Training steps of the laptop-size Step-3.5 on random tokens; prints one JSON line that `peers/run.sh` compares.
//!
//! `cargo bench --bench train -- [--ranks N] [--sequences N] [--steps N] [--threads N]`; `--test` runs two small steps.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use stepc::base::SourceMap;
use stepc::base::host::OsHost;
use stepc::data::Sequence;
use stepc::diag::{Diagnostic, Sink};
use stepc::plan::{Plan, Task, compile};
use stepc::recipe::{Request, load};
use stepc::runtime::{Checkpoints, Feed, Job};

/// Steps before the clock starts.
const WARM_UP: usize = 2;

struct Arguments {
    ranks: u64,
    sequences: u64,
    steps: u64,
    threads: usize,
}

impl Arguments {
    fn parse() -> Arguments {
        let given: Vec<String> = std::env::args().collect();
        let value = |name: &str| given.iter().position(|a| a == name).and_then(|at| given.get(at + 1));
        let number = |name: &str, or: u64| value(name).and_then(|v| v.parse().ok()).unwrap_or(or);
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let smoke = given.iter().any(|a| a == "--test");
        Arguments {
            ranks: number("--ranks", 1),
            sequences: number("--sequences", if smoke { 1 } else { 4 }),
            steps: number("--steps", if smoke { WARM_UP as u64 + 1 } else { 12 }),
            threads: number("--threads", cores as u64) as usize,
        }
    }
}

/// Random tokens, a document a sequence.
struct Random {
    sequences: Vec<Arc<Sequence>>,
}

impl Random {
    fn new(plan: &Plan) -> Random {
        let length = plan.data.sequence as u32;
        let mut state = 42u64;
        let mut token = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % plan.vocab) as u32
        };
        let sequence = |_| {
            let tokens: Vec<u32> = (0..length).map(|_| token()).collect();
            let labels = tokens[1..].iter().map(|t| *t as i32).chain([-1]).collect();
            Arc::new(Sequence { tokens, labels, segments: vec![0, length], positions: (0..length).collect() })
        };
        Random { sequences: (0..plan.train.global_batch).map(sequence).collect() }
    }
}

impl Feed for Random {
    fn sequence(&self, _rank: u64, index: u64) -> Result<Arc<Sequence>, Diagnostic> {
        Ok(Arc::clone(&self.sequences[index as usize % self.sequences.len()]))
    }
}

fn plan(arguments: &Arguments) -> Arc<Plan> {
    let Arguments { ranks, sequences, steps, .. } = *arguments;
    let set = [
        format!("cluster.devices={ranks}"),
        format!("parallel.ep={ranks}"),
        format!("train.global_batch={sequences}"),
        format!("train.micro_batch={}", (sequences / ranks).max(1)),
        format!("train.steps={steps}"),
    ];
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/laptop.step");
    let request = Request { path, recipe: None, profile: None, set: set.to_vec() };
    let (mut sources, mut sink) = (SourceMap::default(), Sink::default());
    let loaded = load(&OsHost, &request, &mut sources, &mut sink);
    let resolved = loaded.and_then(|loaded| loaded.resolve(None, &mut sink));
    let resolved = resolved.unwrap_or_else(|| panic!("{:#?}", sink.finish()));
    Arc::new(compile(&resolved.recipe, None, Task::Train))
}

/// The most memory that this process ever held.
fn peak_rss_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kib = line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) / 1024.0
}

fn main() {
    let arguments = Arguments::parse();
    let plan = plan(&arguments);
    let feed = Random::new(&plan);
    let (stop, seconds) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let job = Job {
        plan: Arc::clone(&plan),
        feed: &feed,
        weights: None,
        checkpoints: Checkpoints::default(),
        threads: arguments.threads,
        stop: &stop,
        inspect: &|_, _| {},
    };
    let mut loss = 0.0;
    let outcome = job.run(|report| {
        seconds.lock().unwrap().push(report.seconds);
        loss = report.loss;
    });
    let outcome = outcome.unwrap_or_else(|problem| panic!("{problem:?}"));
    let mut timed = seconds.into_inner().unwrap().split_off(WARM_UP);
    timed.sort_by(f64::total_cmp);
    let median = timed[timed.len() / 2];
    let tokens = (plan.train.global_batch * plan.data.sequence) as f64;
    let line = serde_json::json!({
        "engine": "stepc",
        "ranks": arguments.ranks,
        "threads": arguments.threads,
        "tokens_per_step": tokens,
        "seconds_per_step": median,
        "tokens_per_second": tokens / median,
        "peak_rss_mib": peak_rss_mib(),
        "planned_mib": plan.memory.peak as f64 * arguments.ranks as f64 / (1 << 20) as f64,
        "used_mib": outcome.used as f64 * arguments.ranks as f64 / (1 << 20) as f64,
        "loss": loss,
    });
    println!("{line}");
}

//! The plan's peak of memory against the peak that the allocator sees, and what a step allocates. A binary of its own:
//! the allocator counts for the whole process.
//!
//! Checkpoints are written beside the training by threads of their own. Their bytes count towards the peak as all others do;
//! the small blocks they ask for, for names and headers, are no part of a step.

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU64, Ordering::SeqCst};
use stepc::base::SourceMap;
use stepc::base::host::OsHost;
use stepc::checkpoint::{Home, Manifest, Saver, list};
use stepc::data::Sequence;
use stepc::diag::{Diagnostic, Sink};
use stepc::plan::{Plan, Task, compile};
use stepc::recipe::{self, Request, load};
use stepc::runtime::{Checkpoints, Feed, Job};

/// The system's allocator, counting bytes that are alive and blocks that are asked for.
struct Counting;

static LIVE: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);
static BLOCKS: AtomicU64 = AtomicU64::new(0);

/// The threads that write checkpoints.
static WRITERS: [AtomicI32; 4] = [const { AtomicI32::new(0) }; 4];

fn grow(size: usize) {
    let live = LIVE.fetch_add(size as i64, SeqCst) + size as i64;
    PEAK.fetch_max(live, SeqCst);
    // SAFETY: the call has no preconditions.
    let thread = unsafe { libc::gettid() };
    BLOCKS.fetch_add(u64::from(WRITERS.iter().all(|writer| writer.load(SeqCst) != thread)), SeqCst);
}

/// Notes which threads of this process write checkpoints: so many, as soon as they have their names.
fn find_writers(expected: usize) {
    let writes = |path: &std::path::PathBuf| {
        std::fs::read_to_string(path.join("comm")).is_ok_and(|name| name.trim() == "checkpoint")
    };
    loop {
        let threads = std::fs::read_dir("/proc/self/task").unwrap().map(|entry| entry.unwrap().path());
        let found: Vec<_> = threads.filter(writes).collect();
        if found.len() == expected {
            let numbers =
                found.iter().map(|path| path.file_name().unwrap().to_str().unwrap().parse().unwrap());
            let numbers = numbers.chain(std::iter::repeat(0));
            WRITERS.iter().zip(numbers).for_each(|(slot, number)| slot.store(number, SeqCst));
            return;
        }
        std::thread::yield_now();
    }
}

// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as i64, SeqCst);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The same sequence again and again.
struct Same(Arc<Sequence>);

impl Feed for Same {
    fn sequence(&self, _rank: u64, _index: u64) -> Result<Arc<Sequence>, Diagnostic> {
        Ok(Arc::clone(&self.0))
    }
}

fn laptop(set: &[&str], checkpoints: bool) -> Arc<Plan> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/laptop.step");
    let set = set.iter().map(|s| s.to_string()).collect();
    let request = Request { path, recipe: None, profile: None, set };
    let (mut sources, mut sink) = (SourceMap::default(), Sink::default());
    let resolved = load(&OsHost, &request, &mut sources, &mut sink).and_then(|l| l.resolve(None, &mut sink));
    let mut recipe = resolved.unwrap_or_else(|| panic!("{:#?}", sink.finish())).recipe;
    let (dir, every, keep) = ("".into(), 1, 9);
    let cadence = recipe::Checkpoint { dir, every, keep, weights_every: None, weights_keep: None };
    recipe.checkpoint = checkpoints.then_some(cadence);
    Arc::new(compile(&recipe, None, Task::Train))
}

/// Peak of live bytes over a run, and blocks asked for during the thriftiest of the steps behind the second: on a busy
/// machine a queue of the thread pool may once grow. Copying the state for a checkpoint is part of a step, and the checkpoint
/// before is being written meanwhile.
fn measure(plan: &Arc<Plan>) -> (i64, u64) {
    let length = plan.data.sequence as u32;
    let tokens: Vec<u32> = (0..length).map(|i| i * 7 % plan.vocab as u32).collect();
    let labels = tokens[1..].iter().map(|t| *t as i32).chain([-1]).collect();
    let feed = Same(Arc::new(Sequence {
        tokens,
        labels,
        segments: vec![0, length],
        positions: (0..length).collect(),
    }));
    let stop = AtomicBool::new(false);
    let before = LIVE.load(SeqCst);
    PEAK.store(before, SeqCst);
    let (blocks, last) = (AtomicU64::new(u64::MAX), AtomicU64::new(0));
    let home = tempfile::tempdir().unwrap();
    let saver = plan.checkpoint.as_ref().map(|cadence| {
        let manifest = Manifest::of(plan, String::new()).unwrap();
        Saver::new(plan, cadence, Home::open(home.path()).unwrap(), manifest).unwrap()
    });
    find_writers(if saver.is_some() { plan.mesh.devices as usize } else { 0 });
    let job = Job {
        plan: Arc::clone(plan),
        feed: &feed,
        weights: None,
        checkpoints: Checkpoints { resume: None, saver: saver.as_ref() },
        threads: 2,
        stop: &stop,
        inspect: &|rank, report| {
            if rank.number() == 0 {
                let now = BLOCKS.load(SeqCst);
                if report.step > 2 {
                    blocks.fetch_min(now - last.load(SeqCst), SeqCst);
                }
                last.store(now, SeqCst);
            }
        },
    };
    job.run(|_| {}).unwrap_or_else(|problem| panic!("{problem:?}"));
    if let Some(saver) = saver {
        saver.finish().unwrap();
        assert_eq!(list(home.path()).len() as u64, plan.train.steps);
    }
    (PEAK.load(SeqCst) - before, blocks.load(SeqCst))
}

#[test]
fn the_peak_is_as_planned_and_a_step_allocates_nothing() {
    for set in [
        &["train.steps=4", "train.global_batch=2", "train.micro_batch=2"][..],
        &["train.steps=4", "train.global_batch=2", "train.micro_batch=2", "parallel.precision.params=bf16"],
        &[
            "train.steps=4",
            "train.global_batch=2",
            "train.micro_batch=1",
            "cluster.devices=2",
            "parallel.ep=2",
        ],
        &[
            "train.steps=5",
            "train.global_batch=4",
            "train.micro_batch=1",
            "train.loss_chunk=100",
            "cluster.devices=2",
            "parallel.recompute=selective",
            "parallel.reshard_after_forward=false",
            "model.sparse.router.groups=8",
            "model.sparse.router.top_groups=4",
            "model.sparse.router.aux_loss=0.01",
            "model.sparse.router.bias_update=0.001",
        ],
        &[
            "train.steps=5",
            "train.global_batch=4",
            "train.micro_batch=1",
            "cluster.devices=2",
            "parallel.ep=2",
            "model.mtp.layers=2",
            "model.mtp.ffn=sparse",
            "model.mtp.usage=trained",
        ],
        &[
            "train.steps=5",
            "train.global_batch=2",
            "train.micro_batch=2",
            "parallel.recompute=full",
            "model.mtp.layers=1",
            "model.mtp.head=shared",
            "model.mtp.input=normed",
            "model.mtp.usage=trained",
        ],
    ] {
        for checkpoints in [false, true] {
            let plan = laptop(set, checkpoints);
            let planned = (plan.memory.peak * plan.mesh.devices) as f64;
            let (peak, blocks) = measure(&plan);
            assert_eq!(blocks, 0, "{set:?}: blocks allocated during a step");
            let off = peak as f64 / planned - 1.0;
            assert!(
                off.abs() < 0.01,
                "{set:?}: {peak} bytes at the peak, {planned} planned: {:.2} % off",
                100.0 * off
            );
        }
    }
}

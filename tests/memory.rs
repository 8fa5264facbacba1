//! The plan's peak of memory against the peak that the allocator sees, and what a step allocates. A binary of its own:
//! the allocator counts for the whole process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst};
use stepc::base::SourceMap;
use stepc::base::host::OsHost;
use stepc::data::Sequence;
use stepc::diag::{Diagnostic, Sink};
use stepc::plan::{Plan, Task, compile};
use stepc::recipe::{Request, load};
use stepc::runtime::{Feed, Job};

/// The system's allocator, counting bytes that are alive and blocks that are asked for.
struct Counting;

static LIVE: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);
static BLOCKS: AtomicU64 = AtomicU64::new(0);

fn grow(size: usize) {
    let live = LIVE.fetch_add(size as i64, SeqCst) + size as i64;
    PEAK.fetch_max(live, SeqCst);
    BLOCKS.fetch_add(1, SeqCst);
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

fn laptop(set: &[&str]) -> Arc<Plan> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/laptop.step");
    let set = set.iter().map(|s| s.to_string()).collect();
    let request = Request { path, recipe: None, profile: None, set };
    let (mut sources, mut sink) = (SourceMap::default(), Sink::default());
    let resolved = load(&OsHost, &request, &mut sources, &mut sink).and_then(|l| l.resolve(None, &mut sink));
    let resolved = resolved.unwrap_or_else(|| panic!("{:#?}", sink.finish()));
    Arc::new(compile(&resolved.recipe, None, Task::Train))
}

/// Peak of live bytes over a run, and blocks asked for during the thriftiest of the steps behind the second: on a busy
/// machine a queue of the thread pool may once grow.
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
    let job = Job {
        plan: Arc::clone(plan),
        feed: &feed,
        weights: None,
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
            "train.steps=3",
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
    ] {
        let plan = laptop(set);
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

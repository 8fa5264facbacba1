//! All ranks of a run on this machine: threads, a device each, one report a step.

use super::ascend::Ascend;
use super::cpu::Cpu;
use super::device::Device;
use super::fill::{Origin, fill};
use super::rank::{Rank, Start};
use crate::checkpoint::{Checkpoint, Saver};
use crate::comm::{Communicator, local};
use crate::data::{self, Loader, Sequence};
use crate::diag::Diagnostic;
use crate::plan::{Plan, verify};
use crate::recipe::DeviceKind;
use crate::weights::Folder;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Instant;

/// Gives every rank the sequences it asks for by number.
pub trait Feed: Sync {
    /// Sequence `index` of the run, the same whichever rank asks. A rank asks for growing numbers.
    ///
    /// # Errors
    /// What is wrong with the data.
    fn sequence(&self, rank: u64, index: u64) -> Result<Arc<Sequence>, Diagnostic>;

    /// Where the data stands before sequence `index`, up to which all ranks have asked; `None` where the number says it all.
    ///
    /// # Errors
    /// A sequence that is out of reach.
    fn position(&self, _index: u64) -> Result<Option<data::Position>, Diagnostic> {
        Ok(None)
    }
}

impl Feed for Loader {
    fn sequence(&self, rank: u64, index: u64) -> Result<Arc<Sequence>, Diagnostic> {
        Loader::sequence(self, rank as usize, index)
    }

    fn position(&self, index: u64) -> Result<Option<data::Position>, Diagnostic> {
        Loader::position(self, index).map(Some)
    }
}

/// What a step has done.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepReport {
    pub step: u64,
    /// Mean over the supervised tokens of all ranks, in nats.
    pub loss: f64,
    /// What evens out the load of experts, all layers together: beside `loss`, not in it.
    pub aux_loss: f64,
    /// The loss of multi-token prediction, the mean of its layers', without its weight: beside `loss`, not in it, and over
    /// the same tokens (DeepSeek-V3, eq. 24).
    pub mtp_loss: f64,
    /// Global norm before clipping.
    pub grad_norm: f64,
    pub learning_rate: f64,
    /// Tokens of the step, all ranks together, and those of them that have a label.
    pub tokens: u64,
    pub supervised: u64,
    pub seconds: f64,
    /// Whether the run ends here.
    pub last: bool,
}

/// What filling a rank's shard took.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Loaded {
    /// Bytes read of the checkpoint.
    pub bytes: u64,
    pub seconds: f64,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Steps that have been applied, those of the run that was gone on with among them.
    pub steps: u64,
    /// Bytes set aside for the rank that needs most, and the most that any rank used.
    pub reserved: u64,
    pub used: u64,
    /// What every rank took from the checkpoint.
    pub loaded: Vec<Loaded>,
}

/// What a run has to do with checkpoints.
#[derive(Clone, Copy, Default)]
pub struct Checkpoints<'a> {
    /// The checkpoint to go on from; it takes the place of weights.
    pub resume: Option<&'a Checkpoint>,
    /// What saves the state behind steps.
    pub saver: Option<&'a Saver>,
}

impl Checkpoints<'_> {
    /// Where the run begins.
    pub fn start(&self) -> Start {
        let manifest = self.resume.map(Checkpoint::manifest);
        manifest.map_or(Start::default(), |m| Start { step: m.step, sequences: m.position.sequences })
    }
}

/// A run of a plan on this machine.
pub struct Job<'a> {
    pub plan: Arc<Plan>,
    pub feed: &'a dyn Feed,
    /// The weights to start from; from scratch without any.
    pub weights: Option<&'a Folder>,
    /// The run to go on with, and what saves this one.
    pub checkpoints: Checkpoints<'a>,
    /// Threads for all ranks together.
    pub threads: usize,
    /// Set from outside to stop behind the current step.
    pub stop: &'a AtomicBool,
    /// Called on every rank behind every step.
    pub inspect: &'a (dyn Fn(&Rank, &StepReport) + Sync),
}

impl Job<'_> {
    /// Trains, calling `report` behind every step on this thread.
    ///
    /// # Errors
    /// The first thing that went wrong on any rank; all ranks have ended by then.
    pub fn run(&self, mut report: impl FnMut(&StepReport)) -> Result<Outcome, Diagnostic> {
        self.on_every_rank(
            |mut rank, loaded, sender| {
                let start = self.checkpoints.start().step;
                for step in start + 1..=self.plan.train.steps {
                    let done = rank.step(step, self.feed, self.stop.load(Ordering::Relaxed))?;
                    if let Some(saver) = self.checkpoints.saver {
                        let position = |index| self.feed.position(index);
                        let mut copy = |view, out: &mut [f32]| rank.copy(view, out);
                        saver.behind(rank.number(), step, done.last, &position, &mut copy)?;
                    }
                    (self.inspect)(&rank, &done);
                    if rank.number() == 0 {
                        // Nobody listens any more only when the run is being torn down.
                        let _ = sender.send(done);
                    }
                    if done.last {
                        return Ok((done.step, rank.memory(), loaded));
                    }
                }
                Ok((start, rank.memory(), loaded))
            },
            // Ends when the last rank has ended, however it did.
            |receiver| receiver.iter().for_each(|done| report(&done)),
        )
        .map(|ends| {
            let staging = self.checkpoints.saver.map_or(0, Saver::staging);
            Outcome {
                steps: ends[0].0,
                reserved: staging + ends.iter().map(|(_, memory, _)| memory.0).max().unwrap_or(0),
                used: staging + ends.iter().map(|(_, memory, _)| memory.1).max().unwrap_or(0),
                loaded: ends.into_iter().map(|(.., loaded)| loaded).collect(),
            }
        })
    }

    /// Runs `work` on every rank and `meanwhile`, with what the ranks send, on this thread. Threads are divided evenly;
    /// each rank's kernels run in a pool of its own.
    fn on_every_rank<T: Send>(
        &self,
        work: impl Fn(Rank, Loaded, &Sender<StepReport>) -> Result<T, Diagnostic> + Sync,
        meanwhile: impl FnOnce(Receiver<StepReport>),
    ) -> Result<Vec<T>, Diagnostic> {
        verify(&self.plan)?;
        let ranks = self.plan.mesh.devices as usize;
        let threads = (self.threads / ranks).max(1);
        let origin = match (self.checkpoints.resume, self.weights) {
            (Some(checkpoint), _) => Origin::Checkpoint(checkpoint),
            (None, Some(folder)) => Origin::Weights(folder),
            (None, None) => Origin::Scratch,
        };
        let one = |comm: Box<dyn Communicator>, sender: Sender<StepReport>| {
            let number = u64::from(comm.rank());
            let mut device = device(&self.plan, comm)?;
            let started = Instant::now();
            let bytes = fill(&self.plan, number, device.as_mut(), origin)?;
            let loaded = Loaded { bytes, seconds: started.elapsed().as_secs_f64() };
            let rank = Rank::new(Arc::clone(&self.plan), number, device, self.checkpoints.start());
            work(rank, loaded, &sender)
        };
        let one = &one;
        let (sender, receiver) = mpsc::channel();
        let results: Vec<Result<T, Diagnostic>> = thread::scope(|scope| {
            let handles: Vec<_> = local(ranks)
                .into_iter()
                .map(|comm| {
                    let sender = sender.clone();
                    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
                    scope.spawn(move || {
                        let pool = pool.map_err(|error| {
                            Diagnostic::error("step::runtime::threads", format!("no threads: {error}"))
                        })?;
                        pool.install(|| one(Box::new(comm), sender))
                    })
                })
                .collect();
            drop(sender);
            meanwhile(receiver);
            handles.into_iter().map(|handle| handle.join().unwrap_or_else(|_| Err(panicked()))).collect()
        });
        first_cause(results)
    }
}

/// The device of a rank: of NPUs, each rank of a machine has the one of its number.
fn device(plan: &Arc<Plan>, comm: Box<dyn Communicator>) -> Result<Box<dyn Device>, Diagnostic> {
    Ok(match plan.cluster.device.kind {
        DeviceKind::Cpu => Box::new(Cpu::new(Arc::clone(plan), comm)?),
        DeviceKind::Npu => {
            let number = comm.rank().cast_signed();
            Box::new(Ascend::new(Arc::clone(plan), comm, number)?)
        }
        DeviceKind::Gpu => {
            let message = format!("no {} on this machine", plan.cluster.device.name);
            return Err(Diagnostic::error("step::run::no_target", message));
        }
    })
}

/// One rank's failure ends the others; what they report then is only its echo.
fn first_cause<T>(results: Vec<Result<T, Diagnostic>>) -> Result<Vec<T>, Diagnostic> {
    let mut values = Vec::with_capacity(results.len());
    let mut failures = Vec::new();
    for result in results {
        match result {
            Ok(value) => values.push(value),
            Err(failure) => failures.push(failure),
        }
    }
    failures.sort_by_key(|failure| failure.code == "step::comm::aborted");
    failures.into_iter().next().map_or(Ok(values), Err)
}

fn panicked() -> Diagnostic {
    Diagnostic::error("step::runtime::internal", "a rank ended in a way that is a mistake of this program")
        .help("please report it together with the recipe")
}

/// A job that trains nothing: all threads of the machine, and a feed only if `work` asks for one.
fn on_every_rank<T: Send>(
    plan: Arc<Plan>,
    feed: &dyn Feed,
    weights: Option<&Folder>,
    work: impl Fn(Rank, Loaded) -> Result<T, Diagnostic> + Sync,
) -> Result<Vec<T>, Diagnostic> {
    let stop = AtomicBool::new(false);
    let threads = thread::available_parallelism().map_or(1, |n| n.get());
    let checkpoints = Checkpoints::default();
    let job = Job { plan, feed, weights, checkpoints, threads, stop: &stop, inspect: &|_, _| {} };
    job.on_every_rank(|rank, loaded, _| work(rank, loaded), drop)
}

/// The logits `[tokens, vocab]` that every rank computes for its first micro batch, from a plan that goes forward only.
///
/// # Errors
/// As [`Job::run`]; a plan without logits gives empty ones.
pub fn forward(
    plan: Arc<Plan>,
    feed: &dyn Feed,
    weights: Option<&Folder>,
) -> Result<Vec<Vec<f32>>, Diagnostic> {
    let logits = plan.program.logits;
    on_every_rank(plan, feed, weights, |mut rank, _| {
        rank.forward(feed)?;
        Ok(logits.map(|view| rank.read(view)).unwrap_or_default())
    })
}

/// Loads every rank's shard and nothing else.
///
/// # Errors
/// As [`Job::run`].
pub fn load(plan: Arc<Plan>, weights: &Folder) -> Result<Vec<Loaded>, Diagnostic> {
    struct Nothing;
    impl Feed for Nothing {
        fn sequence(&self, _: u64, _: u64) -> Result<Arc<Sequence>, Diagnostic> {
            Err(Diagnostic::error("step::runtime::internal", "loading needs no text"))
        }
    }
    on_every_rank(plan, &Nothing, Some(weights), |_, loaded| Ok(loaded))
}

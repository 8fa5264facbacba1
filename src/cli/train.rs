//! Trains: progress, metrics, checkpoints, Ctrl-C.

use super::args::RunArgs;
use super::exit::{self, Failure};
use super::session::Session;
use crate::diag::Diagnostic;
use crate::plan::Plan;
use crate::report::{Metrics, Progress};
use crate::runtime::{Checkpoints, Feed, Job, Kind, Outcome, Snapshot, StepReport};
use crate::weights::Folder;
use std::io::{IsTerminal, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a run leaves behind.
pub struct Trained {
    pub outcome: Outcome,
    pub last: Option<StepReport>,
    /// The trained parameters, where the run reached its last step and no checkpoint holds them.
    pub parameters: Option<Snapshot>,
}

/// Trains until the last step or Ctrl-C; a second Ctrl-C ends the process at once.
pub fn train(
    session: &Session,
    args: &RunArgs,
    plan: &Arc<Plan>,
    feed: &dyn Feed,
    weights: Option<&Folder>,
    checkpoints: Checkpoints,
    mut metrics: Metrics,
) -> Result<Trained, Failure> {
    let stop = interruptible()?;
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let steps = checkpoints.start().step..plan.train.steps;
    let progress = Progress::new(steps, plan.memory.peak, session.style(), stdout().is_terminal());
    let unsaved = checkpoints.saver.is_none();
    let parameters = unsaved.then(|| Snapshot::new(Arc::clone(plan), Kind::Parameters));
    let job = Job {
        plan: Arc::clone(plan),
        feed,
        weights,
        checkpoints,
        threads: args.threads.map_or(cores, usize::from),
        stop: &stop,
        inspect: &|rank, report| {
            if let Some(parameters) = parameters.as_ref().filter(|_| report.last) {
                parameters.add(rank);
            }
        },
    };
    let (mut last, mut written) = (None, Ok(()));
    let outcome = job.run(|report| {
        checkpoints.saver.iter().flat_map(|saver| saver.news()).for_each(|saved| progress.saved(&saved));
        progress.step(report);
        last = Some(*report);
        if written.is_ok() {
            written = metrics.write(report);
            stop.fetch_or(written.is_err(), Ordering::Relaxed);
        }
    });
    progress.end();
    let outcome = outcome?;
    written?;
    Ok(Trained { outcome, last, parameters })
}

/// A flag that Ctrl-C sets.
fn interruptible() -> Result<Arc<AtomicBool>, Diagnostic> {
    let stop = Arc::new(AtomicBool::new(false));
    let signal = Arc::clone(&stop);
    let handler = ctrlc::set_handler(move || {
        if signal.swap(true, Ordering::Relaxed) {
            std::process::exit(i32::from(exit::INTERRUPTED));
        }
    });
    handler.map_err(|error| {
        Diagnostic::error("step::runtime::signal", format!("cannot catch Ctrl-C: {error}"))
    })?;
    Ok(stop)
}

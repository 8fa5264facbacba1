//! Trains: progress, metrics, Ctrl-C, and the weights at the end.

use super::args::RunArgs;
use super::exit::{self, Failure};
use super::session::Session;
use crate::diag::Diagnostic;
use crate::plan::Plan;
use crate::report::{Metrics, Progress};
use crate::runtime::{Feed, Job, Kind, Outcome, Snapshot, StepReport};
use crate::weights::{self, Folder, Output};
use std::collections::HashSet;
use std::io::{IsTerminal, stdout};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a run leaves behind.
pub struct Trained {
    pub outcome: Outcome,
    pub last: Option<StepReport>,
    /// The trained parameters, where the run reached its last step.
    pub parameters: Snapshot,
}

/// Trains until the last step or Ctrl-C; a second Ctrl-C ends the process at once.
pub fn train(
    session: &Session,
    args: &RunArgs,
    plan: &Arc<Plan>,
    feed: &dyn Feed,
    weights: Option<&Folder>,
    mut metrics: Metrics,
) -> Result<Trained, Failure> {
    let stop = interruptible()?;
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let progress = Progress::new(plan.train.steps, plan.memory.peak, session.style(), stdout().is_terminal());
    let parameters = Snapshot::new(Arc::clone(plan), Kind::Parameters);
    let job = Job {
        plan: Arc::clone(plan),
        feed,
        weights,
        threads: args.threads.map_or(cores, usize::from),
        stop: &stop,
        inspect: &|rank, report| {
            if report.last {
                parameters.add(rank);
            }
        },
    };
    let (mut last, mut written) = (None, Ok(()));
    let outcome = job.run(|report| {
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

/// Writes the parameters under their checkpoint names and in their checkpoint types.
pub fn save(plan: &Plan, parameters: Snapshot, path: &Path) -> Result<(), Diagnostic> {
    let values = parameters.tensors();
    let mut listed = HashSet::new();
    let tensors = plan.params.iter().flat_map(|p| p.tensors());
    let tensors = tensors.filter(|t| values.contains_key(&t.name) && listed.insert(t.name.clone()));
    let outputs = tensors.map(|t| Output { name: t.name, dtype: t.dtype, shape: t.shape });
    weights::write(path, &outputs.collect::<Vec<_>>(), |output, writer| {
        values.get(&output.name).map_or(Ok(()), |(_, values)| writer.write(values))
    })
}

//! Writes checkpoints: each rank its file, the last of them the manifest and the name.

use super::desk::{Desk, Request};
use super::home::{self, Home};
use super::manifest::{Facts, Manifest, Position};
use super::shard::{self, Source};
use crate::data;
use crate::diag::Diagnostic;
use crate::plan::{Contents, Plan, View};
use crate::recipe;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// A checkpoint that has become complete.
#[derive(Debug, Clone, PartialEq)]
pub struct Saved {
    pub step: u64,
    pub contents: Contents,
    pub path: PathBuf,
    pub bytes: u64,
    /// From the first byte written until it was complete.
    pub seconds: f64,
}

/// Saves the state of a run as often as its recipe asks for. Dropping it waits until what has been handed over is on disk.
pub struct Saver {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    home: Home,
    plan: Arc<Plan>,
    cadence: recipe::Checkpoint,
    /// What all checkpoints of the run have in common; its step and position are those at which the run began.
    base: Manifest,
    desks: Vec<Desk>,
    coming: Mutex<BTreeMap<(u64, Contents), Coming>>,
    /// Where the data stands behind the steps that are being saved.
    positions: Mutex<BTreeMap<u64, Position>>,
    saved: Mutex<Vec<Saved>>,
    failed: AtomicBool,
    failure: Mutex<Option<Diagnostic>>,
}

/// A checkpoint whose files are being written.
struct Coming {
    started: Instant,
    files: Vec<Option<Facts>>,
}

impl Saver {
    /// Sets aside the memory that is needed to save while training goes on. `base` has the step and the position from which
    /// the run goes on.
    ///
    /// # Errors
    /// A thread that cannot be started.
    pub fn new(
        plan: &Arc<Plan>,
        cadence: &recipe::Checkpoint,
        home: Home,
        base: Manifest,
    ) -> Result<Saver, Diagnostic> {
        let staged = plan.staged();
        let desks = (0..plan.mesh.devices).map(|rank| Desk::new(plan.saved(rank, Contents::State), staged));
        let shared = Arc::new(Shared {
            home,
            plan: Arc::clone(plan),
            cadence: cadence.clone(),
            base,
            desks: desks.collect(),
            coming: Mutex::default(),
            positions: Mutex::default(),
            saved: Mutex::default(),
            failed: AtomicBool::new(false),
            failure: Mutex::default(),
        });
        let mut saver = Saver { shared, threads: Vec::new() };
        for rank in 0..staged.map_or(0, |_| plan.mesh.devices) {
            let shared = Arc::clone(&saver.shared);
            let thread =
                thread::Builder::new().name("checkpoint".into()).spawn(move || shared.keep_writing(rank));
            saver.threads.push(thread.map_err(|error| {
                let message = format!("cannot start the thread that writes checkpoints: {error}");
                Diagnostic::error("step::runtime::threads", message)
            })?);
        }
        Ok(saver)
    }

    /// Bytes that each rank has set aside, at most.
    pub fn staging(&self) -> u64 {
        self.shared.desks.iter().map(Desk::bytes).max().unwrap_or(0)
    }

    /// Called on every rank behind every step: where a checkpoint is due, copies the state with `copy` for a thread to write,
    /// or, where nothing comes behind it or no memory is set aside, writes it now. `data` says where the data stands before a
    /// sequence; the first rank asks.
    ///
    /// # Errors
    /// What has gone wrong while writing, also that of an earlier checkpoint.
    pub fn behind(
        &self,
        rank: u64,
        step: u64,
        last: bool,
        data: &dyn Fn(u64) -> Result<Option<data::Position>, Diagnostic>,
        copy: &mut dyn FnMut(View, &mut [f32]),
    ) -> Result<(), Diagnostic> {
        let shared = &*self.shared;
        shared.check()?;
        let Some(contents) = shared.due(step, last) else { return Ok(()) };
        if rank == 0 {
            let since = (step - shared.base.step) * shared.plan.train.global_batch;
            let sequences = shared.base.position.sequences + since;
            let position = Position { sequences, data: data(sequences)? };
            lock(&shared.positions).insert(step, position);
        }
        let (desk, request) = (&shared.desks[rank as usize], Request { step, contents });
        if !desk.has_room(contents) {
            shared.write(rank, request, copy);
        } else if !desk.hand_over(request, copy) {
            shared.fail(Diagnostic::error("step::runtime::internal", "nobody writes checkpoints any more"));
        }
        shared.check()
    }

    /// The checkpoints that have become complete since the last call.
    pub fn news(&self) -> Vec<Saved> {
        std::mem::take(&mut *lock(&self.shared.saved))
    }

    /// Waits until everything that was handed over is on disk.
    ///
    /// # Errors
    /// What has gone wrong while writing.
    pub fn finish(mut self) -> Result<Vec<Saved>, Diagnostic> {
        self.close();
        self.shared.check()?;
        Ok(self.news())
    }

    fn close(&mut self) {
        let shared = &self.shared;
        shared.desks.iter().for_each(Desk::close);
        for thread in self.threads.drain(..) {
            // A panic there has been left behind as the failure.
            let _ = thread.join();
        }
        // What lacks the file of a rank that has failed will never be complete.
        for (step, contents) in lock(&shared.coming).keys() {
            let _ = fs::remove_dir_all(shared.home.unfinished(&home::name(*step, *contents)));
        }
    }
}

impl Drop for Saver {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    /// What is to be saved behind a step: the last one is always saved whole.
    fn due(&self, step: u64, last: bool) -> Option<Contents> {
        let weights = self.cadence.weights_every.is_some_and(|every| step.is_multiple_of(every));
        if last || step.is_multiple_of(self.cadence.every) {
            Some(Contents::State)
        } else {
            weights.then_some(Contents::Weights)
        }
    }

    /// The thread of a rank.
    fn keep_writing(&self, rank: u64) {
        /// Leaves a failure behind when the thread ends by a panic, so that no rank waits for ever.
        struct Farewell<'a>(&'a Shared, &'a Desk);
        impl Drop for Farewell<'_> {
            fn drop(&mut self) {
                if thread::panicking() {
                    self.0.fail(Diagnostic::error("step::runtime::internal", "a checkpoint was not written"));
                }
                self.1.abandon();
            }
        }
        let desk = &self.desks[rank as usize];
        let _farewell = Farewell(self, desk);
        while let Some((buffer, request)) = desk.take() {
            let mut at = 0;
            self.write(rank, request, &mut |_, out: &mut [f32]| {
                out.copy_from_slice(&buffer[at..at + out.len()]);
                at += out.len();
            });
            desk.give_back(buffer);
        }
    }

    /// Writes a rank's file; with the last one the checkpoint becomes complete.
    fn write(&self, rank: u64, request: Request, source: &mut Source) {
        let name = home::name(request.step, request.contents);
        let folder = self.home.unfinished(&name);
        let written = self.begin(request, &folder).and_then(|()| {
            let slices: Vec<_> = self.desks[rank as usize].parts(request.contents).cloned().collect();
            let facts = shard::write(&folder, rank, &slices, &self.plan.params, source)?;
            match self.hand_in(rank, request, facts) {
                Some(coming) => self.complete(request, &name, coming),
                None => Ok(()),
            }
        });
        if let Err(error) = written {
            self.fail(self.not_written(&self.home.path().join(name), &error));
            // Whatever else fails without the folder is an echo of this.
            let _ = fs::remove_dir_all(&folder);
        }
    }

    /// Makes room for a checkpoint when its first file is about to be written.
    fn begin(&self, request: Request, folder: &Path) -> io::Result<()> {
        let mut coming = lock(&self.coming);
        if coming.contains_key(&(request.step, request.contents)) {
            return Ok(());
        }
        fs::create_dir_all(folder)?;
        let files = vec![None; self.desks.len()];
        coming.insert((request.step, request.contents), Coming { started: Instant::now(), files });
        Ok(())
    }

    /// Notes a rank's file; gives the checkpoint back when it was the last one.
    fn hand_in(&self, rank: u64, request: Request, facts: Facts) -> Option<Coming> {
        let mut coming = lock(&self.coming);
        let key = (request.step, request.contents);
        let files = &mut coming.get_mut(&key)?.files;
        files[rank as usize] = Some(facts);
        if files.iter().all(Option::is_some) { coming.remove(&key) } else { None }
    }

    /// Writes the manifest, gives the folder its name, and lets the oldest go.
    fn complete(&self, request: Request, name: &str, coming: Coming) -> io::Result<()> {
        let Request { step, contents } = request;
        let position = lock(&self.positions).remove(&step);
        let manifest = Manifest {
            contents,
            step,
            position: position.ok_or_else(|| io::Error::other("the position in the data is not known"))?,
            files: coming.files.into_iter().flatten().collect(),
            ..self.base.clone()
        };
        let folder = self.home.unfinished(name);
        manifest.write(&folder)?;
        home::sync(&folder)?;
        let path = self.home.publish(name)?;
        let keep = match contents {
            Contents::State => Some(self.cadence.keep),
            Contents::Weights => self.cadence.weights_keep,
        };
        keep.map_or(Ok(()), |keep| self.home.prune(contents, keep))?;
        let (bytes, seconds) = (manifest.bytes(), coming.started.elapsed().as_secs_f64());
        lock(&self.saved).push(Saved { step, contents, path, bytes, seconds });
        Ok(())
    }

    fn not_written(&self, path: &Path, error: &io::Error) -> Diagnostic {
        let message = format!("cannot write the checkpoint {}: {error}", path.display());
        let problem = Diagnostic::error("step::checkpoint::write", message);
        match home::newest(self.home.path()) {
            Some(kept) => problem.help(format!(
                "{} is complete: make room, then go on from it with `--resume`",
                kept.path.display()
            )),
            None => problem.help("the folder must be writable and have room; no checkpoint is complete yet"),
        }
    }

    /// The first failure ends the run.
    fn fail(&self, problem: Diagnostic) {
        lock(&self.failure).get_or_insert(problem);
        self.failed.store(true, Ordering::Release);
    }

    fn check(&self) -> Result<(), Diagnostic> {
        if !self.failed.load(Ordering::Acquire) {
            return Ok(());
        }
        lock(&self.failure).clone().map_or(Ok(()), Err)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

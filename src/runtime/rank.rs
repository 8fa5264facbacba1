//! One rank: walks the program of a step over its device.

use super::device::{Device, Scalars};
use super::job::{Feed, StepReport};
use super::schedule::learning_rate;
use crate::data::Sequence;
use crate::diag::Diagnostic;
use crate::plan::{Plan, View};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// Where a run begins: steps that have been applied, and sequences that have been trained on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Start {
    pub step: u64,
    pub sequences: u64,
}

/// A rank with its device and the sequences of the step it is in.
pub struct Rank {
    pub(super) plan: Arc<Plan>,
    number: u64,
    pub(super) device: Box<dyn Device>,
    start: Start,
    /// All micro batches of a step, one behind the other.
    batch: Vec<Arc<Sequence>>,
}

impl Rank {
    pub fn new(plan: Arc<Plan>, number: u64, device: Box<dyn Device>, start: Start) -> Rank {
        let sequences = plan.program.accumulation * plan.train.micro_batch;
        Rank { plan, number, device, start, batch: Vec::with_capacity(sequences as usize) }
    }

    /// Which rank of the world this is.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Copies a persistent buffer, or a part of it, into as many of `out`.
    pub fn copy(&self, view: View, out: &mut [f32]) {
        self.device.copy(view, out);
    }

    /// The numbers of a persistent buffer.
    pub fn read(&self, view: View) -> Vec<f32> {
        self.device.read(view)
    }

    /// Bytes the device has set aside, and the most it has used of them.
    pub fn memory(&self) -> (u64, u64) {
        self.device.memory()
    }

    /// Runs step `step` (from 1, or behind the one that a checkpoint was written at) on the sequences that belong to this rank.
    ///
    /// # Errors
    /// What the feed, a collective or the device report, or a loss that is no number.
    pub fn step(&mut self, step: u64, feed: &dyn Feed, stop: bool) -> Result<StepReport, Diagnostic> {
        let plan = Arc::clone(&self.plan);
        let started = Instant::now();
        self.fetch(step, feed)?;
        let mut scalars = self.scalars(step, stop);
        self.walk(plan.program.begin.clone(), &mut scalars)?;
        for micro in 0..plan.program.accumulation {
            scalars.micro = micro;
            self.load(micro);
            self.walk(plan.program.micro.clone(), &mut scalars)?;
        }
        self.update(&plan, &mut scalars)?;
        let mtp = plan.model.mtp.as_ref().map_or(1, |mtp| mtp.layers);
        Ok(StepReport {
            step,
            loss: scalars.loss / scalars.supervised.max(1.0),
            aux_loss: scalars.aux_loss,
            mtp_loss: scalars.mtp_loss / (scalars.supervised.max(1.0) * mtp as f64),
            grad_norm: scalars.norm_squared.sqrt(),
            learning_rate: scalars.learning_rate,
            tokens: plan.train.global_batch * plan.data.sequence,
            supervised: scalars.supervised as u64,
            seconds: started.elapsed().as_secs_f64(),
            last: scalars.stop > 0.0 || step == plan.train.steps,
        })
    }

    /// The numbers that a step on the present batch begins with.
    pub(super) fn scalars(&self, step: u64, stop: bool) -> Scalars {
        let train = &self.plan.train;
        let supervised = self.batch.iter().flat_map(|s| &s.labels).filter(|label| **label >= 0).count();
        Scalars {
            step,
            learning_rate: learning_rate(train, step),
            clip: train.clip,
            supervised: supervised as f64,
            stop: f64::from(u8::from(stop)),
            ..Scalars::default()
        }
    }

    /// Gives the device the sequences of a micro batch.
    pub(super) fn load(&mut self, micro: u64) {
        let size = self.plan.train.micro_batch as usize;
        let first = micro as usize * size;
        self.device.load(&self.batch[first..first + size]);
    }

    /// Runs the program once over one micro batch, without an update.
    ///
    /// # Errors
    /// As [`Rank::step`].
    pub fn forward(&mut self, feed: &dyn Feed) -> Result<(), Diagnostic> {
        let plan = Arc::clone(&self.plan);
        self.fetch(self.start.step + 1, feed)?;
        self.load(0);
        let mut scalars = Scalars { step: 1, ..Scalars::default() };
        self.walk(plan.program.micro.clone(), &mut scalars)
    }

    /// The sequences of a step are numbered through: micro batches of all ranks, one behind the other.
    fn fetch(&mut self, step: u64, feed: &dyn Feed) -> Result<(), Diagnostic> {
        let (train, ranks) = (&self.plan.train, self.plan.mesh.devices);
        self.batch.clear();
        for micro in 0..self.plan.program.accumulation {
            let before = self.start.sequences + (step - 1 - self.start.step) * train.global_batch;
            let first = before + (micro * ranks + self.number) * train.micro_batch;
            for index in first..first + train.micro_batch {
                self.batch.push(feed.sequence(self.number, index)?);
            }
        }
        Ok(())
    }

    /// The update phase stops before the optimizer when loss or gradient are no numbers: parameters stay as they were.
    fn update(&mut self, plan: &Plan, scalars: &mut Scalars) -> Result<(), Diagnostic> {
        for op in &plan.program.instrs[plan.program.update.clone()] {
            self.device.run(op, scalars)?;
            let reduced = matches!(op, crate::plan::Op::ReduceMetrics {});
            if reduced && !(scalars.loss.is_finite() && scalars.norm_squared.is_finite()) {
                return Err(self.not_finite(scalars));
            }
        }
        Ok(())
    }

    /// Every rank names the same culprit.
    fn not_finite(&mut self, scalars: &Scalars) -> Diagnostic {
        let loss = scalars.loss / scalars.supervised.max(1.0);
        let norm = scalars.norm_squared.sqrt();
        let message = format!("step {}: loss {loss}, gradient norm {norm}", scalars.step);
        let (what, help) = match self.blame(scalars.step) {
            Err(problem) => return problem,
            Ok(Some(culprit)) => culprit.describe(),
            Ok(None) => ("every number of it is finite, their sum is not".into(), "lower the learning rate"),
        };
        Diagnostic::error("step::runtime::not_finite", format!("{message}: {what}")).help(help)
    }

    pub(super) fn walk(&mut self, range: Range<usize>, scalars: &mut Scalars) -> Result<(), Diagnostic> {
        let plan = Arc::clone(&self.plan);
        plan.program.instrs[range].iter().try_for_each(|op| self.device.run(op, scalars))
    }
}

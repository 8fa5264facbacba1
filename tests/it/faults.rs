//! A rank that fails ends the run at once, with its own reason, on every rank.

use crate::support::{Fixed, plan, sequence};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use stepc::data::Sequence;
use stepc::diag::Diagnostic;
use stepc::plan::{Plan, Task};
use stepc::runtime::{Checkpoints, Feed, Job, Rank, StepReport};

fn two_ranks() -> Arc<Plan> {
    let set = ["model.weights=scratch", "cluster.devices=2", "parallel.ep=2", "train.micro_batch=1"];
    plan("tests/golden/step35.step", None, &set, Task::Train)
}

fn run(feed: &dyn Feed, inspect: &(dyn Fn(&Rank, &StepReport) + Sync)) -> (u64, Diagnostic) {
    let stop = AtomicBool::new(false);
    let checkpoints = Checkpoints::default();
    let job = Job { plan: two_ranks(), feed, weights: None, checkpoints, threads: 2, stop: &stop, inspect };
    let mut steps = 0;
    let failure = job.run(|report| steps = report.step).unwrap_err();
    (steps, failure)
}

/// Good sequences, and for one rank none from a certain number on.
struct Broken {
    good: Fixed,
    from: u64,
}

impl Feed for Broken {
    fn sequence(&self, rank: u64, index: u64) -> Result<Arc<Sequence>, Diagnostic> {
        if rank == 1 && index >= self.from {
            return Err(Diagnostic::error("step::data::json", "line 7 is no JSON"));
        }
        self.good.sequence(rank, index)
    }
}

#[test]
fn data_that_ends_on_one_rank() {
    for (from, steps) in [(0, 0), (5, 2)] {
        let good = Fixed(vec![sequence((0..48).collect())]);
        let (done, failure) = run(&Broken { good, from }, &|_, _| {});
        assert_eq!((done, failure.code), (steps, "step::data::json"));
    }
}

#[test]
fn a_rank_that_panics() {
    let feed = Fixed(vec![sequence((0..48).collect())]);
    let (done, failure) = run(&feed, &|rank, report| {
        assert!(rank.number() != 1 || report.step < 2, "this rank falls over");
    });
    assert!((1..=2).contains(&done));
    assert_eq!(failure.code, "step::runtime::internal");
}

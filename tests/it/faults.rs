//! A rank that fails ends the run at once, with its own reason, on every rank.

use crate::support::{Fixed, plan, sequence};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use stepc::comm::{Communicator, local};
use stepc::data::Sequence;
use stepc::diag::Diagnostic;
use stepc::plan::{Axis, BufferId, Category, Plan, Task, View};
use stepc::runtime::{Checkpoints, Cpu, Device, Feed, Job, Rank, Start, StepReport};

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

/// Two ranks with numbers of their own, a NaN in the middle of the parameter `poison`, that train until a step fails. For each
/// rank the step, what it says, and whether its parameters are what they were before that step.
fn until_it_fails(plan: &Arc<Plan>, poison: &str) -> Vec<(u64, Diagnostic, bool)> {
    let views = || {
        let buffers = (0..).map(BufferId).zip(&plan.program.buffers);
        let shards = buffers.filter(|(_, b)| b.persistent && b.category == Category::Parameters);
        let views = shards.map(|(buffer, b)| View { buffer, offset: 0, rows: b.rows, cols: b.cols });
        plan.placement.units.iter().zip(views)
    };
    let one = |comm: Box<dyn Communicator>| {
        let number = u64::from(comm.rank());
        let mut device = Cpu::new(Arc::clone(plan), comm).unwrap();
        for (unit, view) in views() {
            let mut values: Vec<f32> = (0..unit.shard).map(|i| (i * 7 % 13) as f32 * 0.02 - 0.12).collect();
            let held = unit.held(plan.mesh.coordinate(unit.axis, number));
            let named = unit.params.iter().find(|p| plan.params[p.param.0 as usize].name == poison);
            let middle = named.map(|placed| placed.offset + placed.elements / 2);
            // Of experts the second rank's are poisoned.
            if let Some(at) =
                middle.filter(|at| held.contains(at) && (unit.axis == Axis::Fsdp || number == 1))
            {
                values[(at - held.start) as usize] = f32::NAN;
            }
            let mut fill = |from: u64, part: &mut [f32]| {
                part.copy_from_slice(&values[from as usize..][..part.len()]);
                Ok(())
            };
            device.fill(view, &mut fill).unwrap();
        }
        let mut rank = Rank::new(Arc::clone(plan), number, Box::new(device), Start::default());
        let feed = Fixed(vec![sequence((0..48).collect())]);
        let bits = |rank: &Rank| -> Vec<u32> {
            views().flat_map(|(_, view)| rank.read(view)).map(f32::to_bits).collect()
        };
        (1..=5).find_map(|step| {
            let before = bits(&rank);
            let problem = rank.step(step, &feed, false).err()?;
            Some((step, problem, bits(&rank) == before))
        })
    };
    let ends: Vec<_> = std::thread::scope(|scope| {
        let one = &one;
        let ranks: Vec<_> =
            local(2).into_iter().map(|comm| scope.spawn(move || one(Box::new(comm)))).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    });
    ends.into_iter().map(|end| end.expect("a step fails")).collect()
}

#[test]
fn a_weight_that_is_no_number_is_named_and_nothing_is_updated() {
    for name in ["model.layers.2.self_attn.k_proj.weight", "model.layers.3.moe.up_proj.weight"] {
        for (step, problem, unchanged) in until_it_fails(&two_ranks(), name) {
            assert_eq!((step, problem.code), (1, "step::runtime::not_finite"));
            let wanted = format!("step 1: loss NaN, gradient norm NaN: `{name}` is not finite");
            assert_eq!(problem.message, wanted);
            assert!(unchanged, "{name}");
        }
    }
}

#[test]
fn steps_that_are_far_too_large_stop_before_the_update() {
    let set = ["model.weights=scratch", "cluster.devices=2", "parallel.ep=2", "train.micro_batch=1"];
    let set = [&set[..], &["train.optimizer.lr=1e15"]].concat();
    let plan = plan("tests/golden/step35.step", None, &set, Task::Train);
    let ends = until_it_fails(&plan, "none");
    assert_eq!(ends[0].1.message, ends[1].1.message, "every rank says the same");
    for (step, problem, unchanged) in ends {
        assert_eq!((step, problem.code, unchanged), (2, "step::runtime::not_finite", true));
        assert!(problem.message.contains("first in `layer0."), "{}", problem.message);
    }
}

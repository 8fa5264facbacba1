//! A plan's file in which any number was changed is read, or refused with a reason; it never brings the program down.

use crate::support::{Fixed, plan, sequence};
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use stepc::plan::{self as plans, Task};
use stepc::runtime::Job;

/// The file of a small plan, and where its numbers are.
fn text() -> &'static (String, Vec<std::ops::Range<usize>>) {
    static TEXT: OnceLock<(String, Vec<std::ops::Range<usize>>)> = OnceLock::new();
    TEXT.get_or_init(|| {
        let set = ["model.weights=scratch", "cluster.devices=2", "parallel.ep=2", "train.micro_batch=1"];
        let plan =
            plan("tests/golden/step35.step", None, &[&set[..], &["train.steps=1"]].concat(), Task::Train);
        let text = plans::write(&plan).unwrap();
        let bytes = text.as_bytes();
        let mut numbers = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let digits = bytes[at..].iter().take_while(|b| b.is_ascii_digit()).count();
            if digits > 0 {
                numbers.push(at..at + digits);
            }
            at += digits.max(1);
        }
        (text, numbers)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 160, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_number_of_a_plan_can_be_wrong(which in any::<prop::sample::Index>(), value in prop_oneof![
        Just(0u64), Just(1), Just(63), Just(u64::MAX), Just(1 << 40), 0u64..10_000,
    ]) {
        let (text, numbers) = text();
        let range = which.get(numbers).clone();
        let changed = format!("{}{value}{}", &text[..range.start], &text[range.end..]);
        if let Ok(plan) = plans::read(Path::new("plan.ron"), &changed)
            && plan.mesh.devices == 2
            && plan.train.steps == 1
            && plan.program.accumulation == 1
        {
            // What was let through runs, or ends with a reason.
            let sequences = vec![sequence((0..plan.data.sequence as u32).map(|i| i % plan.vocab as u32).collect())];
            let stop = AtomicBool::new(false);
            let feed = Fixed(sequences);
            let job = Job { plan: Arc::new(plan), feed: &feed, weights: None, threads: 2, stop: &stop, inspect: &|_, _| {} };
            if let Err(problem) = job.run(|_| {}) {
                prop_assert_ne!(problem.code, "step::runtime::internal", "{}", &text[range.start.saturating_sub(60)..range.end]);
            }
        }
    }
}

//! A plan's file in which any number was changed is refused with a reason; a plan that is wrong in itself never brings the
//! verification down.

use crate::support::plan;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use stepc::plan::{self as plans, Plan, Rows, Task, View};

fn small() -> Arc<Plan> {
    static PLAN: OnceLock<Arc<Plan>> = OnceLock::new();
    let set = ["model.weights=scratch", "cluster.devices=2", "parallel.ep=2", "train.micro_batch=1"];
    Arc::clone(PLAN.get_or_init(|| plan("tests/golden/step35.step", None, &set, Task::Train)))
}

/// The file of a small plan, and where its numbers are.
fn text() -> &'static (String, Vec<std::ops::Range<usize>>) {
    static TEXT: OnceLock<(String, Vec<std::ops::Range<usize>>)> = OnceLock::new();
    TEXT.get_or_init(|| {
        let text = plans::write(&small()).unwrap();
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

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0u64), Just(1), Just(63), Just(u64::MAX), Just(1 << 40), 0u64..10_000]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, rng_seed: RngSeed::Fixed(20_261_201), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_number_of_a_file(which in any::<prop::sample::Index>(), value in number()) {
        let (text, numbers) = text();
        let range = which.get(numbers).clone();
        let changed = format!("{}{value}{}", &text[..range.start], &text[range.end..]);
        let read = plans::read(Path::new("plan.ron"), &changed);
        prop_assert_eq!(read.is_ok(), changed == *text);
    }

    #[test]
    fn any_view_of_a_program(at in any::<prop::sample::Index>(), offset in number(), rows in number(), cols in number()) {
        let mut plan = Plan::clone(&small());
        let ropes = plan.program.ropes.len();
        let view = View { offset, rows: Rows::Fixed(rows), cols, ..plan.program.tokens };
        match at.index(ropes + 3) {
            0 => plan.program.tokens = view,
            1 => plan.program.labels = view,
            2 => plan.program.frozen[0] = view,
            n => plan.program.ropes[n - 3].cos = view,
        }
        prop_assert!(plans::verify(&plan).is_err());
    }

    #[test]
    fn any_size_of_a_buffer(at in any::<prop::sample::Index>(), offset in number(), cols in number()) {
        let mut plan = Plan::clone(&small());
        let at = at.index(plan.program.buffers.len());
        let buffer = &mut plan.program.buffers[at];
        let grown = cols > buffer.cols;
        (buffer.offset, buffer.cols) = (offset, cols);
        // What is still sound may pass; more than there was never is.
        prop_assert!(plans::verify(&plan).is_err() || !grown);
    }
}

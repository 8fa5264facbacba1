//! What a plan says about time holds together: instructions wait for what they need, and the parts make up the step.

use crate::support::plan;
use stepc::plan::{Access, Bound, BufferId, Plan, Stream, Task};

const FLAGSHIP: &str = "recipes/step35_flash.step";

fn flagship(set: &[&str]) -> std::sync::Arc<Plan> {
    plan(FLAGSHIP, None, set, Task::Train)
}

#[test]
fn an_instruction_waits_for_what_it_reads_and_for_room() {
    let plan = flagship(&["parallel.prefetch=3"]);
    let (program, schedule) = (&plan.program, plan.schedule());
    let mut written = vec![0.0; program.buffers.len()];
    let mut read = written.clone();
    let mut streams = [0.0, 0.0];
    let mut overlapped = 0;
    for (op, span) in program.instrs.iter().zip(&schedule.spans) {
        let [compute, comm] = &mut streams;
        let (own, other) = if op.stream() == Stream::Compute { (compute, comm) } else { (comm, compute) };
        assert!(span.start >= *own && span.end >= span.start, "{op:?} keeps the order of its stream");
        overlapped += usize::from(span.start < *other);
        *own = span.end;
        op.operands(|access, view| {
            let id = view.buffer.0 as usize;
            assert!(span.start >= written[id], "{op:?} waits for a writer");
            assert!(access == Access::Read || span.start >= read[id], "{op:?} waits for readers");
        });
        op.operands(|access, view| {
            let seen = if access == Access::Read { &mut read } else { &mut written };
            seen[view.buffer.0 as usize] = span.end;
        });
    }
    assert!(overlapped > 100, "the streams overlap: {overlapped}");

    // Two transient buffers that share memory are never in use at the same time.
    let mut used: Vec<Option<(f64, f64)>> = vec![None; program.buffers.len()];
    for (op, span) in program.instrs.iter().zip(&schedule.spans) {
        op.operands(|_, view| {
            let (from, to) = used[view.buffer.0 as usize].unwrap_or((span.start, span.end));
            used[view.buffer.0 as usize] = Some((from.min(span.start), to.max(span.end)));
        });
    }
    let placed = (0..program.buffers.len() as u32).map(BufferId);
    let transient: Vec<_> = placed.filter(|id| !program.buffer(*id).persistent).collect();
    let mut shared = 0;
    for (i, a) in transient.iter().enumerate() {
        for b in &transient[..i] {
            let place =
                |id: BufferId| (program.buffer(id).offset, program.buffer(id).offset + program.bytes(id));
            let ((a0, a1), (b0, b1)) = (place(*a), place(*b));
            let (Some(s), Some(t)) = (used[a.0 as usize], used[b.0 as usize]) else { continue };
            if a0 < b1 && b0 < a1 {
                shared += 1;
                assert!(
                    s.0 >= t.1 || t.0 >= s.1,
                    "{} and {}",
                    program.buffer(*a).name,
                    program.buffer(*b).name
                );
            }
        }
    }
    assert!(shared > 1000, "memory is used again: {shared}");
}

#[test]
fn the_parts_make_up_the_step() {
    for set in [&[][..], &["train.global_batch=768"], &["parallel.recompute=full"]] {
        let plan = flagship(set);
        let time = &plan.time;
        let sum: f64 = time.spent.values().sum();
        assert!(sum <= time.step * 1.001 && sum > time.step * 0.97, "{set:?}: {sum} of {}", time.step);
        assert!(time.exposed <= time.communication && time.mfu < 1.0);
        let tokens = (plan.train.global_batch * plan.data.sequence) as f64;
        assert!((time.tokens * time.step * 192.0 / tokens - 1.0).abs() < 1e-9);
    }
}

#[test]
fn time_follows_the_figures_of_the_cluster() {
    let base = flagship(&[]);
    let faster = flagship(&["cluster.inter_node.bandwidth=196GB"]);
    assert_eq!(base.time.bound(), Bound::InterNode);
    assert!(faster.time.step < base.time.step * 0.7, "{} of {}", faster.time.step, base.time.step);
    assert_ne!(faster.time.bound(), Bound::InterNode);
    let again = flagship(&["parallel.recompute=full"]);
    assert_eq!(again.time.flops, base.time.flops, "recomputation is no progress");
    assert!(again.time.spent[&Bound::Compute] > base.time.spent[&Bound::Compute] * 1.15);
    let twice = flagship(&["train.global_batch=384"]);
    assert!((1.8..2.05).contains(&(twice.time.step / base.time.step)), "{}", twice.time.step);
    // 6 · active · tokens is most of it: 11.46 B active, 786 432 tokens.
    let products = 6.0 * 11.46e9 * 786_432.0;
    assert!((1.0..1.2).contains(&(base.time.flops / products)), "{}", base.time.flops);
}

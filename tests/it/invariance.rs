//! The same update comes out however the work is divided: ranks, expert parallelism, micro batches, recomputation.

use crate::support::{Fixed, Trained, difference, plan, sequence, train};
use std::sync::Arc;
use stepc::data::Sequence;
use stepc::plan::{Category, Op, Rows, Task};
use stepc::recipe::{DeviceKind, Weights};
use stepc::weights::Folder;

/// Four sequences of pseudo-random tokens, in documents of uneven length.
fn sequences() -> Vec<Arc<Sequence>> {
    let mut state = 1u64;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    (0..4)
        .map(|_| {
            let tokens = (0..48).map(|_| next(512) as u32).collect();
            let mut sequence = Arc::unwrap_or_clone(sequence(tokens));
            let cut = 5 + next(38) as u32;
            sequence.segments = vec![0, cut, 48];
            sequence.positions = (0..cut).chain(0..48 - cut).collect();
            sequence.labels[cut as usize - 1] = -1;
            Arc::new(sequence)
        })
        .collect()
}

fn run(recipe: &str, set: &[&str], threads: usize) -> Trained {
    run_on(DeviceKind::Cpu, recipe, set, threads)
}

/// Trains three steps on the devices of the host or on NPUs.
pub fn run_on(kind: DeviceKind, recipe: &str, set: &[&str], threads: usize) -> Trained {
    let mut plan =
        plan(recipe, None, &[&["train.steps=3", "train.global_batch=4"], set].concat(), Task::Train);
    Arc::get_mut(&mut plan).unwrap().cluster.device.kind = kind;
    let weights = match &plan.weights {
        Weights::Folder(folder) => Some(Folder::open(folder).unwrap()),
        Weights::Scratch => None,
    };
    train(&plan, &Fixed(sequences()), weights.as_ref(), threads)
}

#[track_caller]
pub fn same(reference: &Trained, other: &Trained, what: &str) {
    for (a, b) in reference.reports.iter().zip(&other.reports) {
        assert!((a.loss / b.loss - 1.0).abs() < 1e-5, "{what}: loss {} and {}", a.loss, b.loss);
        let (one, other) = (a.mtp_loss, b.mtp_loss);
        assert!((one - other).abs() <= 1e-5 * one, "{what}: loss ahead {one} and {other}");
        assert!(
            (a.grad_norm / b.grad_norm - 1.0).abs() < 1e-5,
            "{what}: norm {} and {}",
            a.grad_norm,
            b.grad_norm
        );
    }
    assert_eq!(reference.gradients.len(), other.gradients.len());
    for (name, (_, values)) in &reference.gradients {
        let (error, largest) = difference(&other.gradients[name].1, values);
        assert!(error <= 1e-5 * largest, "{what}: gradient of {name} differs by {error}, largest {largest}");
    }
    // Adam divides a gradient by its own size, so single elements with hardly any gradient may go either way.
    for (name, (_, values)) in &reference.parameters {
        let squares = |x: &mut dyn Iterator<Item = f64>| x.map(|x| x * x).sum::<f64>().sqrt();
        let own = &other.parameters[name].1;
        let error = squares(&mut own.iter().zip(values).map(|(a, b)| f64::from(a - b)));
        let norm = squares(&mut values.iter().map(|x| f64::from(*x)));
        assert!(error <= 1e-5 * norm, "{what}: parameter {name} differs by {error}, norm {norm}");
    }
}

const STEP35: &str = "tests/golden/step35.step";

#[test]
fn ranks_and_expert_parallelism() {
    let reference = run(STEP35, &["train.micro_batch=1"], 1);
    for (devices, fsdp, ep, ep_fsdp) in
        [(2, 2, 1, 2), (2, 2, 2, 1), (4, 4, 1, 4), (4, 4, 2, 2), (4, 4, 4, 1), (4, 2, 2, 1), (4, 1, 1, 2)]
    {
        let set = [
            format!("cluster.devices={devices}"),
            format!("parallel.fsdp={fsdp}"),
            format!("parallel.ep={ep}"),
            format!("parallel.ep_fsdp={ep_fsdp}"),
            "train.micro_batch=1".to_owned(),
        ];
        let set: Vec<&str> = set.iter().map(String::as_str).collect();
        same(&reference, &run(STEP35, &set, devices), &set.join(" "));
    }
}

/// Two layers of multi-token prediction with experts of their own, whose load is evened out by a loss and by a bias.
#[test]
fn multi_token_prediction() {
    for kind in
        [["model.mtp.head=own", "model.mtp.input=state"], ["model.mtp.head=shared", "model.mtp.input=normed"]]
    {
        let trained = [
            "model.weights=scratch",
            "model.init_std=0.1",
            "model.norm.offset=0",
            "model.mtp.layers=2",
            "model.mtp.ffn=sparse",
            "model.mtp.usage=trained",
            "model.sparse.router.aux_loss=0.01",
            "model.sparse.router.bias_update=0.001",
        ];
        let trained = [&trained[..], &kind].concat();
        let with = |set: &[&str], threads| run(STEP35, &[&trained[..], set].concat(), threads);
        let reference = with(&["train.micro_batch=4"], 1);
        assert!(reference.reports.iter().all(|report| report.mtp_loss > 1.0));
        for set in [
            &["train.micro_batch=1"][..],
            &["train.micro_batch=2", "parallel.recompute=full"],
            &["train.micro_batch=2", "cluster.devices=2", "parallel.recompute=selective"],
            &["train.micro_batch=1", "cluster.devices=2", "parallel.ep=2", "parallel.prefetch=2"],
            &["train.micro_batch=1", "cluster.devices=4", "parallel.ep=1", "parallel.ep_fsdp=4"],
            &["train.micro_batch=1", "cluster.devices=4", "parallel.ep=2", "parallel.recompute=full"],
            &["train.micro_batch=1", "cluster.devices=4", "parallel.ep=4"],
        ] {
            same(&reference, &with(set, 4), &set.join(" "));
        }
    }
}

#[test]
fn micro_batches_and_accumulation() {
    let reference = run(STEP35, &["train.micro_batch=4"], 1);
    for set in [
        &["train.micro_batch=2"][..],
        &["train.micro_batch=1"],
        &["train.micro_batch=2", "cluster.devices=2"],
        &["train.micro_batch=1", "cluster.devices=2", "parallel.ep=2", "parallel.prefetch=2"],
    ] {
        same(&reference, &run(STEP35, set, 2), &set.join(" "));
    }
}

#[test]
fn recomputation() {
    let reference = run(STEP35, &["train.micro_batch=2"], 1);
    let full = ["train.micro_batch=2", "parallel.recompute=full"];
    same(&reference, &run(STEP35, &full, 1), "recompute = full");
    let on_two = [&full[..], &["train.micro_batch=1", "cluster.devices=2", "parallel.ep=2"]].concat();
    same(&reference, &run(STEP35, &on_two[1..], 2), "recompute = full, ep = 2");
}

#[test]
fn selective_recomputation() {
    for (recipe, set) in [
        (STEP35, &["train.micro_batch=2"][..]),
        (STEP35, &["train.micro_batch=1", "cluster.devices=2", "parallel.ep=2"]),
        ("tests/golden/llama.step", &["model.weights=scratch", "train.micro_batch=2"]),
    ] {
        let [none, selective, full] = ["none", "selective", "full"].map(|kept| {
            let recompute = format!("parallel.recompute={kept}");
            let set = [set, &[recompute.as_str()]].concat();
            (run(recipe, &set, 2), plan(recipe, None, &set, Task::Train).memory.peak)
        });
        for (name, (_, values)) in &none.0.parameters {
            assert_eq!(difference(&selective.0.parameters[name].1, values).0, 0.0, "{recipe}: {name}");
        }
        let peaks = [full.1, selective.1, none.1];
        assert!(peaks.is_sorted_by(|a, b| a < b), "{recipe}: peaks of full, selective, none: {peaks:?}");
    }
}

#[test]
fn tied_embeddings() {
    let tie = "model.tie_embeddings=true";
    let reference = run("tests/golden/llama.step", &[tie, "model.weights=scratch", "train.micro_batch=2"], 1);
    let two = run(
        "tests/golden/llama.step",
        &[tie, "model.weights=scratch", "train.micro_batch=1", "cluster.devices=2"],
        2,
    );
    same(&reference, &two, "tied, two ranks");
    let untied = run("tests/golden/llama.step", &["model.weights=scratch", "train.micro_batch=2"], 1);
    assert!(untied.parameters.len() == reference.parameters.len() + 1);
}

#[test]
fn threads_give_the_same_bits() {
    let one = run(STEP35, &["train.micro_batch=4"], 1);
    let two = run(STEP35, &["train.micro_batch=4"], 2);
    for (name, (_, values)) in &one.parameters {
        assert!(difference(&two.parameters[name].1, values).0 < 1e-6, "{name}");
    }
}

#[test]
fn chunks_of_the_loss() {
    let reference = run(STEP35, &["train.micro_batch=2"], 1);
    for rows in ["train.loss_chunk=7", "train.loss_chunk=96"] {
        same(&reference, &run(STEP35, &["train.micro_batch=2", rows], 1), rows);
    }
    let logits = |set: &[&str]| {
        let plan = plan(STEP35, None, &[&["train.micro_batch=2"], set].concat(), Task::Train);
        let rows = plan.program.buffers.iter().filter(|b| b.category == Category::Logits).map(|b| b.rows);
        (rows.collect::<Vec<_>>(), plan.memory.peak)
    };
    let (whole, peak) = logits(&[]);
    let (chunks, lower) = logits(&["train.loss_chunk=24"]);
    assert_eq!((whole, chunks), (vec![Rows::Fixed(96)], vec![Rows::Fixed(24); 4]));
    assert!(lower <= peak, "{lower} bytes in chunks, {peak} without");
}

#[test]
fn gathered_until_the_backward_pass() {
    let two = ["train.micro_batch=1", "cluster.devices=2", "parallel.ep=1", "parallel.prefetch=1"];
    let stays = [&two[..], &["parallel.reshard_after_forward=false"]].concat();
    same(&run(STEP35, &two, 2), &run(STEP35, &stays, 2), "reshard_after_forward = false");
    let of = |set: &[&str]| {
        let plan = plan(STEP35, None, set, Task::Train);
        let units = plan.placement.units.len();
        let gathers = plan.program.instrs.iter().filter(|op| matches!(op, Op::Gather { .. })).count();
        let sent: u64 = plan.traffic.sent.iter().filter(|((op, _), _)| op == "Gather").map(|(_, n)| n).sum();
        (units, gathers, sent, plan.memory.peak)
    };
    let ((units, again, sent, peak), (_, once, less, more)) = (of(&two), of(&stays));
    assert_eq!(once, units, "every unit is gathered once");
    assert!(again > once && less < sent && more > peak, "{again} gathers, {sent} bytes; {once}, {less}");
}

/// In half precision the order of sums shows, but in the last bits only.
#[test]
fn half_precision() {
    let half = ["parallel.precision.params=bf16", "train.micro_batch=1"];
    let reference = run(STEP35, &half, 1);
    let two = ["cluster.devices=2", "parallel.fsdp=2"];
    for set in [
        &["parallel.recompute=full"][..],
        &two,
        &[&two[..], &["parallel.ep=2", "parallel.ep_fsdp=1"]].concat(),
    ] {
        let other = run(STEP35, &[&half, set].concat(), 2);
        for (a, b) in reference.reports.iter().zip(&other.reports) {
            assert!((a.loss / b.loss - 1.0).abs() < 3e-3, "{set:?}: loss {} and {}", a.loss, b.loss);
            assert!(
                (a.grad_norm / b.grad_norm - 1.0).abs() < 2e-2,
                "{set:?}: {} and {}",
                a.grad_norm,
                b.grad_norm
            );
        }
    }
}

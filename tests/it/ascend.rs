//! The Ascend device over the emulator of CANN's libraries, against the CPU device and against PyTorch. It proves calls, their order, shapes and
//! lifetimes, and that the operators they are mapped to compute what the program means; it does not prove the hardware.

use crate::support::{plan, sequence};
use crate::{golden, invariance};
use cann_emulator::installation::in_processes;
use std::sync::Arc;
use stepc::base::DType;
use stepc::comm::local;
use stepc::plan::{Access, BufferId, Op, Plan, Rows, Task, View};
use stepc::recipe::DeviceKind;
use stepc::runtime::{Ascend, Cpu, Device, Scalars};

/// A number between −0.5 and 0.5 that looks like chance.
fn noise(seed: u64) -> f32 {
    let mut z = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    ((z ^ (z >> 27)) >> 40) as f32 / (1u64 << 24) as f32 - 0.5
}

/// Runs a step of the program on both devices, an instruction at a time, and holds what each has written against the other.
fn instructions_agree(recipe: &str, set: &[&str]) {
    let plan = plan(recipe, None, set, Task::Train);
    let comm = || Box::new(local(1).remove(0));
    let mut cpu = Cpu::new(Arc::clone(&plan), comm()).unwrap();
    let mut npu = Ascend::new(Arc::clone(&plan), comm(), 0).unwrap_or_else(|problem| panic!("{problem:?}"));
    let buffers = plan.program.buffers.iter().enumerate().filter(|(_, buffer)| buffer.persistent);
    for (number, buffer) in buffers.filter(|(_, buffer)| buffer.dtype == DType::F32) {
        let view = View { buffer: BufferId(number as u32), offset: 0, rows: buffer.rows, cols: buffer.cols };
        // Second moments are not negative.
        let moment = buffer.name.ends_with(".v");
        let mut fill = |first: u64, out: &mut [f32]| {
            for (at, out) in (first..).zip(out) {
                let value = noise((number as u64) << 32 | at);
                *out = if moment { value.abs() } else { value };
            }
            Ok(())
        };
        cpu.fill(view, &mut fill).unwrap();
        npu.fill(view, &mut fill).unwrap();
    }
    let (length, vocab) = (plan.data.sequence, plan.vocab as u32);
    let tokens = |row: u64| (0..length).map(move |at| (row * 31 + at * at * 7 + 3) as u32 % vocab);
    let sequences: Vec<_> = (0..plan.train.micro_batch).map(|row| sequence(tokens(row).collect())).collect();
    cpu.load(&sequences);
    npu.load(&sequences);
    let mut scalars =
        [(); 2].map(|()| Scalars { step: 3, learning_rate: 1e-3, supervised: 40.0, ..Scalars::default() });
    for op in &plan.program.instrs {
        cpu.run(op, &mut scalars[0]).unwrap();
        npu.run(op, &mut scalars[1]).unwrap_or_else(|problem| panic!("{problem:?}"));
        written_alike(&plan, op, &cpu, &npu);
    }
    let [one, other] = scalars;
    assert!((one.loss - other.loss).abs() < 1e-4 * one.loss.abs(), "loss {} and {}", one.loss, other.loss);
    let norms = (one.norm_squared, other.norm_squared);
    assert!((norms.0 - norms.1).abs() < 1e-4 * norms.0, "squared norms {norms:?}");
}

fn written_alike(plan: &Plan, op: &Op, cpu: &Cpu, npu: &Ascend) {
    op.operands(|access, view| {
        if access == Access::Read {
            return;
        }
        let (own, other) = (cpu.read(view), npu.read(view));
        assert_eq!(own.len(), other.len());
        if plan.program.buffer(view.buffer).dtype == DType::I32 {
            let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
            return assert_eq!(bits(&own), bits(&other), "{op:?}");
        }
        let name = &plan.program.buffer(view.buffer).name;
        let largest = own.iter().fold(0f32, |most, value| most.max(value.abs()));
        let worst = own.iter().zip(&other).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        let rows = matches!(view.rows, Rows::Routed(_));
        assert!(
            worst <= 2e-5 * largest.max(1e-3),
            "{op:?}\nwrites {name} (routed: {rows}) off by {worst} of {largest}"
        );
    });
}

#[test]
fn instructions_of_a_dense_model() {
    let body = |_| instructions_agree("tests/golden/llama.step", &[]);
    in_processes("ascend::instructions_of_a_dense_model", 1, &[], body).is_clean();
}

#[test]
fn instructions_of_step35() {
    let body = |_| instructions_agree("tests/golden/step35.step", &[]);
    in_processes("ascend::instructions_of_step35", 1, &[], body).is_clean();
}

#[test]
fn instructions_of_experts_chosen_by_softmax() {
    let body = |_| instructions_agree("tests/golden/qwen3_moe.step", &[]);
    in_processes("ascend::instructions_of_experts_chosen_by_softmax", 1, &[], body).is_clean();
}

#[test]
fn a_dense_model_as_pytorch_trains_it() {
    let body = |_| golden::training_matches_on_an_npu("llama");
    in_processes("ascend::a_dense_model_as_pytorch_trains_it", 1, &[], body).is_clean();
}

#[test]
fn step35_as_pytorch_trains_it() {
    let body = |_| golden::training_matches_on_an_npu("step35");
    in_processes("ascend::step35_as_pytorch_trains_it", 1, &[], body).is_clean();
}

/// The same update as one rank on the CPU gives.
fn update_on_npus(layout: &[&str]) {
    let recipe = "tests/golden/step35.step";
    let reference = invariance::run_on(DeviceKind::Cpu, recipe, &["train.micro_batch=1"], 1);
    let npus = invariance::run_on(DeviceKind::Npu, recipe, &[&["train.micro_batch=1"], layout].concat(), 1);
    invariance::same(&reference, &npus, &layout.join(", "));
}

#[test]
fn two_npus_with_experts_on_either() {
    let body =
        |_| update_on_npus(&["cluster.devices=2", "parallel.fsdp=2", "parallel.ep=2", "parallel.ep_fsdp=1"]);
    in_processes("ascend::two_npus_with_experts_on_either", 1, &[], body).is_clean();
}

#[test]
fn four_npus_with_experts_on_pairs() {
    let body =
        |_| update_on_npus(&["cluster.devices=4", "parallel.fsdp=4", "parallel.ep=2", "parallel.ep_fsdp=2"]);
    in_processes("ascend::four_npus_with_experts_on_pairs", 1, &[], body).is_clean();
}

#[test]
fn four_npus_with_experts_on_each_and_replicas() {
    let body =
        |_| update_on_npus(&["cluster.devices=4", "parallel.fsdp=2", "parallel.ep=4", "parallel.ep_fsdp=1"]);
    in_processes("ascend::four_npus_with_experts_on_each_and_replicas", 1, &[], body).is_clean();
}

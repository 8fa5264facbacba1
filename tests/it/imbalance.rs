//! `parallel.ep_imbalance`: what the busiest expert rank takes is planned for, and more than that stops a run.

use crate::support::plan;
use std::process::{Command, Output};
use stepc::plan::Task;

const FLAGSHIP: &str = "recipes/step35_flash.step";

fn laptop(command: &str, set: &[&str]) -> Output {
    let folder = tempfile::TempDir::new().unwrap();
    let mut stepc = Command::new(env!("CARGO_BIN_EXE_stepc"));
    stepc.args([command, FLAGSHIP, "--profile", "laptop"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    if command == "run" {
        stepc
            .args(["--set", "train.steps=1", "--set", "train.schedule.warmup=0", "--output"])
            .arg(folder.path());
    }
    set.iter().for_each(|set| _ = stepc.args(["--set", set]));
    stepc.output().unwrap()
}

#[test]
fn the_busiest_rank_takes_memory_and_time() {
    let even = plan(FLAGSHIP, None, &[], Task::Train);
    let busy = plan(FLAGSHIP, None, &["parallel.ep_imbalance=1.5"], Task::Train);
    for routed in &busy.program.routed {
        assert_eq!(routed.busiest, routed.balanced * 3 / 2);
        assert_eq!(routed.capacity, routed.busiest);
    }
    assert!(even.memory.peak < busy.memory.peak && even.time.step < busy.time.step);
    assert_eq!(even.time.flops, busy.time.flops, "no token more is trained on");
    assert_eq!(even.traffic, busy.traffic, "nor sent by the average rank");
    assert_eq!(busy.imbalanced(1.0), (even.memory.peak, even.time.step));
    assert_eq!(even.imbalanced(1.5), (busy.memory.peak, busy.time.step));
    // No more can come than all tokens of the group.
    let all = plan(FLAGSHIP, None, &["parallel.ep_imbalance=1e9"], Task::Train);
    assert!(all.program.routed.iter().all(|routed| routed.capacity == routed.bound));
}

#[test]
fn a_cpu_has_room_for_whatever_comes_unless_it_is_told_otherwise() {
    let bound = plan(FLAGSHIP, Some("laptop"), &[], Task::Train);
    assert!(bound.program.routed.iter().all(|r| r.capacity == r.bound && r.busiest == r.balanced));
    let output = laptop("run", &["parallel.ep_imbalance=1"]);
    let problem = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{problem}");
    assert!(problem.contains("step::comm::capacity") && problem.contains("times the average"), "{problem}");
    let advice = problem.split("parallel.ep_imbalance = ").nth(1).unwrap();
    let factor: f64 = advice.split('`').next().unwrap().parse().unwrap();
    assert!(factor > 1.0);
    let output = laptop("run", &[&format!("parallel.ep_imbalance={}", 2.0 * factor)]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn an_imbalance_is_at_least_balance_and_needs_ranks() {
    let output = laptop("check", &["parallel.ep_imbalance=0.9"]);
    assert_eq!(output.status.code(), Some(2));
    let output = laptop("check", &["parallel.ep_imbalance=1.5", "parallel.ep=1"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("step::recipe::no_effect"));
}

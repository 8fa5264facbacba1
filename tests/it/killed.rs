//! A run that is killed again and again while it saves, and goes on each time, is the run that was never killed.

use crate::cli::{Desk, STEPC};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use stepc::checkpoint::{Checkpoint, list};

const KILLS: usize = 100;

/// Pseudo-random numbers below a limit.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Whether something is being written or removed in the folder of the run.
fn saving(out: &Path) -> bool {
    let entries = fs::read_dir(out).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.file_name().to_string_lossy().ends_with(".unfinished"))
}

/// Waits until the run saves for the `nth` time since it began; `false` if it ended first.
fn wait(child: &mut Child, out: &Path, nth: u64) -> bool {
    let (began, mut seen, mut inside) = (Instant::now(), 0, false);
    while began.elapsed() < Duration::from_secs(120) {
        let now = saving(out);
        seen += u64::from(now && !inside);
        inside = now;
        if seen > nth {
            return true;
        }
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    panic!("the run neither saves nor ends");
}

/// Step, loss and norm of every line of the metrics.
fn metrics(folder: &Path) -> BTreeMap<u64, String> {
    let text = fs::read_to_string(folder.join("metrics.jsonl")).unwrap();
    let lines = text.lines().map(|line| {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        (value["step"].as_u64().unwrap(), format!("{} {}", value["loss"], value["grad_norm"]))
    });
    lines.collect()
}

#[test]
fn a_hundred_times() {
    let desk = Desk::new();
    desk.spoil("every = 3", "every = 1, keep = 2");
    let mut dice = Dice(2026);
    let (out, mut kills, mut from) = (desk.path("out"), 0, 0);
    // Never reaches its end while it is killed.
    let long = ["run", "small.step", "--set", "train.steps=100000"];
    while kills < KILLS {
        let resume: &[&str] = if list(&out).is_empty() { &[] } else { &["--resume"] };
        let mut command = desk.command(STEPC, &[&long[..], resume].concat());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        if !wait(&mut child, &out, dice.below(4)) {
            let said = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
            panic!("ended by itself after {kills} kills: {said}");
        }
        std::thread::sleep(Duration::from_micros(dice.below(6000)));
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
        let held = list(&out);
        for listed in &held {
            let step = Checkpoint::open(&listed.path).unwrap_or_else(|p| panic!("{p:?}")).manifest().step;
            assert_eq!(step, listed.step);
        }
        let newest = held.last().map_or(0, |listed| listed.step);
        assert!(newest >= from, "what was complete stays: {from}, then {newest}");
        from = newest;
    }
    assert!(from > 20, "it gets on between kills: step {from}");

    let steps = format!("train.steps={}", from + 2);
    let end = desk.stepc(&["run", "small.step", "--set", &steps, "--resume"]);
    assert_eq!(end.code, Some(0), "{}", end.err);
    let whole = desk.stepc(&["run", "small.step", "--set", &steps, "--output", "whole"]);
    assert_eq!(whole.code, Some(0), "{}", whole.err);
    assert_eq!(metrics(&out), metrics(&desk.path("whole")));
    let weights = |folder: &Path| fs::read(folder.join("model.safetensors")).unwrap();
    assert!(weights(&out) == weights(&desk.path("whole")), "the weights are the same to the bit");
}

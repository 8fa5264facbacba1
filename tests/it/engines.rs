//! What `stepc plan` says where no program of the native engine stands for a recipe: for other engines, and for layouts that
//! the native engine does not run yet.

use crate::support::snapshot;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

const FLAGSHIP: &str = "recipes/step35_flash.step";

/// The flagship with every axis in use.
const ALL_AXES: [&str; 16] = [
    "--set",
    "parallel.tp=4",
    "--set",
    "parallel.cp=2",
    "--set",
    "parallel.pp=2",
    "--set",
    "parallel.fsdp=24",
    "--set",
    "parallel.ep=48",
    "--set",
    "parallel.ep_fsdp=2",
    "--set",
    "model.layers=44",
    "--set",
    "train.global_batch=96",
];

fn run(args: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut stepc = Command::new(env!("CARGO_BIN_EXE_stepc"));
    stepc.args(["plan", FLAGSHIP]).args(args).current_dir(root).env("NO_COLOR", "1").output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The page and, behind it, what is said about it.
fn page(args: &[&str]) -> String {
    let output = run(args);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let help = text(&output.stderr);
    let help = help.lines().filter(|line| line.contains("help: "));
    text(&output.stdout) + &help.collect::<Vec<_>>().join("\n")
}

fn json(args: &[&str]) -> Value {
    let output = run(&[&["--as", "json"], args].concat());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&output.stderr)))
}

#[test]
fn pages_of_estimates() {
    let all_axes = page(&ALL_AXES);
    assert!(!all_axes.contains("left out") && all_axes.contains("pipeline bubble"), "{all_axes}");
    snapshot("estimate_all_axes", &all_axes);
    snapshot("estimate_mindspeed", &page(&["--engine", "mindspeed", "--set", "parallel.recompute=full"]));
    let large = ["--engine", "torchtitan", "--set", "data.sequence=8Ki"];
    snapshot("estimate_does_not_fit", &page(&large));
}

#[test]
fn categories_add_up_to_the_peak() {
    let engines = ["native", "mindspeed", "torchtitan", "megatron"];
    let cases = engines.map(|engine| vec!["--engine", engine]).into_iter().chain([ALL_AXES.to_vec()]);
    for args in cases {
        let plan = json(&args);
        let memory = &plan["memory"];
        let sum: u64 = memory["at_peak"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
        let peak = memory["peak"].as_u64().unwrap();
        let exact = plan["basis"] == "program";
        assert!(peak.abs_diff(sum) <= if exact { 0 } else { 16 }, "{args:?}: {sum} of {peak}");
        assert_eq!(exact, args == ["--engine", "native"], "{args:?}");
        let time = &plan["time"];
        let spent: f64 = time["spent"].as_object().unwrap().values().map(|s| s.as_f64().unwrap()).sum();
        let step = time["step"].as_f64().unwrap();
        assert!((spent / step - 1.0).abs() < 0.03, "{args:?}: {spent} of {step}");
        assert!(time["exposed"].as_f64() <= time["communication"].as_f64());
    }
}

#[test]
fn a_remedy_does_what_it_says() {
    let does_not_fit = json(&["--engine", "mindspeed"]);
    let memory = &does_not_fit["memory"];
    assert_eq!(memory["fits"], false);
    let change = memory["remedy"]["change"].as_str().unwrap().trim_matches('`').replace(' ', "");
    let changed = json(&["--engine", "mindspeed", "--set", &format!("parallel.{change}")]);
    assert_eq!(changed["memory"]["fits"], true, "{change}");
    assert_eq!(changed["memory"]["peak"], memory["remedy"]["peak"]);
    assert_eq!(changed["memory"]["remedy"], Value::Null);
    assert_eq!(changed["time"]["step"], memory["remedy"]["step"]);
}

#[test]
fn nothing_that_a_recipe_asks_for_is_left_out() {
    let tp = ["--set", "parallel.tp=2", "--set", "parallel.fsdp=96"];
    let own = json(&tp);
    for (set, demanded) in [
        ("parallel.offload=optimizer", Some("parallel.offload")),
        ("parallel.offload=params", Some("parallel.offload")),
        ("parallel.cp=2", Some("parallel.cp")),
        ("train.loss_chunk=64", None),
        ("parallel.recompute=selective", None),
        ("parallel.reshard_after_forward=false", None),
    ] {
        let plan = json(&[&tp[..], &["--set", set]].concat());
        assert_eq!(plan["basis"], "estimate");
        assert_ne!(plan["memory"]["moments"], own["memory"]["moments"], "{set}");
        let demands = plan["not_run_natively"].as_array().unwrap();
        let fields = demands.iter().map(|demand| demand["field"].as_str().unwrap());
        assert!(fields.eq(["parallel.tp"].into_iter().chain(demanded)), "{demands:?}");
    }
}

#[test]
fn an_estimate_is_no_program() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("plan.ron");
    let output = run(&["--engine", "megatron", "--output", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("step::plan::estimated") && !path.exists());
    let output = run(&[&ALL_AXES[..], &["--as", "ron"]].concat());
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    assert!(text(&output.stderr).contains("asks for `4`"), "{}", text(&output.stderr));
}

#[test]
fn engines_are_compared() {
    let args = ["--diff", FLAGSHIP, "--engine", "mindspeed", "--diff-engine", "native"];
    let page = page(&args);
    for words in ["native → mindspeed", "program → estimate", "saved activations", "MFU"] {
        assert!(page.contains(words), "{words} in\n{page}");
    }
    let same = text(&run(&["--diff", FLAGSHIP, "--engine", "mindspeed"]).stdout);
    assert_eq!(same, "no difference\n");
}

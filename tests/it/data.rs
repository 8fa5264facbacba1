//! `stepc data preview` and fine-tuning, from the command line.

use crate::support::snapshot;
use std::path::PathBuf;
use std::process::{Command, Output};

fn stepc(arguments: &[&str]) -> Output {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut command = Command::new(env!("CARGO_BIN_EXE_stepc"));
    command.current_dir(folder).args(arguments).env_remove("NO_COLOR").output().unwrap()
}

const TUNED: &str = "D027-template-without-marks.step";

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_preview_is_readable_without_colour() {
    let shown = stepc(&["data", "preview", TUNED]);
    assert_eq!(shown.status.code(), Some(0), "{}", text(&shown.stderr));
    let page = text(&shown.stdout);
    assert!(!page.contains('\x1b'), "no colour in a pipe");
    snapshot("data_preview", &page);
    // Without margins and rules it is the text of the conversations.
    assert!(page.contains("+ Gut, danke — and you?<|end|>\n"), "{page}");
}

#[test]
fn a_preview_shows_ids_colour_and_one_source() {
    let ids = text(&stepc(&["data", "preview", TUNED, "--ids", "-n", "2", "--source", "text"]).stdout);
    assert!(ids.contains("sequence 1: 128 tokens"), "{ids}");
    assert!(ids.lines().any(|line| line.starts_with("  # 5 3 ")), "{ids}");
    let colour = text(&stepc(&["data", "preview", TUNED, "--color", "always"]).stdout);
    assert!(colour.contains("\x1b[32m+ "), "{colour}");
    let unknown = stepc(&["data", "preview", TUNED, "--source", "txt"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("did you mean `text`?"), "{}", text(&unknown.stderr));
}

#[test]
fn fine_tuning_takes_the_loss_over_answers_only() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("run");
    let set =
        ["--set", "train.steps=2", "--set", "train.global_batch=2", "--output", output.to_str().unwrap()];
    let ran = stepc(&[&["run", TUNED][..], &set].concat());
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    let metrics = std::fs::read_to_string(output.join("metrics.jsonl")).unwrap();
    for line in metrics.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let (tokens, supervised) = (line["tokens"].as_u64().unwrap(), line["supervised"].as_u64().unwrap());
        assert!(0 < supervised && supervised < tokens / 2, "{line}");
    }
    assert_eq!(metrics.lines().count(), 2);
}

/// The two examples as a user runs them, a few steps each: the novels, then their dialogues from the weights of the first run.
#[test]
fn the_example_of_fine_tuning_goes_on_from_the_pretrained_model() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let small = ["model.layers=2", "train.global_batch=4", "train.micro_batch=4", "train.steps=3"];
    let small: Vec<_> = small.iter().flat_map(|set| ["--set", set]).collect();
    let run = |recipe: &str, output: &str, set: &[&str]| {
        let ran = stepc(&[&["run", recipe, "--output", &path(output)][..], &small, set].concat());
        assert_eq!((ran.status.code(), text(&ran.stderr)), (Some(0), String::new()));
        let metrics = std::fs::read_to_string(folder.path().join(output).join("metrics.jsonl")).unwrap();
        metrics.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<serde_json::Value>>()
    };
    let schedule = ["--set", "train.schedule.warmup=1"];
    let novels = run("../../examples/llama.step", "llama", &schedule);
    let weights = format!("model.weights={:?}", path("llama"));
    let tuned = run("../../examples/sft.step", "sft", &[&schedule[..], &["--set", &weights]].concat());
    let number = |line: &serde_json::Value, key: &str| line[key].as_f64().unwrap();
    assert!(number(&tuned[0], "loss") < number(&novels[0], "loss"), "it begins with what has been learned");
    for line in &tuned {
        let share = number(line, "supervised") / number(line, "tokens");
        assert!((0.2..0.6).contains(&share), "the answers are about half of what is said: {line}");
    }
}

#[test]
fn what_was_left_out_is_told_at_the_end_of_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("run");
    let set =
        ["--set", "train.steps=2", "--set", "train.global_batch=2", "--output", output.to_str().unwrap()];
    let ran = stepc(&[&["run", "D043-skipped.step"][..], &set].concat());
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    assert!(text(&ran.stdout).contains("documents left out: not readable"), "{}", text(&ran.stdout));
    let told = text(&ran.stderr);
    assert!(told.contains("byte 0xf4 is not valid UTF-8"), "{told}");
}

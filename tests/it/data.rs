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

//! The program from outside: what a command prints, to which stream, and its exit code.

use crate::support::snapshot;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A folder with the small recipe of the documentation in it.
pub struct Desk {
    pub folder: TempDir,
}

/// What a command left behind.
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Desk {
    pub fn new() -> Self {
        let desk = Desk { folder: tempfile::tempdir().unwrap() };
        desk.write("small.step", include_str!("../../docs/errors/small.step"));
        // What `small.step` and new recipes name is there.
        desk.write("data/text.txt", "A line of text.\n");
        desk.write("data/tokenizer.json", "{}");
        desk
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Runs the program here, as in a terminal of 100 columns without colour.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        let output = Command::new(env!("CARGO_BIN_EXE_stepc"))
            .args(arguments)
            .current_dir(self.folder.path())
            .env("COLUMNS", "100")
            .env_remove("NO_COLOR")
            .output()
            .unwrap();
        Ran {
            code: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Commands with what they print, as a user would see them one below the other.
    pub fn session(&self, commands: &[&[&str]]) -> String {
        let shown = commands.iter().map(|arguments| {
            let ran = self.run(arguments);
            let code = if ran.code == 0 { String::new() } else { format!("[exit {}]\n", ran.code) };
            format!("$ stepc {}\n{}{}{code}", arguments.join(" "), ran.out, ran.err)
        });
        shown.collect::<Vec<_>>().join("\n")
    }
}

const LAYERED: &str = "\
use \"small.step\"

recipe example: small {
  parallel { ep = 2 }
  train { global_batch = 2 * cluster.devices }
  profile short for cpu {
    parallel { ep = 4 }
    train { steps = 5 }
  }
}
";

#[test]
fn why_shows_every_place_and_the_winner_first() {
    let desk = Desk::new();
    desk.write("a.step", LAYERED);
    let check = |more: &[&'static str]| [&["check", "a.step"][..], more].concat();
    let commands = [
        check(&["--why", "parallel.ep"]),
        check(&["--profile", "short", "--set", "parallel.ep=8", "--why", "parallel.ep"]),
        check(&["--why", "train.global_batch"]),
        check(&["--why", "train.micro_batch"]),
        check(&["--profile", "short", "--why", "parallel"]),
        check(&["--why", "model.sliding"]),
        check(&["--why", "model.experts"]),
        check(&["--why", "cluster.device.memory"]),
        check(&["--why", "checkpoint"]),
    ];
    let commands: Vec<_> = commands.iter().map(Vec::as_slice).collect();
    snapshot("why", &desk.session(&commands));
}

#[test]
fn why_knows_the_nearest_path() {
    let desk = Desk::new();
    desk.write("a.step", LAYERED);
    let commands = ["parallel.epp", "ep_fsdp", "sequense", "model.full.scaling", "nonsense"]
        .map(|path| ["check", "a.step", "--why", path]);
    let commands: Vec<_> = commands.iter().map(|command| &command[..]).collect();
    snapshot("why_unknown", &desk.session(&commands));
}

#[test]
fn explain_prints_pages_areas_and_the_nearest_code() {
    let desk = Desk::new();
    snapshot(
        "explain",
        &desk.session(&[
            &["explain", "ep_experts"],
            &["explain", "step::recipe::set_layer"],
            &["explain", "use_cycle"],
            &["explain", "not_finite"],
            &["explain", "parallel"],
            &["explain", "ep_expert"],
            &["explain", "too_deep"],
            &["explain", "step::nothing::like_it"],
        ]),
    );
    let all = desk.run(&["explain"]);
    assert!(all.code == 0 && all.out.lines().count() > 130, "{}", all.out);
    let colored = desk.run(&["explain", "ep_experts", "--color", "always"]);
    assert!(colored.out.contains("\x1b[36mparallel { ep = 4 }\x1b[0m"), "{:?}", colored.out);
}

#[test]
fn what_is_asked_for_and_not_there() {
    let desk = Desk::new();
    desk.write("a.step", LAYERED);
    desk.write("several.step", "use \"small.step\"\nrecipe one: small { }\nrecipe two: small { }\n");
    desk.write("model.step", "use \"models/llama.step\"\n");
    desk.write("latin.step", "");
    std::fs::write(desk.path("latin.step"), b"recipe caf\xe9 { }").unwrap();
    std::fs::create_dir(desk.path("folder.step")).unwrap();
    snapshot(
        "not_there",
        &desk.session(&[
            &["check", "a.step", "--profile", "shrot"],
            &["check", "a.step", "--profile", "laptop"],
            &["check", "small.step", "--profile", "laptop"],
            &["check", "a.step", "--recipe", "exampel"],
            &["check", "several.step"],
            &["check", "several.step", "--recipe", "three"],
            &["check", "model.step"],
            &["check", "missing.step"],
            &["check", "latin.step"],
            &["check", "folder.step"],
            &["check", "a.step", "--set", "train.stepps=10"],
            &["check", "a.step", "--set", "trian.steps=10"],
            &["check", "a.step", "--set", "train.steps"],
            &["check", "a.step", "--set", "train.steps=ten"],
            &["check", "a.step", "--set", "train.steps=0"],
            &["check", "a.step", "--set", "model.attention.heads=8"],
            &["check", "a.step", "--set", "model.experts=8"],
            &["check", "a.step", "--set", "parallel.ep=3"],
            &["plan", "a.step", "--profile", "nothing"],
            &["run", "missing.ron"],
        ]),
    );
}

#[test]
fn denied_warnings_are_errors() {
    let desk = Desk::new();
    desk.write(
        "a.step",
        "use \"small.step\"\nlet idle = 1\nrecipe example: small { checkpoint { every = 50 } }\n",
    );
    snapshot(
        "deny",
        &desk.session(&[
            &["check", "a.step"],
            &["check", "a.step", "--deny", "warnings"],
            &["plan", "a.step", "--output", "plan.ron", "--deny", "warnings"],
        ]),
    );
    assert!(!desk.path("plan.ron").exists());
    assert_eq!(desk.run(&["check", "a.step"]).code, 0);
}

#[test]
fn completions_know_every_command() {
    let desk = Desk::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let ran = desk.run(&["completions", shell]);
        assert_eq!(ran.code, 0);
        for word in ["check", "explain", "completions", "--deny"] {
            // Fish knows long options without their dashes.
            assert!(ran.out.contains(word.trim_start_matches('-')), "{shell} lacks {word}");
        }
    }
}

#[test]
fn help_has_examples_for_every_command() {
    let desk = Desk::new();
    let help = desk.run(&["--help"]).out;
    let listed =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // What a command does may go on over further lines, which stand further in.
    let commands: Vec<_> = listed
        .filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(commands.len() >= 7, "{help}");
    for command in commands.into_iter().filter(|command| *command != "help") {
        let text = desk.run(&[command, "--help"]).out;
        assert!(
            text.contains("Example") && text.contains(&format!("  stepc {command}")),
            "{command}: {text}"
        );
    }
}

#[test]
fn the_schema_is_printed() {
    let desk = Desk::new();
    let schema: serde_json::Value = serde_json::from_str(&desk.run(&["schema"]).out).unwrap();
    assert_eq!(schema, stepc::report::json_schema());
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference.md");
    assert_eq!(desk.run(&["schema", "--markdown"]).out, std::fs::read_to_string(shipped).unwrap());
}

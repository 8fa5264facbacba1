//! The program as a user runs it: output, files and exit codes, for good and for bad input.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// A folder with a small text, the shipped tokenizer and recipes to try things on.
pub struct Desk {
    folder: TempDir,
}

/// The program under test.
pub const STEPC: &str = env!("CARGO_BIN_EXE_stepc");

/// A recipe that trains in a second; `REPLACE` lets a test spoil one line.
const RECIPE: &str = r#"use "models/step35.step"

recipe small {
  model step35_flash {
    weights = scratch
    vocab = 4096, hidden = 32, layers = 4
    attention full { heads = 2, kv_heads = 1, head_dim = 16 }
    attention sliding { heads = 4, window = 8 }
    mlp dense { inner = 48 }
    moe sparse { experts = 4, top_k = 2, inner = 16, shared { inner = 16 } }
    mtp { layers = 0 }
  }
  cluster cpu { devices = 2 }
  parallel { ep = 2, prefetch = 0, precision { params = f32 } }
  data {
    source text { path = "text.txt" }
    tokenizer = "tokenizer.json"
    sequence  = 32
  }
  train {
    steps = 3, global_batch = 4
    optimizer adamw { lr = 1e-3 }
  }
  checkpoint { dir = "out", every = 3 }
}
"#;

impl Desk {
    pub fn new() -> Desk {
        let folder = TempDir::new().unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data");
        std::fs::copy(root.join("tokenizer.json"), folder.path().join("tokenizer.json")).unwrap();
        let text = std::fs::read_to_string(root.join("persuasion.txt")).unwrap();
        std::fs::write(folder.path().join("text.txt"), &text[..40_000]).unwrap();
        let desk = Desk { folder };
        desk.write("small.step", RECIPE);
        desk
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// The recipe with one text replaced by another.
    pub fn spoil(&self, old: &str, new: &str) {
        assert!(RECIPE.contains(old), "{old}");
        self.write("small.step", &RECIPE.replace(old, new));
    }

    /// The program, about to run here.
    pub fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(self.folder.path()).env("NO_COLOR", "1").env("COLUMNS", "120");
        command
    }

    pub fn stepc(&self, args: &[&str]) -> Run {
        Run::new(self.command(STEPC, args).output().unwrap())
    }

    /// Bad input: exit code 2, the diagnostic's code, its place, words of its text, and no output folder.
    #[track_caller]
    fn refuses(&self, args: &[&str], code: &str, words: &[&str]) {
        let run = self.stepc(args);
        assert_eq!(run.code, Some(2), "{}\n{}", run.out, run.err);
        assert!(run.err.contains(code), "{code} in\n{}", run.err);
        for word in words {
            assert!(run.err.contains(word), "{word} in\n{}", run.err);
        }
        assert!(!self.path("out").exists(), "nothing is written");
    }
}

pub struct Run {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Run {
    pub fn new(output: Output) -> Run {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Run { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

#[test]
fn a_recipe_trains_and_leaves_metrics_and_weights() {
    let desk = Desk::new();
    let run = desk.stepc(&["run", "small.step"]);
    assert_eq!(run.code, Some(0), "{}\n{}", run.out, run.err);
    assert!(run.err.is_empty(), "{}", run.err);
    assert!(run.out.contains("step 3/3") && run.out.contains("done 3 of 3 steps"), "{}", run.out);
    let metrics = std::fs::read_to_string(desk.path("out/metrics.jsonl")).unwrap();
    let lines: Vec<serde_json::Value> = metrics.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    for (line, step) in lines.iter().zip(1..) {
        assert_eq!(line["step"], step);
        assert_eq!(line["tokens"], 128);
        let loss = line["loss"].as_f64().unwrap();
        assert!((7.0..9.0).contains(&loss), "near ln(4096): {loss}");
    }

    // The weights are a checkpoint: a run that starts from them begins where this one ended.
    let resumed = desk.stepc(&["run", "small.step", "--set", "model.weights=\"out\"", "--output", "again"]);
    assert_eq!(resumed.code, Some(0), "{}", resumed.err);
    assert!(resumed.out.contains("weights of ") && resumed.out.contains("rank 0 read "), "{}", resumed.out);
    let again = std::fs::read_to_string(desk.path("again/metrics.jsonl")).unwrap();
    let first: serde_json::Value = serde_json::from_str(again.lines().next().unwrap()).unwrap();
    assert!(first["loss"].as_f64() < lines[0]["loss"].as_f64(), "{again}");
}

#[test]
fn metrics_of_an_earlier_run_are_kept() {
    let desk = Desk::new();
    desk.spoil("  checkpoint { dir = \"out\", every = 3 }\n", "");
    for _ in 0..2 {
        let run = desk.stepc(&["run", "small.step", "--set", "train.steps=1", "--output", "out"]);
        assert_eq!(run.code, Some(0), "{}", run.err);
    }
    assert!(desk.path("out/metrics.1.jsonl").exists());
}

#[test]
fn a_plan_runs_like_its_recipe() {
    let desk = Desk::new();
    let planned = desk.stepc(&["plan", "small.step", "--output", "plan.ron"]);
    assert_eq!(planned.code, Some(0), "{}", planned.err);
    let run = desk.stepc(&["run", "plan.ron", "--output", "a"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert_eq!(desk.stepc(&["run", "small.step", "--output", "b"]).code, Some(0));
    let losses = |folder: &str| -> Vec<f64> {
        let text = std::fs::read_to_string(desk.path(folder).join("metrics.jsonl")).unwrap();
        let lines = text.lines().map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap());
        lines.map(|l| l["loss"].as_f64().unwrap()).collect()
    };
    assert_eq!(losses("a"), losses("b"));
}

#[test]
fn a_plan_that_was_tampered_with_is_refused() {
    let desk = Desk::new();
    assert_eq!(desk.stepc(&["plan", "small.step", "--output", "plan.ron"]).code, Some(0));
    let text = std::fs::read_to_string(desk.path("plan.ron")).unwrap();
    let arena = text.lines().find(|l| l.trim_start().starts_with("arena:")).unwrap();
    desk.write("plan.ron", &text.replace(arena, "    arena: 64,"));
    desk.refuses(&["run", "plan.ron"], "step::plan::invalid", &["plan.ron", "checksum"]);
    desk.write("plan.ron", &text[..text.len() / 2]);
    desk.refuses(&["run", "plan.ron"], "step::plan::invalid", &["plan.ron", "checksum"]);
    desk.write("plan.ron", "(version: 3)");
    desk.refuses(&["run", "plan.ron"], "step::plan::unreadable", &["plan.ron", "not a plan"]);
}

#[test]
fn a_recipe_for_another_machine_takes_its_profile_and_says_so() {
    let desk = Desk::new();
    let cluster =
        "cluster cpu { devices = 2 }\n  parallel { ep = 2, prefetch = 0, precision { params = f32 } }";
    let npus = "cluster atlas_a3 { nodes = 1 }\n  parallel { ep = 4 }";
    desk.write("npu.step", &RECIPE.replace(cluster, npus).replace("global_batch = 4", "global_batch = 16"));
    let text = std::fs::read_to_string(desk.path("npu.step")).unwrap();
    let text =
        text.replace("use \"models/step35.step\"", "use \"models/step35.step\"\nuse \"devices/atlas.step\"");
    desk.write("npu.step", &text);
    desk.refuses(&["run", "npu.step"], "step::run::no_target", &["no ascend_910c", "for cpu"]);

    let profile = format!("  profile laptop for cpu {{ {cluster}\n train {{ global_batch = 4 }} }}\n}}\n");
    desk.write("npu.step", &format!("{}{profile}", text.trim_end().trim_end_matches('}')));
    let run = desk.stepc(&["run", "npu.step", "--set", "train.global_batch=2", "--set", "train.steps=1"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(run.out.contains("no ascend_910c on this machine: running its profile `laptop`"), "{}", run.out);
    assert!(run.out.contains("step 1/1"), "{}", run.out);
}

#[test]
fn bad_input_is_refused_before_anything_is_written() {
    let desk = Desk::new();
    desk.refuses(&["run", "no.step"], "step::recipe::unreadable", &["no.step"]);
    desk.refuses(&["run", "no.ron"], "step::plan::unreadable", &["no.ron"]);

    for (old, new, code, words) in [
        ("steps = 3,", "steps = = 3,", "step::syntax", &["small.step"][..]),
        ("kv_heads = 1", "kv_head = 1", "step::recipe::unknown_key", &["kv_heads"]),
        ("sequence  = 32", "sequence  = 64GiB", "step::value::mismatch", &["sequence", "size"]),
        ("ep = 2,", "ep = 3,", "step::parallel::", &["ep"]),
        ("experts = 4, top_k = 2", "experts = 5, top_k = 2", "step::parallel::ep_experts", &["5", "ep"]),
        ("ep = 2,", "fsdp = 3,", "step::parallel::fsdp_devices", &["3", "2"]),
        ("vocab = 4096", "vocab = 4000", "step::data::vocab", &["4096", "4000", "tokenizer", "vocab"]),
        ("path = \"text.txt\"", "path = \"none/*.txt\"", "step::data::no_files", &["none"]),
        ("tokenizer = \"tokenizer.json\"", "tokenizer = \"no.json\"", "step::data::tokenizer", &["no.json"]),
        ("weights = scratch", "weights = \"nowhere\"", "step::weights::", &["nowhere"]),
    ] {
        desk.spoil(old, new);
        desk.refuses(&["run", "small.step"], code, words);
    }

    desk.spoil("path = \"text.txt\"", "path = \"short.txt\"");
    desk.write("short.txt", "Too short.");
    desk.refuses(&["run", "small.step"], "step::data::too_small", &["32", "sequence"]);
    desk.spoil("path = \"text.txt\"", "path = \"latin1.txt\"");
    std::fs::write(desk.path("latin1.txt"), b"caf\xe9").unwrap();
    desk.refuses(&["run", "small.step"], "step::data::utf8", &["latin1.txt:1:4"]);
}

#[test]
fn a_truncated_checkpoint_is_refused() {
    let desk = Desk::new();
    let weights = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/llama/model.safetensors");
    let bytes = std::fs::read(weights).unwrap();
    std::fs::create_dir(desk.path("hf")).unwrap();
    std::fs::write(desk.path("hf/model.safetensors"), &bytes[..bytes.len() - 1000]).unwrap();
    desk.spoil("weights = scratch", "weights = \"hf\"");
    desk.refuses(&["run", "small.step"], "step::weights::", &["model.safetensors", "small.step"]);
}

#[test]
fn an_output_folder_that_cannot_be_written_is_refused() {
    let desk = Desk::new();
    desk.write("file", "");
    desk.spoil("dir = \"out\"", "dir = \"file/out\"");
    desk.refuses(&["run", "small.step"], "step::output::unwritable", &["file/out", "small.step"]);
}

#[test]
fn a_loss_that_is_no_number_stops_before_the_update() {
    let desk = Desk::new();
    let run = desk.stepc(&["run", "small.step", "--set", "train.optimizer.lr=1e30"]);
    assert_eq!(run.code, Some(2), "{}", run.out);
    assert!(run.err.contains("step::runtime::not_finite") && run.err.contains("step 2"), "{}", run.err);
    assert!(run.err.contains("first in `"), "{}", run.err);
    assert!(!desk.path("out/model.safetensors").exists());
}

#[test]
fn several_mistakes_are_reported_at_once() {
    let desk = Desk::new();
    let text = RECIPE.replace("steps = 3,", "steps = ,").replace("sequence  = 32", "sequence  == 32");
    desk.write("small.step", &text.replace("window = 8 }", "window = }"));
    let run = desk.stepc(&["check", "small.step", "--format", "short"]);
    assert_eq!(run.code, Some(2));
    assert!(run.err.lines().filter(|l| l.contains("error[step::syntax")).count() >= 3, "{}", run.err);
}

#[test]
fn the_shipped_recipes_are_silent() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let desk = Desk::new();
    let mut recipes = vec![root.join("recipes/step35_flash.step"), root.join("benches/laptop.step")];
    for entry in std::fs::read_dir(root.join("examples")).unwrap() {
        recipes.extend(Some(entry.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "step")));
    }
    assert!(recipes.len() >= 4, "{recipes:?}");
    for recipe in recipes {
        let run = desk.stepc(&["check", recipe.to_str().unwrap()]);
        // Fine-tuning begins with what another run leaves behind, which may not have been made yet.
        if recipe.ends_with("sft.step") && run.err.contains("there is no `") {
            assert!(run.code == Some(0) && run.err.ends_with("\n1 warning\n"), "{}", run.err);
            continue;
        }
        assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (Some(0), "", ""), "{}", recipe.display());
    }
}

#[test]
fn a_reader_that_goes_away_does_not_end_the_training() {
    let desk = Desk::new();
    let mut child = Command::new(env!("CARGO_BIN_EXE_stepc"))
        .args(["run", "small.step"])
        .current_dir(desk.folder.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    assert!(desk.path("out/model.safetensors").exists());
}

#[cfg(unix)]
#[test]
fn ctrl_c_stops_behind_the_step() {
    let desk = Desk::new();
    let mut child = Command::new(env!("CARGO_BIN_EXE_stepc"))
        .args(["run", "small.step", "--set", "train.steps=100000"])
        .current_dir(desk.folder.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let metrics = desk.path("out/metrics.jsonl");
    let written = || std::fs::read_to_string(&metrics).unwrap_or_default().lines().count();
    let patience = std::time::Instant::now();
    while written() < 2 && patience.elapsed().as_secs() < 60 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    // Read to the end so that the pipe never fills.
    let out = std::io::read_to_string(child.stdout.take().unwrap()).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{out}");
    assert!(out.contains("stopped"), "{out}");
    let text = std::fs::read_to_string(&metrics).unwrap();
    assert!(
        text.ends_with('\n') && text.lines().all(|l| serde_json::from_str::<serde_json::Value>(l).is_ok())
    );
}

#[test]
fn a_plan_that_does_not_fit_says_what_would() {
    let desk = Desk::new();
    let fits = desk.stepc(&["plan", "small.step"]);
    assert!(fits.err.is_empty() && fits.out.contains("bound by "), "{}\n{}", fits.out, fits.err);
    let set = ["--set", "data.sequence=256Ki", "--set", "train.micro_batch=2"];
    let run = desk.stepc(&[&["plan", "small.step"], &set[..]].concat());
    assert_eq!(run.code, Some(0), "{}", run.err);
    for word in [
        "step::plan::memory",
        "it does not fit",
        "`micro_batch = 1` and `recompute = full` needs",
        "1 warning",
    ] {
        assert!(run.err.contains(word), "{word} in\n{}", run.err);
    }
}

#[test]
fn two_plans_are_compared() {
    let desk = Desk::new();
    assert_eq!(desk.stepc(&["plan", "small.step", "--output", "old.ron"]).code, Some(0));
    let same = desk.stepc(&["plan", "--diff", "old.ron", "small.step"]);
    assert_eq!((same.code, same.out.as_str()), (Some(0), "no difference\n"), "{}", same.err);
    let args = ["plan", "--diff", "old.ron", "small.step", "--set", "parallel.recompute=full"];
    let other = desk.stepc(&args);
    for word in ["recompute", "none → full", "activations", "step", "instructions", "(−", "(+"] {
        assert!(other.out.contains(word), "{word} in\n{}", other.out);
    }
}

#[test]
fn a_plan_is_printed_as_data() {
    let desk = Desk::new();
    let json = desk.stepc(&["plan", "small.step", "--as", "json"]);
    let mut figures: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    let ron = desk.stepc(&["plan", "small.step", "--as", "ron"]);
    desk.write("printed.ron", &ron.out);
    let again = desk.stepc(&["plan", "printed.ron", "--as", "json"]);
    // What is saved against another recipe is not known of a plan alone.
    assert!(figures["saved_by"].take().is_array());
    assert_eq!(serde_json::from_str::<serde_json::Value>(&again.out).unwrap(), figures);
    assert_eq!(figures["mesh"]["ep"], 2);
}

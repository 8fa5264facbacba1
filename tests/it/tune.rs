//! `stepc tune`: what it finds is valid, fits, is the best there is, and is written without touching anything else.

use crate::support::{plan, resolve};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use stepc::model::Model;
use stepc::plan::estimate::{Engine, Question};
use stepc::plan::search::{Candidate, Options, Skeletons, Space, search};
use stepc::plan::{Task, compile};
use tempfile::TempDir;

/// Eight devices, experts on some layers, room for several micro batches.
const RECIPE: &str = r#"use "models/step35.step"

device board: cpu { kind = npu, memory = 12MiB }

/* a comment that stays */
recipe small {
  model step35_flash {
    weights = scratch
    vocab = 1024, hidden = 64, layers = 6
    attention full { heads = 4, kv_heads = 2, head_dim = 16 }
    attention sliding { heads = 4, window = 8 }
    mlp dense { inner = 96 }
    moe sparse { experts = 8, top_k = 2, inner = 64, shared { inner = 32 } }
    mtp { layers = 0 }
  }
  cluster cpu { devices = 8, devices_per_node = 4, nodes = 2, device = board }
  parallel { fsdp = 4, ep = 2, ep_fsdp = 4 }   // not the best there is
  data {
    source text { path = "text.txt" }
    tokenizer = "tokenizer.json"
    sequence  = 128
  }
  train {
    steps = 3, global_batch = 32
    optimizer adamw { lr = 1e-3 }
  }
  //REQUIRE
} // the end
"#;

fn desk() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("small.step");
    std::fs::write(&path, RECIPE).unwrap();
    (folder, path)
}

fn stepc(path: &Path, command: &str, args: &[&str]) -> Output {
    let mut stepc = Command::new(env!("CARGO_BIN_EXE_stepc"));
    stepc.arg(command).arg(path).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn tune_json(path: &Path, args: &[&str]) -> Value {
    let output = stepc(path, "tune", &[&["--as", "json"], args].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The layouts of a report that fit.
fn layouts(report: &Value) -> Vec<&Value> {
    report["layouts"].as_array().unwrap().iter().filter(|layout| !layout["rank"].is_null()).collect()
}

/// A layout as arguments of `--set`.
fn overrides(layout: &Value) -> Vec<String> {
    let fields = layout["fields"].as_object().unwrap();
    fields.iter().map(|(field, value)| format!("{field}={}", value.to_string().trim_matches('"'))).collect()
}

#[test]
fn every_layout_passes_check_and_fits_when_compiled() {
    let (_folder, path) = desk();
    let report = tune_json(&path, &["--headroom", "20%", "--top", "12"]);
    let budget = report["budget"].as_u64().unwrap();
    assert_eq!(budget, (12 << 20) * 8 / 10);
    assert_eq!(
        report["layouts"].as_array().unwrap().iter().filter(|layout| layout["own"] == true).count(),
        1
    );
    assert!(layouts(&report).len() >= 12, "{report:#}");
    for layout in layouts(&report) {
        let set = overrides(layout);
        let args: Vec<&str> = set.iter().flat_map(|set| ["--set", set.as_str()]).collect();
        let check = stepc(&path, "check", &args);
        assert!(check.status.success(), "{}", text(&check.stderr));
        let set: Vec<&str> = set.iter().map(String::as_str).collect();
        let peak = plan(&path, None, &set, Task::Train).memory.peak;
        assert_eq!(layout["peak"].as_u64(), Some(peak), "{set:?}");
        assert!(peak <= budget, "{set:?}: {peak} of {budget}");
    }
}

#[test]
fn the_fastest_stands_first_and_is_always_the_same() {
    let (_folder, path) = desk();
    let report = tune_json(&path, &[]);
    let time = |layout: &Value| layout["step_seconds"].as_f64().unwrap();
    let times: Vec<f64> = report["layouts"].as_array().unwrap().iter().map(time).collect();
    assert!(times.is_sorted(), "{times:?}");
    let own = report["layouts"].as_array().unwrap().iter().find(|layout| layout["own"] == true).unwrap();
    assert!(times[0] < time(own), "the recipe is written not to be the best");
    assert_eq!(report, tune_json(&path, &[]));
    let page = text(&stepc(&path, "tune", &["--top", "3"]).stdout);
    assert!(page.contains("legal") && page.contains("▸") && page.contains("as the recipe has it"), "{page}");
}

#[test]
fn brute_force_finds_no_better_one() {
    let (_folder, path) = desk();
    let recipe = resolve(&path, None, &[]).recipe;
    let model = Model::build(&recipe.model, recipe.parallel.precision.params);
    for headroom in [0.0, 0.3, 0.6] {
        let options = Options { engine: Engine::Native, headroom, top: 1 };
        let found = search(&recipe, options, &mut |c| Some(c.applied(&recipe)), &mut |_, _| {});
        assert!(found.exhaustive);
        let question = Question::new(&recipe, &model, Engine::Native);
        let legal = every_layout(&path);
        assert!(legal.len() > 100, "{}", legal.len());
        let fits =
            |c: &&Candidate| compile(&c.applied(&recipe), None, Task::Train).memory.peak <= found.budget;
        let best = legal.iter().filter(fits).map(|c| c.time(&question).step).fold(f64::INFINITY, f64::min);
        assert_eq!(found.best[0].time.step, best, "{headroom}");
    }
}

/// Layouts by asking the rules about every combination, without the search's own enumeration.
fn every_layout(path: &Path) -> Vec<Candidate> {
    use stepc::base::SourceMap;
    use stepc::base::host::OsHost;
    use stepc::diag::Sink;
    use stepc::recipe::{Recompute, Request, load};
    let own = Candidate::of(&resolve(path, None, &[]).recipe);
    let mut all = Vec::new();
    for (fsdp, ep, ep_fsdp) in
        (1..=8).flat_map(|f| (1..=8).flat_map(move |e| (1..=8).map(move |s| (f, e, s))))
    {
        // Where experts are not divided, they are sharded like everything else.
        let sizes = 8 % fsdp + 8 % (ep * ep_fsdp);
        if sizes > 0 || (ep == 1 && ep_fsdp != fsdp) {
            continue;
        }
        for (micro_batch, recompute) in [1, 2, 4].into_iter().flat_map(|m| [(m, "none"), (m, "full")]) {
            let recompute = Recompute::from_word(recompute).unwrap();
            let layout = Candidate { fsdp, ep, ep_fsdp, micro_batch, recompute, ..own };
            all.extend([0, 1].map(|prefetch| Candidate { prefetch, ..layout }));
        }
    }
    all.retain(|candidate| {
        // The rules are asked once a mesh; the other fields are always legal here.
        if candidate.micro_batch > 1 || candidate.prefetch > 0 {
            return true;
        }
        let request =
            Request { path: path.to_owned(), recipe: None, profile: None, set: candidate.overrides() };
        let (mut sources, mut sink) = (SourceMap::default(), Sink::default());
        let loaded = load(&OsHost, &request, &mut sources, &mut sink).unwrap();
        loaded.resolve(None, &mut sink).is_some()
    });
    all
}

#[test]
fn memory_of_the_skeleton_is_that_of_the_program() {
    for (path, profile, step, error) in [
        ("recipes/step35_flash.step", None, 29, 0.02),
        // f32 throughout: units that are used where they lie; a CPU: rows that depend on `ep`.
        ("recipes/step35_flash.step", Some("laptop"), 1, 0.05),
    ] {
        let recipe = resolve(path, profile, &[]).recipe;
        let model = Model::build(&recipe.model, recipe.parallel.precision.params);
        let space = Space::new(&recipe, &model, Engine::Native);
        let mut skeletons = Skeletons::new(&recipe, &model);
        let mut errors = Vec::new();
        for candidate in space.legal().into_iter().step_by(step) {
            let memory = compile(&candidate.applied(&recipe), profile, Task::Train).memory;
            let live = skeletons.live(&candidate);
            let used: u64 = memory.at_peak.values().sum();
            // Counts of local experts are taken from another mesh.
            assert!(
                live.abs_diff(used) <= 4096 * model.layers.len() as u64,
                "{candidate:?}: {live} of {used}"
            );
            errors.push((memory.peak as f64 - live as f64) / memory.peak as f64);
        }
        errors.sort_by(f64::total_cmp);
        let at = |share: usize| errors[(errors.len() - 1) * share / 100];
        let [median, most] = [at(50), at(100)];
        println!(
            "{} layouts of {path} {profile:?}: {median:.4}, 75% {:.4}, 90% {:.4}, most {most:.4}",
            errors.len(),
            at(75),
            at(90)
        );
        // What is missing is what the arena cannot use between buffers of very different sizes.
        assert!(median <= error && errors[0] >= -0.001, "{median} {most}");
    }
}

#[test]
fn a_requirement_of_the_recipe_is_kept() {
    let (_folder, path) = desk();
    let spoilt = RECIPE.replace("//REQUIRE", "require parallel.ep == 2 else \"two groups\"");
    std::fs::write(&path, spoilt).unwrap();
    let report = tune_json(&path, &["--top", "5"]);
    assert!(report["refused"].as_u64().unwrap() > 0, "{report:#}");
    assert!(layouts(&report).len() >= 5);
    for layout in layouts(&report) {
        assert_eq!(layout["fields"]["parallel.ep"], 2);
    }
}

#[test]
fn the_winner_is_written_and_nothing_else_changes() {
    let (_folder, path) = desk();
    let report = tune_json(&path, &["--write", "fast"]);
    let changed = std::fs::read_to_string(&path).unwrap();
    let (head, tail) = RECIPE.split_at(RECIPE.rfind("} // the end").unwrap());
    let profile = changed.strip_prefix(head).and_then(|rest| rest.strip_suffix(tail)).unwrap();
    assert!(profile.contains("\n  profile fast {\n    parallel { "), "{profile}");
    let winner = overrides(&report["layouts"][0]);
    let winner: Vec<&str> = winner.iter().map(String::as_str).collect();
    let written = resolve(&path, Some("fast"), &[]).recipe;
    assert_eq!(Candidate::of(&written), Candidate::of(&resolve(&path, None, &winner).recipe));
    let check = stepc(&path, "check", &[]);
    assert!(check.status.success(), "{}", text(&check.stderr));

    let refused = [
        (vec!["--write", "fast"], "step::tune::taken"),
        (vec!["--write", "2 fast"], "step::tune::name"),
        (vec!["--write", "faster", "--set", "data.sequence=64"], "step::tune::set"),
    ];
    for (args, code) in refused {
        let output = stepc(&path, "tune", &args);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(code), "{}", text(&output.stderr));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), changed);
    }
    assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left behind");
}

#[test]
fn a_profile_is_the_base_of_the_one_that_is_written() {
    let (_folder, path) = desk();
    std::fs::write(&path, RECIPE.replace("//REQUIRE", "profile short { data { sequence = 64 } }")).unwrap();
    tune_json(&path, &["--profile", "short", "--write", "short_fast"]);
    let written = resolve(&path, Some("short_fast"), &[]).recipe;
    assert_eq!(written.data.sequence, 64);
}

#[test]
fn a_device_that_is_too_small_is_told_what_is_in_the_way() {
    let (_folder, path) = desk();
    std::fs::write(&path, RECIPE.replace("memory = 12MiB", "memory = 200KiB")).unwrap();
    let output = stepc(&path, "tune", &["--write", "fast"]);
    let problem = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    for part in ["step::tune::nothing_fits", "200 KiB", "of which", "parallel.fsdp=8", "memory = 200KiB"] {
        assert!(problem.contains(part), "no {part} in {problem}");
    }
    assert!(!std::fs::read_to_string(&path).unwrap().contains("fast"));
}

#[test]
fn other_engines_are_estimated() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("recipes/step35_flash.step");
    let report = tune_json(&path, &["--engine", "mindspeed", "--headroom", "0.05"]);
    assert_eq!(report["engine"], "mindspeed");
    for layout in layouts(&report) {
        assert_eq!(layout["peak_is_exact"], false);
        assert!(layout["peak"].as_u64() <= report["budget"].as_u64(), "{layout:#}");
    }
    let output = stepc(&path, "tune", &["--set", "parallel.tp=2", "--set", "parallel.fsdp=96"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("step::tune::native"), "{}", text(&output.stderr));
    for wrong in ["-1", "100%", "much"] {
        assert_eq!(stepc(&path, "tune", &["--headroom", wrong]).status.code(), Some(2));
    }
}

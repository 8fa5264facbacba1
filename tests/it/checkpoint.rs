//! Checkpoints as a user meets them: going on, what is refused, what a disk can do to them.

use crate::cli::{Desk, Run, STEPC};
use std::fs;
use std::path::{Path, PathBuf};

/// A desk with a finished run of six steps in `out`: checkpoints behind steps 2, 4 and 6.
pub fn finished() -> Desk {
    let desk = Desk::new();
    desk.spoil("every = 3", "every = 2, keep = 9");
    let run = desk.stepc(&["run", "small.step", "--set", "train.steps=6"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(run.out.contains("checkpoint of step 2: ") && run.out.contains("out/step-000002"), "{}", run.out);
    desk
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Step, loss and norm of every line of the metrics.
pub fn metrics(folder: &Path) -> Vec<String> {
    let text = fs::read_to_string(folder.join("metrics.jsonl")).unwrap();
    let line = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        format!("{} {} {}", value["step"], value["loss"], value["grad_norm"])
    };
    text.lines().map(line).collect()
}

/// Every file below a folder with its bytes.
fn tree(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(tree(&path));
        } else {
            files.push((path.clone(), fs::read(&path).unwrap()));
        }
    }
    files.sort();
    files
}

#[track_caller]
pub fn refused(run: &Run, code: i32, words: &[&str]) {
    assert_eq!(run.code, Some(code), "{}\n{}", run.out, run.err);
    for word in words {
        assert!(run.err.contains(word), "{word} in\n{}", run.err);
    }
}

#[test]
fn a_run_goes_on_where_it_was() {
    let desk = finished();
    // As if the run had been ended behind step 4: later checkpoints and weights are not there, a line is cut off.
    copy(&desk.path("out"), &desk.path("again"));
    fs::remove_dir_all(desk.path("again/step-000006")).unwrap();
    fs::remove_file(desk.path("again/model.safetensors")).unwrap();
    let text = fs::read_to_string(desk.path("again/metrics.jsonl")).unwrap();
    fs::write(desk.path("again/metrics.jsonl"), &text[..text.len() - 20]).unwrap();
    fs::create_dir(desk.path("again/step-000006.unfinished")).unwrap();

    let go_on = ["run", "small.step", "--set", "train.steps=6", "--output", "again", "--resume"];
    let run = desk.stepc(&go_on);
    assert_eq!(run.code, Some(0), "{}", run.err);
    for word in ["going on behind step 4 and 16 sequences", "step-000006.unfinished", "step 5/6", "weights: "]
    {
        assert!(run.out.contains(word), "{word} in\n{}", run.out);
    }
    assert!(!run.out.contains("step 4/6"), "{}", run.out);
    assert_eq!(metrics(&desk.path("out")), metrics(&desk.path("again")));
    let bytes = |folder: &str| fs::read(desk.path(folder).join("model.safetensors")).unwrap();
    assert!(bytes("out") == bytes("again"), "the weights are the same to the bit");

    // Finished and asked to go on, it only makes sure that the weights are there.
    fs::remove_file(desk.path("again/model.safetensors")).unwrap();
    let done = desk.stepc(&go_on);
    assert!(done.code == Some(0) && done.out.contains("all 6 steps are done"), "{}\n{}", done.out, done.err);
    assert!(bytes("out") == bytes("again"));
    // More steps go on from there; by another layout too.
    let more = ["--set", "train.steps=8", "--set", "cluster.devices=1", "--set", "parallel.ep=1"];
    let more = desk.stepc(&[&["run", "small.step", "--output", "again", "--resume"], &more[..]].concat());
    assert_eq!(more.code, Some(0), "{}", more.err);
    assert!(more.out.contains("written by 2 ranks") && more.out.contains("step 8/8"), "{}", more.out);
    assert_eq!(metrics(&desk.path("again")).len(), 8);
}

#[test]
fn nothing_begins_anew_unasked() {
    let desk = finished();
    let before = tree(&desk.path("out"));
    let run = |args: &[&str]| desk.stepc(&[&["run", "small.step"], args].concat());
    refused(
        &run(&[]),
        2,
        &["step::checkpoint::exists", "up to step 6", "--resume", "--output DIR", "small.step:"],
    );
    refused(&run(&["--resume", "out/step-000002"]), 2, &["step::checkpoint::newer", "step-000006"]);
    refused(
        &run(&["--output", "fresh", "--resume"]),
        2,
        &["step::checkpoint::none", "fresh", "--resume PATH"],
    );
    refused(&run(&["--resume", "nowhere"]), 2, &["step::checkpoint::none", "nowhere", "does not exist"]);
    refused(&run(&["--resume", "data"]), 2, &["step::checkpoint::none"]);
    assert!(!desk.path("fresh").exists());
    assert!(before == tree(&desk.path("out")), "nothing was touched");
    // From an older one, in a folder of its own.
    let other = run(&["--resume", "out/step-000002", "--output", "other", "--set", "train.steps=6"]);
    assert_eq!(other.code, Some(0), "{}", other.err);
    assert_eq!(metrics(&desk.path("other")), metrics(&desk.path("out"))[2..]);
}

#[test]
fn only_as_many_are_kept_as_asked_for() {
    let desk = Desk::new();
    desk.spoil("every = 3", "every = 1, keep = 2, weights_every = 2, weights_keep = 1");
    assert_eq!(desk.stepc(&["run", "small.step", "--set", "train.steps=5"]).code, Some(0));
    let names: Vec<_> = fs::read_dir(desk.path("out")).unwrap().map(|e| e.unwrap().file_name()).collect();
    let mut names: Vec<_> = names.iter().filter_map(|name| name.to_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["metrics.jsonl", "model.safetensors", "step-000004", "step-000005", "tokenizer.json"]);
}

#[test]
fn what_is_damaged_is_refused_and_the_other_one_named() {
    let desk = finished();
    let newest = desk.path("out/step-000006");
    let shard = newest.join("rank-00001.safetensors");
    let manifest = newest.join("manifest.ron");
    let resume = || desk.stepc(&["run", "small.step", "--set", "train.steps=8", "--resume"]);
    let export = || desk.stepc(&["export", "hf", "out", "--output", "hf"]);
    let whole = fs::read(&shard).unwrap();
    let text = fs::read_to_string(&manifest).unwrap();

    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    /// What is damaged, how, and words of what is said.
    type Damage<'a> = (&'a str, &'a dyn Fn(), &'a [&'a str]);
    let damage: [Damage; 6] = [
        ("a flipped byte", &|| fs::write(&shard, &flipped).unwrap(), &["damaged", "checksum differs"]),
        (
            "a cut shard",
            &|| fs::write(&shard, &whole[..whole.len() - 9]).unwrap(),
            &["damaged", "were written"],
        ),
        ("a missing shard", &|| fs::remove_file(&shard).unwrap(), &["damaged", "rank-00001", "is missing"]),
        (
            "an edited manifest",
            &|| fs::write(&manifest, text.replacen("step: 6", "step: 7", 1)).unwrap(),
            &["manifest", "checksum differs"],
        ),
        (
            "a cut manifest",
            &|| fs::write(&manifest, &text[..200]).unwrap(),
            &["manifest", "checksum differs"],
        ),
        ("no manifest", &|| fs::remove_file(&manifest).unwrap(), &["none", "holds no `manifest.ron`"]),
    ];
    for (what, damage, words) in damage {
        damage();
        let before = tree(&desk.path("out"));
        for run in [resume(), export()] {
            assert_eq!(run.code, Some(2), "{what}: {}", run.err);
            for word in words {
                assert!(run.err.contains(word), "{what}: {word} in\n{}", run.err);
            }
            if words[0] == "damaged" {
                assert!(run.err.contains("step-000004"), "{what}: {}", run.err);
            }
        }
        assert!(
            before == tree(&desk.path("out")) && !desk.path("hf").exists(),
            "{what}: nothing was touched"
        );
        fs::write(&shard, &whole).unwrap();
        fs::write(&manifest, &text).unwrap();
    }
    // Of another version, whole and with its checksum.
    let (_, body) = text.split_once('\n').unwrap();
    let body = body.trim_end().replacen("version: 2", "version: 1", 1);
    let checksum = stepc::checkpoint::fingerprint(body.as_bytes());
    fs::write(&manifest, format!("// stepc checkpoint, checksum {checksum}\n{body}\n")).unwrap();
    refused(&resume(), 2, &["step::checkpoint::version", "version 1", "version 2"]);
    fs::write(&manifest, &text).unwrap();
    assert_eq!(resume().code, Some(0));
}

#[test]
fn what_has_changed_is_an_error_or_a_warning() {
    let desk = finished();
    let tokenizer = fs::read_to_string(desk.path("tokenizer.json")).unwrap();
    desk.write("other.json", &format!("{tokenizer}\n"));
    let text = fs::read_to_string(desk.path("small.step")).unwrap();
    desk.write("cosine.step", &text.replace("optimizer adamw", "schedule cosine\n    optimizer adamw"));
    let go_on = |recipe: &str, set: &str| {
        let from = ["--resume", "out/step-000006", "--output", "new"];
        desk.stepc(&[&["run", recipe, "--set", "train.steps=7", "--set", set], &from[..]].concat())
    };
    let run = |set: &str| go_on("small.step", set);
    for (set, code, words) in [
        ("model.hidden=64", "model", &["model.embed_tokens.weight", "[4096, 32]"][..]),
        ("model.layers=5", "model", &["model.layers.4"]),
        ("train.seed=1", "seed", &["was 0 and is 1"]),
        ("data.sequence=16", "sequence", &["was 32 and is 16"]),
        ("data.tokenizer=\"other.json\"", "tokenizer", &["its file differs"]),
    ] {
        let run = run(set);
        refused(&run, 2, &[&format!("step::resume::{code}")]);
        words.iter().for_each(|word| assert!(run.err.contains(word), "{word} in\n{}", run.err));
        assert!(!desk.path("new").exists(), "{set}: nothing is written");
    }
    for (set, code) in [
        ("train.optimizer.lr=2e-3", "train"),
        ("train.clip=0.5", "train"),
        ("data.text.weight=2", "data"),
        ("train.global_batch=8", "train"),
        ("model.full.rope.theta=1e6", "architecture"),
    ] {
        let run = run(set);
        assert_eq!(run.code, Some(0), "{set}: {}", run.err);
        assert!(run.err.contains(&format!("step::resume::{code}")), "{set}: {}", run.err);
        fs::remove_dir_all(desk.path("new")).unwrap();
    }
    let cosine = go_on("cosine.step", "train.micro_batch=1");
    let words = ["step::resume::schedule", "`train.steps` was 6 and is 7", "was `constant` and is `cosine`"];
    words.iter().for_each(|word| assert!(cosine.err.contains(word), "{word} in\n{}", cosine.err));
    assert_eq!(cosine.code, Some(0), "{}", cosine.err);
    fs::remove_dir_all(desk.path("new")).unwrap();
    let silent = run("train.micro_batch=2");
    assert_eq!((silent.code, silent.err.as_str()), (Some(0), ""));
}

#[test]
fn other_data_go_on_where_they_can() {
    let desk = finished();
    let text = fs::read_to_string(desk.path("text.txt")).unwrap();
    let recipe = fs::read_to_string(desk.path("small.step")).unwrap();
    desk.write("letters.txt", &text[..9_000]);
    let letters =
        "source text { path = \"text.txt\" }\n    source letters { path = \"letters.txt\", weight = 3 }";
    desk.write("small.step", &recipe.replace("source text { path = \"text.txt\" }", letters));
    let run = |output: &str| {
        let args = ["--set", "train.steps=8", "--resume", "out/step-000006", "--output", output];
        desk.stepc(&[&["run", "small.step"], &args[..]].concat())
    };
    let added = run("added");
    assert_eq!(added.code, Some(0), "{}", added.err);
    for word in ["step::resume::data", "`data.source` was `text` and is `letters, text`", "small.step:"] {
        assert!(added.err.contains(word), "{word} in\n{}", added.err);
    }
    assert!(!added.err.contains("step::data::changed"), "{}", added.err);
    assert!(added.out.contains("going on behind step 6 and 24 sequences"), "{}", added.out);
    assert!(added.out.contains("step 8/8"), "{}", added.out);

    // Written on in the meantime: the one warning has the source, and is told before the first step.
    desk.write("small.step", &recipe);
    desk.write("text.txt", &format!("{text}\n\n\nAnd they lived on."));
    let grown = run("grown");
    assert_eq!(grown.code, Some(0), "{}", grown.err);
    for word in ["step::data::changed", "the files of source `text`", "small.step:", "next pass"] {
        assert!(grown.err.contains(word), "{word} in\n{}", grown.err);
    }
    assert!(!grown.err.contains("step::resume::data"), "{}", grown.err);
}

#[test]
fn weights_alone_are_exported_and_not_gone_on_from() {
    let desk = Desk::new();
    desk.spoil("every = 3", "weights_every = 1");
    assert_eq!(desk.stepc(&["run", "small.step"]).code, Some(0));
    let weights = ["run", "small.step", "--output", "new", "--resume", "out/weights-000002"];
    refused(&desk.stepc(&weights), 2, &["step::resume::weights_only", "step 2"]);
    let export = ["export", "hf", "out/weights-000002", "--output", "hf", "--max-shard-size", "100KB"];
    let run = desk.stepc(&export);
    assert!(run.code == Some(0) && run.out.contains("read again and compared"), "{}\n{}", run.out, run.err);
    refused(&desk.stepc(&export), 2, &["step::output::exists", "hf"]);
    let begun = desk.stepc(&["run", "small.step", "--set", "model.weights=\"hf\"", "--output", "begun"]);
    assert_eq!(begun.code, Some(0), "{}", begun.err);
    let half = ["export", "hf", "out", "-o", "half", "--dtype", "bf16"];
    assert_eq!(desk.stepc(&half).code, Some(0));
    let size = |path: &str| fs::metadata(desk.path(path)).unwrap().len();
    assert!(size("half/model.safetensors") * 2 < size("out/model.safetensors") + 20_000);
}

#[test]
fn two_runs_do_not_share_a_folder() {
    let desk = Desk::new();
    let mut first = desk.command(STEPC, &["run", "small.step", "--set", "train.steps=100000"]);
    let mut first = first.stdout(std::process::Stdio::null()).spawn().unwrap();
    let patience = std::time::Instant::now();
    while !desk.path("out/metrics.jsonl").exists() && patience.elapsed().as_secs() < 60 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let second = desk.stepc(&["run", "small.step"]);
    first.kill().unwrap();
    first.wait().unwrap();
    refused(&second, 2, &["step::checkpoint::busy", "out"]);
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_leaves_a_checkpoint_and_goes_on() {
    for signal in ["-INT", "-TERM"] {
        let desk = Desk::new();
        desk.spoil("every = 3", "every = 100000");
        let long = ["run", "small.step", "--set", "train.steps=100000"];
        let mut child = desk.command(STEPC, &long).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let lines = || fs::read_to_string(desk.path("out/metrics.jsonl")).unwrap_or_default().lines().count();
        let patience = std::time::Instant::now();
        while lines() < 2 && patience.elapsed().as_secs() < 60 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(desk.command("kill", &[signal, &child.id().to_string()]).status().unwrap().success());
        let out = std::io::read_to_string(child.stdout.take().unwrap()).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{out}");
        let kept = stepc::checkpoint::newest(&desk.path("out")).unwrap();
        assert!(out.contains(&format!("`--resume` goes on behind step {}", kept.step)), "{out}");
        assert_eq!(kept.step as usize, lines());
        let steps = format!("train.steps={}", kept.step + 2);
        let again = desk.stepc(&["run", "small.step", "--resume", "--set", &steps]);
        assert_eq!(again.code, Some(0), "{}", again.err);
        assert_eq!(lines(), kept.step as usize + 2);
    }
}

//! `stepc new`: every model of the library and every family of configurations gives a recipe that passes its own check.

use crate::command::Desk;
use crate::support::snapshot;
use std::path::Path;

fn golden(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name).join("config.json");
    std::fs::read_to_string(path).unwrap()
}

#[track_caller]
fn passes(desk: &Desk, file: &str, set: &[&str]) {
    let check = [&["check", file, "--deny", "warnings"][..], set].concat();
    for command in [&check[..], &["fmt", "--check", file]] {
        let ran = desk.run(command);
        assert_eq!(
            (ran.code, ran.err.as_str()),
            (0, ""),
            "{command:?}\n{}",
            std::fs::read_to_string(desk.path(file)).unwrap()
        );
    }
}

#[test]
fn every_model_of_the_library_gives_a_recipe() {
    let desk = Desk::new();
    let list = desk.run(&["new", "--list"]);
    let names: Vec<_> = list.out.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.contains(&"step35_flash") && names.len() >= 4, "{}", list.out);
    for name in names {
        let ran = desk.run(&["new", name]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{name}");
        passes(&desk, &format!("{name}.step"), &[]);
        let text = std::fs::read_to_string(desk.path(&format!("{name}.step"))).unwrap();
        assert!(text.contains("for cpu {") && text.lines().filter(|line| line.contains("//")).count() > 8);
    }
}

#[test]
fn recipes_as_they_are_written() {
    let desk = Desk::new();
    for (name, folder) in [("llama", "llama"), ("qwen3_moe", "qwen3_moe"), ("step35", "step35")] {
        desk.write(&format!("{folder}/config.json"), &golden(name));
        let weights = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
        std::fs::copy(weights.join("model.safetensors"), desk.path(folder).join("model.safetensors"))
            .unwrap();
        let ran = desk.run(&["new", folder]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{name}");
        // Models of this size have shards of a few bytes on a whole node, which is worth a warning.
        passes(&desk, &format!("{folder}.step"), &["--set", "parallel.fsdp=2"]);
        let text = std::fs::read_to_string(desk.path(&format!("{folder}.step"))).unwrap();
        snapshot(&format!("new_{name}"), &text);
    }
    assert_eq!(desk.run(&["new", "mine", "--model", "step35_flash", "--output", "deep.step"]).code, 0);
    snapshot("new_library", &std::fs::read_to_string(desk.path("deep.step")).unwrap());
}

/// What a configuration says arrives in the model.
#[test]
fn sizes_arrive() {
    let desk = Desk::new();
    desk.write("tiny/config.json", &golden("step35"));
    assert_eq!(desk.run(&["new", "tiny"]).code, 0);
    let value = |path: &str| {
        let out = desk.run(&["check", "tiny.step", "--why", path]).out;
        out.lines().next().unwrap_or_default().to_owned()
    };
    for wanted in [
        "model.vocab = 512",
        "model.hidden = 64",
        "model.layers = 6",
        "model.norm.offset = 1.0",
        "model.attention.full.heads = 4",
        "model.attention.sliding.heads = 6",
        "model.attention.sliding.window = 16",
        "model.attention.full.rope.fraction = 0.5",
        "model.attention.full.rope.scaling.factor = 2.0",
        "model.moe.sparse.shared.inner = 40",
        "model.moe.sparse.router.scale = 3.0",
    ] {
        let (path, _) = wanted.split_once(" = ").unwrap();
        assert_eq!(value(path), wanted);
    }
}

#[test]
fn what_is_no_model_is_refused() {
    let desk = Desk::new();
    desk.write("broken/config.json", "{ \"model_type\": ");
    desk.write("empty/nothing.txt", "");
    let seen =
        desk.session(&[&["new", "broken"], &["new", "empty"], &["new", "step35_flahs"], &["new", "zebra"]]);
    snapshot("new_refused", &seen);
    assert!(!desk.path("broken.step").exists(), "it was written");
}

#[test]
fn nothing_is_overwritten() {
    let desk = Desk::new();
    desk.write("llama3_8b.step", "mine");
    snapshot(
        "new_exists",
        &desk.session(&[&["new", "llama3_8b"], &["new", "llama3_8b", "--output", "no/such/folder.step"]]),
    );
    assert_eq!(std::fs::read_to_string(desk.path("llama3_8b.step")).unwrap(), "mine");
}

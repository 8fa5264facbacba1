//! A real editor drives the server: Neovim, with the plugin of this repository and no other.

use crate::lsp::client::desk;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Has Neovim do `acts` of `neovim.lua` on a copy of the small recipe, and gives what it reports of them in their order.
/// `None` where there is no Neovim.
fn session(acts: &str, prepare: impl FnOnce(&Path)) -> Option<Vec<(String, Value)>> {
    if Command::new("nvim").arg("--version").output().is_err() {
        eprintln!("skipped: nvim is not installed");
        return None;
    }
    let home = TempDir::new().unwrap();
    let desk = desk();
    prepare(home.path());
    let output = Command::new("nvim")
        .args(["--headless", "--clean", "-n", "-c", "filetype plugin on"])
        .arg("--cmd")
        .arg(format!("set runtimepath^={},{}", root().join("editors/nvim").display(), home.path().display()))
        .arg("-c")
        .arg(format!("luafile {}", root().join("tests/it/neovim.lua").display()))
        .envs([("STEPC", env!("CARGO_BIN_EXE_stepc")), ("ACTS", acts)])
        .env("FOLDER", desk.path())
        .env("XDG_STATE_HOME", home.path())
        .env("XDG_CACHE_HOME", home.path())
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    let reports = out.lines().map(|line| {
        let report: serde_json::Map<String, Value> = serde_json::from_str(line).unwrap();
        report.into_iter().next().unwrap()
    });
    Some(reports.collect())
}

/// The lines of a report.
fn lines(report: &Value) -> Vec<&str> {
    report.as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect()
}

#[test]
fn a_mistake_is_shown_and_mended_and_a_recipe_laid_out_and_renamed() {
    let Some(reports) = session("open mistype mend format rename", |_| {}) else { return };
    let names: Vec<_> = reports.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["open", "problems", "choices", "mended", "formatted", "renamed"]);
    let report = |name: &str| &reports.iter().find(|(found, _)| found == name).unwrap().1;

    assert_eq!(report("open")["filetype"], "step");
    assert_eq!(report("open")["comment"], "// %s");
    let problem = &report("problems")[0];
    assert_eq!(problem["code"], "step::recipe::unknown_key");
    assert_eq!((&problem["column"], &problem["ends"]), (&4.into(), &16.into()));
    assert!(problem["text"].as_str().unwrap().contains("global_bacth"));
    assert!(lines(report("choices"))[0].contains("`global_batch`"), "{reports:?}");
    assert_eq!(report("mended")["line"], "    global_batch = 8 // größer 🚀");
    let formatted = lines(report("formatted"));
    assert!(formatted.contains(&"    let long = 10, steps = long * 1"), "{formatted:#?}");
    let renamed = lines(report("renamed"));
    assert!(renamed.contains(&"    let how_long = 10, steps = how_long * 1"), "{renamed:#?}");
}

#[test]
fn a_recipe_has_an_outline_lenses_the_page_of_its_plan_and_the_library_behind_it() {
    let Some(reports) = session("open outline hover complete lenses plan library", |_| {}) else { return };
    let report = |name: &str| &reports.iter().find(|(found, _)| found == name).unwrap().1;
    assert_eq!(lines(report("outline")).len(), 2, "{reports:?}");
    assert_eq!(lines(report("lenses")), ["Check", "Plan", "Run", "Open plan"]);
    assert!(report("plan")["page"].as_str().unwrap().to_lowercase().starts_with("<!doctype html>"));
    assert!(lines(report("hover")).concat().contains("train.global_batch"), "{reports:?}");
    assert!(lines(report("completions")).contains(&"micro_batch"), "{reports:?}");
    let library = report("library");
    assert!(library["name"].as_str().unwrap().ends_with("step-library:/models/llama.step"), "{library}");
    assert!(library["lines"].as_u64() > Some(5) && library["changes"] == false, "{library}");
}

#[test]
fn neovim_colours_a_recipe_with_the_grammar() {
    let compile = |home: &Path| {
        let source = root().join("editors/tree-sitter-step/src");
        std::fs::create_dir(home.join("parser")).unwrap();
        let files: [PathBuf; 2] = ["parser.c", "scanner.c"].map(|file| source.join(file));
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1"]).arg(format!("-I{}", source.display())).args(files);
        let status = compiler.arg("-o").arg(home.join("parser/step.so")).status();
        assert!(status.unwrap().success());
    };
    let Some(reports) = session("open colours", compile) else { return };
    let names = lines(&reports[1].1);
    for name in ["comment", "label", "number", "property", "type", "variable"] {
        assert!(names.contains(&name), "{names:?}");
    }
}

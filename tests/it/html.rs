//! The page of a plan in a real browser: it draws without an error, and its numbers are those of `--as json`.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const CHROMIUM: &str = "/usr/bin/chromium";
const FLAGSHIP: &str = "recipes/step35_flash.step";

fn stepc(args: &[&str]) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let run = Command::new(env!("CARGO_BIN_EXE_stepc")).args(args).current_dir(root).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap()
}

fn page(folder: &TempDir, recipe: &[&str]) -> PathBuf {
    let path = folder.path().join("plan.html");
    stepc(&[&["plan", "--html", path.to_str().unwrap()], recipe].concat());
    path
}

/// The document after its script has run, and what the browser has to say.
fn render(folder: &TempDir, page: &Path) -> (String, String) {
    let output = Command::new(CHROMIUM)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", "--virtual-time-budget=5000"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--no-first-run", "--disable-default-apps", "--enable-logging=stderr"])
        .arg(format!("--user-data-dir={}", folder.path().join("browser").display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// The number in `data-value` of the element that `mark` stands in.
fn shown(dom: &str, mark: &str) -> f64 {
    let at = dom.find(mark).unwrap_or_else(|| panic!("{mark} is on the page"));
    let rest = &dom[at..];
    let value = rest.split("data-value=\"").nth(1).and_then(|rest| rest.split('"').next());
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{mark} has a number"))
}

#[test]
fn a_page_is_small_and_needs_nothing_else() {
    let folder = TempDir::new().unwrap();
    let text = std::fs::read_to_string(page(&folder, &[FLAGSHIP])).unwrap();
    assert!(text.len() < 2_000_000, "{} bytes", text.len());
    assert!(!text.contains("{{"), "every place of the template is filled");
    for outside in ["http://", "https://", "src=", "@import", "<link"] {
        assert!(!text.contains(outside), "{outside}");
    }
}

/// Compiled plans, and estimates of another engine and of a layout that is not run.
const RECIPES: [&[&str]; 5] = [
    &[FLAGSHIP],
    &[FLAGSHIP, "--profile", "laptop"],
    &["examples/llama.step"],
    &[FLAGSHIP, "--engine", "mindspeed"],
    &[FLAGSHIP, "--set", "parallel.tp=2", "--set", "parallel.fsdp=96", "--set", "train.global_batch=96"],
];

#[test]
fn a_browser_draws_the_numbers_of_the_json() {
    if !Path::new(CHROMIUM).exists() {
        eprintln!("skipped: {CHROMIUM} is not installed");
        return;
    }
    for recipe in RECIPES {
        let folder = TempDir::new().unwrap();
        let (dom, said) = render(&folder, &page(&folder, recipe));
        assert!(!said.contains(":CONSOLE"), "{said}");
        assert!(dom.contains("data-ready=\"1\"") && !dom.contains("data-failed"), "{said}");

        let json = stepc(&[&["plan", "--as", "json"], recipe].concat());
        let json: Value = serde_json::from_str(&json).unwrap();
        let number = |pointer: &str| json.pointer(pointer).and_then(Value::as_f64).unwrap();
        let tiles = [
            ("peak", "/memory/peak"),
            ("step", "/time/step"),
            ("tokens", "/time/tokens_per_second_device"),
            ("mfu", "/time/mfu"),
            ("exposed", "/time/exposed"),
            ("held", "/parameters/held_by_a_rank"),
        ];
        for (tile, pointer) in tiles {
            assert_eq!(shown(&dom, &format!("id=\"tile-{tile}\"")), number(pointer), "{tile}");
        }
        for (word, bytes) in json["memory"]["at_peak"].as_object().unwrap() {
            assert_eq!(shown(&dom, &format!("data-name=\"{word}\"")), bytes.as_f64().unwrap(), "{word}");
        }
        for (word, seconds) in json["time"]["spent"].as_object().unwrap() {
            assert_eq!(shown(&dom, &format!("data-name=\"{word}\"")), seconds.as_f64().unwrap(), "{word}");
        }
        for row in json["saved_by"].as_array().unwrap() {
            let name = format!("{} {}", row["by"].as_str().unwrap(), row["of"].as_str().unwrap());
            assert_eq!(shown(&dom, &format!("data-saved=\"{name}\"")), row["from"].as_f64().unwrap());
            assert_eq!(shown(&dom, &format!("data-saved-to=\"{name}\"")), row["to"].as_f64().unwrap());
        }
        let estimated = json["basis"] == "estimate";
        assert_eq!(estimated, !dom.contains("id=\"canvas\""), "only a program has a Gantt chart");
        if estimated {
            for moment in json["memory"]["moments"].as_array().unwrap() {
                let mark = format!("data-moment=\"{}\"", moment["moment"].as_str().unwrap());
                assert_eq!(shown(&dom, &mark), moment["bytes"].as_f64().unwrap());
            }
            assert!(dom.contains("published measurements"));
            continue;
        }
        let tensors = json["parameters"]["tensors"].as_u64().unwrap();
        assert!(tensors > 0 && dom.contains(" parameters in "), "ranks are shown");
    }
}

//! Failures of real launches, as recipes: each fixture of `tests/cases` says in its first lines what `stepc` must say of
//! it, and `cases.tsv` says which failure each is about.
//!
//! ```text
//! // error step::parallel::ep_devices at `ep = 8`      severity, code, the characters pointed at
//! //   help `ep` must divide 12                       a part of the help
//! // ok                                               or nothing may be said at all
//! // run plan                                         with `stepc plan` in place of `stepc check`; also `data preview`
//! ```

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Command, Output};

/// What a fixture expects to be told.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    severity: String,
    code: String,
    at: Option<String>,
    help: Option<String>,
}

struct Fixture {
    name: String,
    command: String,
    expected: Vec<Told>,
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/cases")
}

fn fixtures() -> Vec<Fixture> {
    let entries = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "step")).collect();
    paths.sort();
    paths.iter().map(|path| fixture(path)).collect()
}

fn fixture(path: &std::path::Path) -> Fixture {
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let text = std::fs::read_to_string(path).unwrap();
    let (mut command, mut expected, mut ok) = ("check".to_owned(), Vec::<Told>::new(), false);
    let lines = text.trim_start_matches('\u{feff}').lines();
    for line in lines.map_while(|line| line.strip_prefix("// ")) {
        if let Some(help) = line.strip_prefix("  help ") {
            expected.last_mut().unwrap_or_else(|| panic!("{name}: help of what?")).help = Some(help.into());
            continue;
        }
        match line.split_once(' ') {
            Some(("run", word)) => command = word.into(),
            Some((severity @ ("error" | "warning"), rest)) => {
                let (code, at) = match rest.split_once(" at `") {
                    Some((code, at)) => (code, at.strip_suffix('`').map(str::to_owned)),
                    None => (rest, None),
                };
                expected.push(Told { severity: severity.into(), code: code.into(), at, help: None });
            }
            None if line == "ok" => ok = true,
            _ => panic!("{name}: what does `{line}` expect?"),
        }
    }
    assert!(ok == expected.is_empty(), "{name}: says neither `ok` nor what goes wrong, or both");
    Fixture { name, command, expected }
}

fn stepc(fixture: &Fixture, format: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stepc"));
    command.current_dir(folder()).args(fixture.command.split(' '));
    command.args([&fixture.name, "--color", "never", "--format", format]);
    command.env("COLUMNS", "100").output().unwrap()
}

/// The characters of the place of a diagnostic, which lies on one line; none where there is no place.
fn characters(place: &Value) -> String {
    let Some(path) = place["path"].as_str() else { return String::new() };
    let text = std::fs::read_to_string(folder().join(path)).unwrap();
    let number = |value: &Value| value.as_u64().unwrap() as usize;
    let line = text.lines().nth(number(&place["line"]) - 1).unwrap();
    let (start, end) = (number(&place["column"]) - 1, number(&place["end"]["column"]) - 1);
    line.chars().skip(start).take(end.saturating_sub(start)).collect()
}

#[test]
fn every_fixture_is_told_what_it_expects() {
    let (mut wrong, mut shown) = (String::new(), String::new());
    for fixture in fixtures() {
        let output = stepc(&fixture, "json");
        let said = String::from_utf8(output.stderr).unwrap();
        let found: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let matches = found.len() == fixture.expected.len()
            && found.iter().zip(&fixture.expected).all(|(found, expected)| {
                found["severity"] == expected.severity.as_str()
                    && found["code"] == expected.code.as_str()
                    && expected.at.as_ref().is_none_or(|at| characters(found) == *at)
                    && expected
                        .help
                        .as_ref()
                        .is_none_or(|help| found["help"].as_str().unwrap_or("").contains(help))
            });
        let errors = fixture.expected.iter().any(|told| told.severity == "error");
        if !matches || output.status.code() != Some(if errors { 2 } else { 0 }) {
            wrong += &format!("{}: {:?}\n{said}\n", fixture.name, fixture.expected);
        }
        if !found.is_empty() {
            let told = String::from_utf8(stepc(&fixture, "human").stderr).unwrap();
            shown += &format!("#### {}\n{told}\n", fixture.name);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    insta::assert_snapshot!("cases", shown);
}

/// The lines of `cases.tsv` without its head: case, class, fixture, what is expected, title, where it was reported.
fn table() -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(folder().join("cases.tsv")).unwrap();
    let lines = text.lines().skip(1).map(|line| line.split('\t').map(str::to_owned).collect::<Vec<_>>());
    lines.inspect(|line| assert_eq!(line.len(), 6, "{line:?}")).collect()
}

#[test]
fn the_table_says_what_the_fixtures_say() {
    let expected: BTreeMap<String, String> = fixtures()
        .into_iter()
        .map(|fixture| {
            let codes: Vec<_> = fixture.expected.into_iter().map(|told| told.code).collect();
            (fixture.name, if codes.is_empty() { "ok".to_owned() } else { codes.join(" ") })
        })
        .collect();
    let mut named = BTreeSet::new();
    for row in table() {
        let (fixture, code) = (&row[2], &row[3]);
        if fixture == "-" {
            assert!(code.starts_with("elsewhere: "), "{row:?}");
        } else {
            assert_eq!(expected.get(fixture), Some(code), "{row:?}");
            named.insert(fixture.clone());
        }
    }
    let unnamed: Vec<_> = expected.keys().filter(|name| !named.contains(*name)).collect();
    assert!(unnamed.is_empty(), "in no line of the table: {unnamed:?}");
}

#[test]
fn no_case_is_left_out() {
    let rows = table();
    let cases: BTreeSet<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    for number in 1..=125 {
        assert!(cases.contains(format!("D{number:03}").as_str()), "D{number:03} is missing");
    }
    // A launch that was refused without cause is a failure as well: legal recipes must pass.
    let legal = rows.iter().filter(|row| row[1] == "a" && row[3] == "ok").count();
    assert!(legal >= 10, "{legal} legal cases of class a");
}

#[test]
fn the_cpu_engine_refuses_what_it_does_not_run() {
    let fields = [
        ("parallel.cp", &["parallel.cp=2", "parallel.cp_kind=ring", "cluster.devices=2"][..]),
        ("parallel.pp", &["parallel.pp=2", "cluster.devices=2", "train.global_batch=8"]),
        ("parallel.tp", &["parallel.tp=2", "cluster.devices=2", "model.full.kv_heads=2"]),
    ];
    let output = tempfile::tempdir().unwrap();
    let metrics = output.path().join("run");
    for (field, set) in fields {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stepc"));
        command
            .current_dir(folder())
            .args(["run", "D106-scratch.step", "--format", "json", "--output"])
            .arg(&metrics);
        for set in set {
            command.args(["--set", set]);
        }
        let ran = command.output().unwrap();
        let said = String::from_utf8(ran.stderr).unwrap();
        let key = field.rsplit('.').next().unwrap();
        assert_eq!(ran.status.code(), Some(2), "{field}: {said}");
        let refused =
            said.lines().filter(|line| line.contains("\"step::run::unsupported\"")).collect::<Vec<_>>();
        assert!(refused.len() == 1 && refused[0].contains(&format!("`{key}`")), "{field}: {said}");
        assert!(!metrics.exists(), "{field}: something was written");
    }
}

#[test]
fn numbers_too_large_to_be_meant_are_refused_and_not_multiplied() {
    let huge = "9000000000000000000";
    let fields = [
        "model.vocab",
        "model.hidden",
        "model.full.heads",
        "model.full.head_dim",
        "model.sparse.inner",
        "model.sparse.experts",
        "model.sparse.top_k",
        "train.global_batch",
        "train.steps",
        "parallel.ep",
        "parallel.ep_fsdp",
        "parallel.fsdp",
    ];
    for field in fields {
        for command in ["check", "plan"] {
            let mut stepc = Command::new(env!("CARGO_BIN_EXE_stepc"));
            let set = format!("{field}={huge}");
            stepc.current_dir(folder()).args([command, "D001-micro-batch-tp-2.step", "--set", &set]);
            let ran = stepc.output().unwrap();
            assert_eq!(
                ran.status.code(),
                Some(2),
                "{command} {set}: {}",
                String::from_utf8_lossy(&ran.stderr)
            );
        }
    }
}

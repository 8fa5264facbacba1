//! The catalogue against the code: every code has a page, every page a code, and every example does what it claims.

use crate::examples::Example;
use crate::support::{snapshot, style};
use std::collections::BTreeSet;
use std::path::Path;
use stepc::diag::catalogue::{AREAS, Found, Page, find, pages};
use stepc::diag::render;

/// Areas whose problems show only with files, machines or commands that no recipe holds.
const OUTSIDE: &[&str] = &[
    "checkpoint",
    "comm",
    "explain",
    "export",
    "fmt",
    "new",
    "output",
    "plan",
    "precision",
    "resume",
    "run",
    "runtime",
    "tune",
    "weights",
    "why",
];

fn examples(page: &Page) -> Vec<Example<'static>> {
    Example::all(page.text)
}

/// The codes that an example reports, and how.
fn run(page: &Page, example: &Example<'_>) -> (BTreeSet<&'static str>, String) {
    let (found, sources) = example.check(&examples(page));
    let said = render::render(&found, &sources, render::Format::Human, style());
    (found.iter().map(|d| d.code).collect(), said)
}

#[test]
fn every_example_does_what_it_claims() {
    for page in pages() {
        for example in examples(page).iter().filter(|example| example.option("file=").is_none()) {
            let (codes, said) = run(page, example);
            if example.is("fails") {
                assert_eq!(codes, BTreeSet::from([page.code]), "{}: {said}", page.code);
            } else {
                assert!(example.is("works"), "{}: fails or works?", page.code);
                assert!(codes.is_empty(), "{}: {said}", page.code);
            }
        }
    }
}

/// Every page fails and works, or says when it happens.
#[test]
fn every_page_is_complete() {
    for area in AREAS {
        for page in area.pages {
            let found = examples(page);
            let has = |word| found.iter().filter(|example| example.is(word)).count() == 1;
            let happens = page.text.contains("\n## When it happens\n\n");
            assert!(page.text.starts_with("# ") && page.text.len() > 150, "{} says little", page.code);
            assert!(has("fails") == has("works") && has("fails") != happens, "{}", page.code);
            assert!(!OUTSIDE.contains(&area.name) || happens, "{} cannot have an example", page.code);
            let longest = page.text.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(longest <= 130, "{} has lines of {longest} characters", page.code);
        }
    }
}

#[test]
fn every_code_has_a_page_and_every_page_a_code() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut used = BTreeSet::new();
    collect(&src, &mut used);
    let known: BTreeSet<String> = pages().map(|page| page.code.to_owned()).collect();
    let missing: Vec<_> = used.difference(&known).collect();
    assert!(missing.is_empty(), "codes without a page in docs/errors and a line in pages.rs: {missing:?}");
    let idle: Vec<_> = known.difference(&used).collect();
    assert!(idle.is_empty(), "pages that no code leads to: {idle:?}");
}

/// Every literal `"step::area::name"` below a folder.
fn collect(folder: &Path, codes: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, codes);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            for rest in text.split("\"step::").skip(1) {
                let code = rest.split('"').next().unwrap();
                let plain =
                    code.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_:".contains(c));
                if plain && code.matches("::").count() == 1 && !code.ends_with(':') {
                    codes.insert(format!("step::{code}"));
                }
            }
        }
    }
}

/// What users see of every failing example, an area a file.
#[test]
fn failing_examples_as_users_see_them() {
    for area in AREAS {
        let mut out = String::new();
        for page in area.pages {
            for example in examples(page).iter().filter(|example| example.is("fails")) {
                out += &format!("{}\n\n", run(page, example).1.trim_end());
            }
        }
        if !out.is_empty() {
            snapshot(&format!("explain_{}", area.name), &out);
        }
    }
}

#[test]
fn pages_are_found_by_what_is_typed() {
    let code = |name| match find(name) {
        Ok(Found::Page(page)) => page.code.to_owned(),
        Ok(Found::Area(area)) => format!("all of {}", area.name),
        Err(problem) => format!("{}: {}", problem.message, problem.help.unwrap_or_default()),
    };
    assert_eq!(code("step::parallel::ep_experts"), "step::parallel::ep_experts");
    assert_eq!(code("parallel::ep_experts"), "step::parallel::ep_experts");
    assert_eq!(code("ep_experts"), "step::parallel::ep_experts");
    assert_eq!(code("parallel"), "all of parallel");
    assert_eq!(code("step::data::"), "all of data");
    assert_eq!(code("ep_expert"), "there is no code `ep_expert`: did you mean `ep_experts`?");
    assert_eq!(
        code("step::paralel::ep_experts"),
        "there is no code `step::paralel::ep_experts`: did you mean `step::parallel::ep_experts`?"
    );
    assert_eq!(code("nonsense"), "there is no code `nonsense`: `stepc explain` lists all codes");
    assert_eq!(
        code("too_deep"),
        "several codes end in `too_deep`: choose one of `step::syntax::too_deep`, `step::value::too_deep`"
    );
}

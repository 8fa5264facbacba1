//! Diagnostics for other programs: SARIF for code scanning, workflow commands for GitHub Actions.

use crate::command::Desk;
use crate::support::snapshot;
use serde_json::Value;

const BROKEN: &str = "\
use \"small.step\"
let idle = 1
recipe example: small {
  train { step = 10 }
  parallel { ep = 3 }
  require 1 == 2 else \"100%: never,\\nnot here\"
}
";

fn sarif(desk: &Desk, file: &str) -> Value {
    let ran = desk.run(&["check", file, "--format", "sarif"]);
    assert_eq!(ran.err, "", "standard output holds it all");
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {}", ran.out))
}

#[test]
fn sarif_has_what_the_standard_demands() {
    let desk = Desk::new();
    desk.write("a b.step", BROKEN);
    let document = sarif(&desk, "a b.step");
    assert_eq!(document["version"], "2.1.0");
    let run = &document["runs"][0];
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    let results = run["results"].as_array().unwrap();
    assert!(results.len() >= 3, "{document:#}");
    for result in results {
        let rule = &rules[result["ruleIndex"].as_u64().unwrap() as usize];
        assert_eq!(rule["id"], result["ruleId"]);
        assert!(rule["shortDescription"]["text"].as_str().unwrap().len() > 10);
        assert!(["error", "warning"].contains(&result["level"].as_str().unwrap()));
        assert!(!result["message"]["text"].as_str().unwrap().is_empty());
        for location in result["locations"].as_array().unwrap() {
            let place = &location["physicalLocation"];
            assert!(
                ["a%20b.step", "small.step"].contains(&place["artifactLocation"]["uri"].as_str().unwrap())
            );
            let part = |key: &str| place["region"][key].as_u64().unwrap();
            assert!(part("startLine") >= 1 && part("startColumn") >= 1);
            assert!((part("endLine"), part("endColumn")) >= (part("startLine"), part("startColumn")));
        }
    }
    let fixed = results.iter().find(|result| result["ruleId"] == "step::recipe::unknown_key").unwrap();
    let replaced = &fixed["fixes"][0]["artifactChanges"][0]["replacements"][0];
    assert_eq!(replaced["insertedContent"]["text"], "steps");
    assert_eq!(replaced["deletedRegion"]["startColumn"], 11);
}

#[test]
fn sarif_of_nothing_is_a_document_too() {
    let desk = Desk::new();
    let document = sarif(&desk, "small.step");
    assert_eq!(document["runs"][0]["results"], Value::Array(Vec::new()));
    let ran = desk.run(&["plan", "small.step", "--format", "sarif"]);
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &document["version"]), (0, &Value::from("2.1.0")));
    assert!(ran.err.contains("small"), "the page stands beside it: {}", ran.err);
}

#[test]
fn machine_formats_as_they_are_written() {
    let desk = Desk::new();
    desk.write("a.step", BROKEN);
    desk.write("b.step", &BROKEN.replace("step = 10", "steps = 10").replace("ep = 3", "ep = 2"));
    snapshot(
        "formats",
        &desk.session(&[
            &["check", "a.step", "--format", "github"],
            &["check", "b.step", "--format", "github"],
            &["check", "b.step", "--format", "short"],
            &["check", "b.step", "--format", "json"],
            &["check", "missing.step", "--format", "github"],
        ]),
    );
}

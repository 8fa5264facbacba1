//! What fuzzing has found stays mended: every input of `tests/fixtures/fuzz` holds the claims of all targets.

#[path = "../../fuzz/fuzz_targets/claims.rs"]
mod claims;

use std::path::Path;

#[test]
fn fuzz_findings_stay_mended() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/fuzz");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = String::from_utf8(std::fs::read(&path).unwrap()).unwrap();
        println!("{}", path.display());
        claims::parser(&text);
        claims::evaluator(&text);
        claims::formatter(&text);
        seen += 1;
    }
    assert!(seen > 0, "the inputs are found");
}

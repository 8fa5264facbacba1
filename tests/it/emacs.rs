//! Emacs: colours, indentation, and a session with the server through Eglot where that is installed.

use std::path::Path;
use std::process::Command;

#[test]
fn the_mode_of_emacs_passes_its_tests() {
    if Command::new("emacs").arg("--version").output().is_err() {
        eprintln!("skipped: emacs is not installed");
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new("emacs")
        .args(["-Q", "--batch", "-L", "editors/emacs", "-l", "editors/emacs/step-mode-tests.el"])
        .args(["-f", "ert-run-tests-batch-and-exit"])
        .env("STEPC", env!("CARGO_BIN_EXE_stepc"))
        .current_dir(root)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

//! The layers of the program: a module imports only what stands below it.

use std::path::Path;

/// Who may import whom; `src/lib.rs` shows the same list to readers.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("diag", &["base"]),
    ("syntax", &["base", "diag"]),
    ("recipe", &["base", "diag", "syntax"]),
    ("model", &["base", "recipe"]),
    ("plan", &["base", "diag", "recipe", "model"]),
    ("kernels", &["base"]),
    ("comm", &["base", "diag"]),
    ("data", &["base", "diag"]),
    ("weights", &["base", "diag"]),
    ("import", &["base", "diag", "syntax", "recipe", "weights"]),
    ("check", &["base", "diag", "recipe", "model", "plan", "weights"]),
    ("checkpoint", &["base", "diag", "recipe", "model", "plan", "data", "weights"]),
    (
        "runtime",
        &["base", "diag", "recipe", "model", "plan", "kernels", "comm", "data", "weights", "checkpoint"],
    ),
    ("report", &["base", "diag", "recipe", "model", "plan", "checkpoint", "runtime"]),
    ("lsp", &["base", "diag", "syntax", "recipe", "model", "plan", "check", "report"]),
];

#[test]
fn imports_go_down() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut seen = 0;
    for (module, allowed) in MAY_IMPORT {
        let mut files = Vec::new();
        collect(&src.join(module), &mut files);
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap();
            for used in text.split("crate::").skip(1) {
                let name: String = used.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                // `$crate::recipe` in a macro and the module itself are fine.
                let known = MAY_IMPORT.iter().any(|(m, _)| *m == name) || name == "cli";
                if known && name != *module {
                    seen += 1;
                    assert!(allowed.contains(&name.as_str()), "{} imports {name}", file.display());
                }
            }
        }
    }
    assert!(seen > 50, "the test reads the imports: {seen}");
}

fn collect(folder: &Path, files: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
}

//! Writes an exported function for every row of the table of signatures: operators hand their arguments to `executor`, what is not written
//! by hand says that it is not emulated.

#[allow(dead_code, reason = "the emulator needs other columns than the bindings")]
#[path = "../../src/ascend-rs/build/table.rs"]
mod table;

#[path = "build/exports.rs"]
mod exports;

use std::path::Path;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=build");
    println!("cargo:rerun-if-changed=src");
    for file in ["signatures.tsv", "constants.tsv", "build/table.rs"] {
        println!("cargo:rerun-if-changed=../../src/ascend-rs/{file}");
    }
    let functions = table::functions(include_str!("../../src/ascend-rs/signatures.tsv"));
    let out = Path::new(&env::var("OUT_DIR").expect("cargo names the folder")).join("exports.rs");
    fs::write(out, exports::write(&functions, &by_hand(Path::new("src"))))
        .expect("cargo's folder takes a file");
}

/// Names that the sources export themselves.
fn by_hand(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).expect("the sources are there").flatten() {
        let path = entry.path();
        if path.is_dir() {
            names.extend(by_hand(&path));
        } else {
            let text = fs::read_to_string(&path).expect("a source is text");
            names.extend(text.match_indices("extern \"C\" fn ").filter_map(|(at, marker)| {
                let rest = &text[at + marker.len()..];
                Some(rest[..rest.find('(')?].to_owned())
                    .filter(|name| name.starts_with("acl") || name.starts_with("Hccl"))
            }));
        }
    }
    names
}

//! Writes the raw bindings from the two tables of facts, `signatures.tsv` and `constants.tsv`, and from the same rows the safe
//! form of every operator.

use std::path::Path;
use std::{env, fs};

#[path = "build/c.rs"]
mod c;
#[path = "build/constants.rs"]
mod constants;
#[path = "build/functions.rs"]
mod functions;
#[path = "build/operators.rs"]
mod operators;
#[path = "build/table.rs"]
#[allow(dead_code, reason = "each of the two that read the tables needs other columns")]
mod table;

fn main() {
    println!("cargo:rerun-if-changed=signatures.tsv");
    println!("cargo:rerun-if-changed=constants.tsv");
    println!("cargo:rerun-if-changed=build");
    let out = env::var("OUT_DIR").expect("cargo names the folder");
    let write = |name: &str, text: String| {
        fs::write(Path::new(&out).join(name), text).expect("cargo's folder takes a file");
    };
    let functions = table::functions(include_str!("signatures.tsv"));
    let constants = table::constants(include_str!("constants.tsv"));
    write("functions.rs", functions::write(&functions));
    write("constants.rs", constants::write(&constants));
    write("operators.rs", operators::write(&functions));
}

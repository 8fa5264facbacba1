//! Writes a C++ file that compiles only if the headers of an installation agree with the tables behind the bindings: every function's type, every
//! constant's value, the size of every struct. Names of parameters, by which two of the same type can be told apart, are compared here.
//!
//! Usage: `header_check FOLDER… [--release NAME] > check.cpp`, the folders holding headers; `check-headers.sh` does it for the headers
//! that can be had without an installation.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[path = "../build/table.rs"]
#[allow(dead_code, reason = "each of the two that read the tables needs other columns")]
mod table;

/// Fewer functions than this and the folders are not what they should be.
const AT_LEAST: usize = 100;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (mut folders, mut release) = (Vec::new(), None);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--release" => release = arguments.next(),
            folder => folders.push(PathBuf::from(folder)),
        }
    }
    let headers: String =
        folders.iter().flat_map(|folder| read(folder)).map(|text| without_comments(&text)).collect();
    let words: BTreeSet<&str> = headers.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
    let declared = declarations(&headers);

    let functions = table::functions(include_str!("../signatures.tsv"));
    let known: Vec<_> = functions.iter().filter(|function| declared.contains_key(function.name)).collect();
    let mut renamed = 0;
    for function in &known {
        let names: Vec<_> = function.parameters.iter().map(|(_, name)| *name).collect();
        if !declared[function.name].iter().any(|found| alike(found, &names)) {
            eprintln!(
                "{}: the table has ({}), the headers {:?}",
                function.name,
                names.join(", "),
                declared[function.name]
            );
            renamed += 1;
        }
    }
    println!("{PRELUDE}");
    for function in &known {
        let types: Vec<_> = function.parameters.iter().map(|(kind, _)| *kind).collect();
        let (name, of) = (function.name, format!("{}({})", function.returns, types.join(", ")));
        println!("static_assert(std::is_same<Bare<decltype({name})>, Bare<{of}>>::value, \"{name}\");");
    }
    for handle in ["aclrtStream", "aclrtEvent", "aclrtContext", "HcclComm"] {
        println!("static_assert(std::is_same<{handle}, void *>::value, \"{handle}\");");
    }
    let constants = table::constants(include_str!("../constants.tsv"));
    let mut values = 0;
    for constant in constants.iter().filter(|constant| constant.number().is_some()) {
        let table::Constant { kind, of, name, value, release: at } = constant;
        let field = name.split(' ').next().unwrap_or(name);
        match *kind {
            "enum" | "define" if words.contains(name) && !name.ends_with("RESERVED") => {
                println!("static_assert((long long)({name}) == {value}LL, \"{name}\");");
                if *kind == "enum" && words.contains(of) {
                    println!("static_assert(sizeof({of}) == 4, \"{of}\");");
                }
            }
            "struct" if release.as_deref() == Some(*at) => {
                println!("static_assert(sizeof({of}) == {value}, \"{of}\");")
            }
            "field" if release.as_deref() == Some(*at) => {
                println!("static_assert(offsetof({of}, {field}) == {value}, \"{of}.{field}\");");
            }
            _ => continue,
        }
        values += 1;
    }
    eprintln!("{} of {} functions, {values} constants", known.len(), functions.len());
    match known.len() >= AT_LEAST && renamed == 0 {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// A type without the `const` of what it points to, in which releases differ.
const PRELUDE: &str = r#"#include <cstddef>
#include <cstdint>
#include <type_traits>
#include "acl/acl.h"
#include "hccl/hccl.h"
template <class T> struct Loose { using type = T; };
template <class T> struct Loose<const T> : Loose<T> {};
template <class T> struct Loose<T *> { using type = typename Loose<std::remove_cv_t<T>>::type *; };
template <class R, class... A> struct Loose<R(A...)> { using type = typename Loose<R>::type(typename Loose<A>::type...); };
template <class T> using Bare = typename Loose<T>::type;
static_assert(sizeof(void *) == 8 && sizeof(size_t) == 8 && sizeof(bool) == 1, "LP64");"#;

/// The text of every header below `folder`.
fn read(folder: &Path) -> Vec<String> {
    let Ok(entries) = folder.read_dir() else { return Vec::new() };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
        .iter()
        .flat_map(|path| if path.is_dir() { read(path) } else { header(path).into_iter().collect() })
        .collect()
}

fn header(path: &Path) -> Option<String> {
    (path.extension()? == "h")
        .then(|| std::fs::read(path).ok())
        .flatten()
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

fn without_comments(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("/*") {
        code.push_str(&rest[..at]);
        rest = rest[at..].find("*/").map_or("", |end| &rest[at + end + 2..]);
    }
    code.push_str(rest);
    code.lines().map(|line| line.split("//").next().unwrap_or(line)).collect::<Vec<_>>().join("\n") + "\n"
}

/// Parameter names of everything that is declared as a function: `name(…);`.
fn declarations(headers: &str) -> BTreeMap<&str, Vec<Vec<&str>>> {
    let mut found: BTreeMap<&str, Vec<Vec<&str>>> = BTreeMap::new();
    for (open, _) in headers.match_indices('(') {
        let before = headers[..open].trim_end();
        let start = before.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_').map_or(0, |at| at + 1);
        let name = &before[start..];
        if !(name.starts_with("acl") || name.starts_with("Hccl")) {
            continue;
        }
        let inside = &headers[open + 1..];
        let Some(close) = inside.find(')').filter(|close| !inside[..*close].contains([';', '{'])) else {
            continue;
        };
        if inside[close + 1..].trim_start().starts_with(';') {
            let parameters =
                inside[..close].split(',').map(str::trim).filter(|p| !p.is_empty() && *p != "void");
            found.entry(name).or_default().push(parameters.map(parameter).collect());
        }
    }
    found
}

/// The last word of `const char *name`, `uint32_t list[8]` or `int x = 0`.
fn parameter(declaration: &str) -> &str {
    let declaration = declaration.split(['=', '[']).next().unwrap_or(declaration).trim_end();
    let start = declaration.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_').map_or(0, |at| at + 1);
    &declaration[start..]
}

/// Whether two lists of names mean the same, whatever their case, underscores and endings; releases differ in those.
fn alike(left: &[&str], right: &[&str]) -> bool {
    let plain = |names: &[&str]| -> Vec<String> {
        names.iter().map(|name| name.replace('_', "").to_lowercase()).collect()
    };
    let same = |left: &str, right: &str| {
        let renamed = |name: &str| match name {
            "commhandle" => "comm".to_owned(),
            "sdispls" | "rdispls" | "recvdispls" | "senddispls" => {
                name.replace("recv", "r").replace("send", "s")
            }
            "opexecutor" => "executor".to_owned(),
            "recvcount" | "sendcount" => "count".to_owned(),
            "sendtype" => "datatype".to_owned(),
            _ => ["ref", "optional", "out"].iter().fold(name.to_owned(), |name, end| {
                name.strip_suffix(end).filter(|stem| !stem.is_empty()).map_or(name.clone(), str::to_owned)
            }),
        };
        left == right || renamed(left) == renamed(right)
    };
    let (left, right) = (plain(left), plain(right));
    left.len() == right.len() && left.iter().zip(&right).all(|(left, right)| same(left, right))
}

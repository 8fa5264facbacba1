//! The grammar for editors reads what the compiler reads: the same tree at the same places, for every recipe here and for
//! recipes with random edits. Its corpus and queries are tested as well, without the command line of tree-sitter.

mod pieces;

use pieces::{of_compiler, of_editor};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::ffi::{CStr, CString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use stepc::base::FileId;
use stepc::diag::Sink;
use stepc::syntax;
use stepc::syntax::tree::File;
use tree_sitter::{Language, Node, Parser, Query, QueryCursor, StreamingIterator, Tree};

const GRAMMAR: &str = "editors/tree-sitter-step";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The generated parser, compiled the way editors do it and loaded for good.
static LANGUAGE: LazyLock<Language> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("step.so");
    let source = root().join(GRAMMAR).join("src");
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"])
        .arg(format!("-I{}", source.display()))
        .args([source.join("parser.c"), source.join("scanner.c")])
        .arg("-o")
        .arg(&library)
        .status();
    assert!(status.unwrap().success(), "the parser compiles without a warning");
    let path = CString::new(library.to_str().unwrap()).unwrap();
    // SAFETY: both strings end in NUL; the library is never closed, and its function is that of the generated parser.
    unsafe {
        let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
        assert!(!handle.is_null(), "{:?}", CStr::from_ptr(libc::dlerror()));
        let symbol = libc::dlsym(handle, c"tree_sitter_step".as_ptr());
        assert!(!symbol.is_null(), "the library has the language");
        let language = std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn() -> *const ()>(symbol);
        Language::from_raw(language().cast())
    }
});

fn edited(text: &str) -> Tree {
    let mut parser = Parser::new();
    parser.set_language(&LANGUAGE).unwrap();
    parser.parse(text, None).unwrap()
}

/// What the compiler makes of a text that is free of mistakes in syntax.
fn compiled(text: &str) -> Option<File> {
    let mut sink = Sink::default();
    let file = syntax::parse(FileId(0), text, &mut sink);
    sink.finish().is_empty().then_some(file)
}

/// The files under `folder` whose names end in `.extension`.
fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let pattern = root().join(folder).join(format!("**/*.{extension}"));
    let files: Vec<_> = glob::glob(pattern.to_str().unwrap()).unwrap().map(Result::unwrap).collect();
    assert!(!files.is_empty(), "{folder} has files");
    files
}

#[test]
fn every_recipe_has_the_tree_of_the_compiler() {
    let folders = ["recipes", "examples", "benches", "docs", "tests"];
    let mut held = 0;
    for path in folders.iter().flat_map(|folder| files(folder, "step")) {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let Some(file) = compiled(&text) else { continue };
        let tree = edited(&text);
        assert!(!tree.root_node().has_error(), "{}: {}", path.display(), tree.root_node().to_sexp());
        assert_eq!(of_editor(&tree, &text), of_compiler(&file), "{}", path.display());
        held += 1;
    }
    assert!(held > 150, "{held} recipes");
}

/// Every construct of the language in few lines, to be edited.
const SEED: &str = r#"use "a.step" // one
let n = 2 * (3 - x.y) % 4, let m = -1.5h
recipe r: base {
  model s { weights = "w", init = meta }
  /* two */
  parallel { fsdp = 22% % 4, ep = if a > 2 { [1, 2][0] } else if !b { max(1, c) } else { d } }
  scaling none
  attention full: other
  layer i {
    if i < 45 && i != 3 || ok { clamp = 7.0 } else if i == 2 { x = 0..45 } else { y = true }
  }
  require a.b % c == 0
    else "message"
  profile laptop for cpu { steps = 1_000, betas = [0.9, 200GB/s,] }
}
"#;

/// What is put in place of a token, or in front of it.
const TOKENS: &[&str] = &[
    "\n",
    "\n\n",
    " ",
    "",
    ",",
    "// c\n",
    "/* c */",
    "/* c\n */",
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    "=",
    "==",
    "-",
    "*",
    "%",
    "/",
    "..",
    ".",
    ":",
    "!",
    "1",
    "2.5",
    "1e3",
    "1e",
    "4Ki",
    "22%",
    "GB/s",
    "\"t\"",
    "a",
    "b.c",
    "if",
    "else",
    "for",
    "let",
    "use",
    "require",
    "true",
];

/// Words, numbers, texts, comments and marks, with the blanks between them.
fn tokens(text: &str) -> Vec<&str> {
    let class = |c: char| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '"' => 0,
        ' ' => 1,
        _ => 2,
    };
    text.char_indices()
        .zip(text.chars().skip(1).chain(['\n']))
        .filter(|((_, c), next)| class(*c) == 2 || class(*c) != class(*next))
        .map(|((at, c), _)| at + c.len_utf8())
        .scan(0, |from, to| Some(&text[std::mem::replace(from, to)..to]))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, rng_seed: RngSeed::Fixed(6), failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the compiler accepts has the same tree, however unusual its line breaks.
    #[test]
    fn an_edited_recipe_has_the_tree_of_the_compiler(
        edits in prop::collection::vec((0..1000usize, prop::bool::ANY, prop::sample::select(TOKENS)), 1..3),
    ) {
        let mut text: Vec<_> = tokens(SEED).into_iter().map(str::to_owned).collect();
        let count = text.len();
        for (at, replace, token) in edits {
            let place = &mut text[at % count];
            *place = if replace { token.to_owned() } else { format!("{token}{place}") };
        }
        let text = text.concat();
        if let Some(file) = compiled(&text) {
            let tree = edited(&text);
            prop_assert!(!tree.root_node().has_error(), "{text}\n{}", tree.root_node().to_sexp());
            prop_assert_eq!(of_editor(&tree, &text), of_compiler(&file), "{}", text);
        }
    }
}

#[test]
fn the_corpus_holds() {
    let words = |text: &str| text.split_whitespace().collect::<String>();
    let mut held = 0;
    for path in files(&format!("{GRAMMAR}/test/corpus"), "txt") {
        let text = std::fs::read_to_string(&path).unwrap();
        let bar = "=".repeat(80);
        let parts: Vec<_> = text.split(&bar).skip(1).collect();
        for case in parts.chunks(2) {
            let [name, body] = case else { panic!("{}: a title stands between two bars", path.display()) };
            let (source, expected) = body.split_once(&"-".repeat(80)).unwrap();
            let tree = edited(source.trim_matches('\n'));
            assert_eq!(words(&tree.root_node().to_sexp()), words(expected), "{}", name.trim());
            held += 1;
        }
    }
    assert!(held >= 8, "{held} cases");
}

#[test]
fn queries_fit_the_grammar() {
    for folder in [GRAMMAR, "editors/helix"] {
        for path in files(folder, "scm") {
            let query = Query::new(&LANGUAGE, &std::fs::read_to_string(&path).unwrap());
            assert!(query.is_ok_and(|query| query.pattern_count() > 0), "{}", path.display());
        }
    }
}

/// No token of a recipe is without a colour.
#[test]
fn every_token_is_highlighted() {
    let queries =
        [format!("{GRAMMAR}/queries/highlights.scm"), "editors/helix/queries/step/highlights.scm".into()];
    let text = std::fs::read_to_string(root().join("recipes/step35_flash.step")).unwrap() + SEED;
    let tree = edited(&text);
    for path in queries {
        let query = Query::new(&LANGUAGE, &std::fs::read_to_string(root().join(&path)).unwrap()).unwrap();
        let mut coloured = vec![false; text.len()];
        let mut cursor = QueryCursor::new();
        let mut captures = cursor.captures(&query, tree.root_node(), text.as_bytes());
        while let Some((matched, _)) = captures.next() {
            matched.captures.iter().for_each(|capture| coloured[capture.node.byte_range()].fill(true));
        }
        let plain =
            leaves(tree.root_node()).into_iter().find(|leaf| coloured[leaf.byte_range()].contains(&false));
        assert!(plain.is_none(), "{path}: {:?} has no highlight", plain.map(|leaf| &text[leaf.byte_range()]));
    }
}

fn leaves(node: Node<'_>) -> Vec<Node<'_>> {
    match node.child_count() {
        0 => vec![node],
        _ => node.children(&mut node.walk()).flat_map(leaves).collect(),
    }
}

//! The formatter: what it makes of texts, and that no text is harmed.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::path::{Path, PathBuf};
use stepc::base::SourceMap;
use stepc::diag::Sink;
use stepc::diag::render::{self, Style, render};
use stepc::syntax::format::{WIDTH, format};
use stepc::syntax::parse;
use stepc::syntax::tree::File;

/// A text laid out, or what is wrong with it.
fn formatted(text: &str) -> Result<String, String> {
    let (mut sources, mut sink) = (SourceMap::default(), Sink::default());
    let id = sources.add("a.step", text);
    let out = format(id, text, &mut sink);
    let style = Style { color: false, width: 100, unicode: true };
    let said = render(&sink.finish(), &sources, render::Format::Short, style);
    assert_eq!(out.is_none(), !said.is_empty(), "a text or a reason: {said}");
    out.ok_or(said)
}

fn tree(text: &str) -> Option<File> {
    let mut sink = Sink::default();
    let file = parse(SourceMap::default().add("a.step", text), text, &mut sink);
    (!sink.has_errors()).then(|| file.without_places())
}

/// The comments of a text without syntax errors, blanks at line ends left out.
fn comments(text: &str) -> Vec<String> {
    let (mut found, mut rest) = (Vec::new(), text);
    while let Some(at) = rest.find(['"', '/']) {
        rest = &rest[at..];
        let len = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |len| len + 2)
        } else if rest.starts_with('"') {
            let mut escaped = false;
            let end = rest[1..].find(|c| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            rest = &rest[end.map_or(rest.len(), |end| end + 2)..];
            continue;
        } else {
            rest = &rest[1..];
            continue;
        };
        let lines: Vec<_> = rest[..len].split('\n').map(str::trim_end).collect();
        found.push(lines.join("\n"));
        rest = &rest[len..];
    }
    found
}

/// Lays a text out and holds the result to every promise; `None` where the text has syntax errors.
fn checked(text: &str) -> Option<String> {
    let before = tree(text);
    let once = match formatted(text) {
        Ok(once) => once,
        Err(said) => {
            assert!(before.is_none(), "a good text was refused:\n{text}\n{said}");
            return None;
        }
    };
    assert_eq!(before, tree(&once), "another tree:\n{text}\n-- became\n{once}");
    assert_eq!(comments(text), comments(&once), "comments of\n{text}\n-- became\n{once}");
    assert_eq!(formatted(&once).as_ref(), Ok(&once), "not stable:\n{text}\n-- became\n{once}");
    Some(once)
}

fn becomes(text: &str, expected: &str) {
    assert_eq!(checked(text).as_deref(), Some(expected));
}

fn shipped() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    let mut folders: Vec<_> = ["recipes", "examples", "tests/golden"].map(|folder| root.join(folder)).into();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "step") {
                found.push((path.clone(), std::fs::read_to_string(path).unwrap()));
            }
        }
    }
    found.sort();
    assert!(found.len() > 5, "the shipped recipes are found");
    found
}

#[test]
fn shipped_recipes_are_laid_out() {
    for (path, text) in shipped() {
        let laid_out = checked(&text).unwrap();
        assert!(laid_out == text, "{}: run `stepc fmt` on it", path.display());
    }
}

#[test]
fn blanks_are_decided() {
    becomes(
        "recipe   r{\n\n\n\tx=1+2 *-3\n   yy   =a [ 0 ]  ,  z= max( 1,2 , )\n\n\n\n b = [ 1,2,]\n  c=- -1\n\n}\n\n",
        "recipe r {\n  x = 1 + 2 * -3\n  yy = a[0], z = max(1, 2)\n\n  b = [1, 2]\n  c = - -1\n}\n",
    );
    becomes("model a:b{}", "model a: b {}\n");
    becomes("let a=0 .. 45\nlet bcd = 1+2..n-1", "let a   = 0..45\nlet bcd = 1 + 2 .. n - 1\n");
    becomes("let a = 22%4\nlet b = 22%", "let a = 22 % 4\nlet b = 22%\n");
    becomes("", "");
    becomes("\n\n", "");
}

#[test]
fn equals_stand_in_one_column_in_a_run() {
    becomes(
        "recipe r {\n a = 1\n bcd = 2\n\n e = 3\n f {}\n ghi = 4, j = 5\n k = 6\n // c\n lmn = 7\n}",
        "recipe r {\n  a   = 1\n  bcd = 2\n\n  e = 3\n  f {}\n  ghi = 4, j = 5\n  k = 6\n  // c\n  lmn = 7\n}\n",
    );
}

#[test]
fn what_does_not_fit_is_broken() {
    let long = "x".repeat(40);
    let line =
        format!("recipe r {{ a = {long}, b = {long}, c = {long}, d = 1, e = [{long}, {long}, {long}] }}");
    let out = checked(&line).unwrap();
    assert!(out.lines().all(|line| line.chars().count() <= WIDTH), "{out}");
    assert_eq!(
        out,
        format!(
            "recipe r {{\n  a = {long}, b = {long}\n  c = {long}, d = 1\n  e = [\n    {long}, {long}\n    {long},\n  ]\n}}\n"
        )
        .replace(&format!("{long}, {long}\n    {long},"), &format!("{long}, {long},\n    {long},"))
    );
}

#[test]
fn what_the_author_broke_stays_broken() {
    becomes(
        "recipe r {\n require a\n &&  b\n  else \"m\"\n x = if a {\n 1 } else { 2 }\n}",
        "recipe r {\n  require a\n    && b\n    else \"m\"\n  x = if a {\n    1\n  } else {\n    2\n  }\n}\n",
    );
    becomes(
        "recipe r { if a { x = 1 }\n else if b { x = 2 } }",
        "recipe r {\n  if a { x = 1 } else if b { x = 2 }\n}\n",
    );
}

#[test]
fn comments_stay_where_they_belong() {
    // Neighbours that agree keep their column; others are aligned behind the longest line.
    becomes(
        "recipe r {        // head\n  a = 1           // one\n  b = 2           // two\n                  // goes on\n}\n",
        "recipe r {        // head\n  a = 1           // one\n  b = 2           // two\n                  // goes on\n}\n",
    );
    becomes(
        "recipe r {\n  a = 1 // one\n  bcd = 22 // two\n  c = 3\n  d = 4 // far\n}",
        "recipe r {\n  a   = 1   // one\n  bcd = 22  // two\n  c   = 3\n  d   = 4  // far\n}\n",
    );
    becomes(
        "// top\n\n\n\n/* a\n   b */\nrecipe r { // head\n // own\n\n x = [ 1, // one\n 2 /* two */, 3 ] // all\n\n // last\n} // end\n// eof",
        "// top\n\n/* a\n   b */\nrecipe r {  // head\n  // own\n\n  x = [\n    1,  // one\n    2 /* two */, 3,\n  ]  // all\n\n  // last\n}  // end\n// eof\n",
    );
    becomes(
        "recipe r { a = /* x */ 1 /* y */, /* z */ b = 2 }",
        "recipe r { a = /* x */ 1 /* y */, /* z */ b = 2 }\n",
    );
}

#[test]
fn line_ends_and_the_byte_order_mark_stay() {
    becomes("\u{feff}recipe r {\r\n a=1\r\n}", "\u{feff}recipe r {\r\n  a = 1\r\n}\r\n");
}

#[test]
fn a_text_with_syntax_errors_is_refused() {
    let said = formatted("recipe r { a = }\nmodel {").unwrap_err();
    assert!(said.contains("a.step:1:"), "{said}");
}

/// Places at which a text may be cut.
fn boundaries(text: &str) -> Vec<usize> {
    text.char_indices().map(|(at, _)| at).chain([text.len()]).collect()
}

const BITS: &[&str] = &[
    " ",
    "\n",
    "\n\n",
    "\t",
    "\r\n",
    ",",
    "// c\n",
    "/* c */",
    "/* c\n d */",
    "-",
    "!",
    "=",
    "..",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "x",
    "7",
    "22%",
    "%",
    " + ",
    "if a { b } else { c }",
    "\"s\"",
    ":",
    " else ",
    ".",
    "\u{feff}",
    "/",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, rng_seed: RngSeed::Fixed(20_261_201), failure_persistence: None, ..ProptestConfig::default() })]

    /// Cut and stuffed recipes: an error, or a stable layout of the same tree.
    #[test]
    fn no_edit_of_a_recipe_harms(
        file in any::<prop::sample::Index>(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0usize..6, prop::sample::select(BITS)), 1..6),
    ) {
        let files = shipped();
        let mut text = files[file.index(files.len())].1.clone();
        for (place, cut, bit) in edits {
            let places = boundaries(&text);
            let from = place.index(places.len());
            let to = (from + cut).min(places.len() - 1);
            text.replace_range(places[from]..places[to], bit);
        }
        checked(&text);
    }

    /// Trees printed with blanks, newlines and comments wherever the grammar takes them: always laid out.
    #[test]
    fn every_tree_is_laid_out(text in file()) {
        prop_assert!(checked(&text).is_some(), "has syntax errors:\n{}\n{:?}", text, formatted(&text));
    }
}

// ---- random files

fn ident() -> impl Strategy<Value = String> {
    prop::sample::select(
        &["a", "bc", "model", "kv_heads", "iffy", "x9", "a_rather_long_name_of_a_field_of_a_block"][..],
    )
    .prop_map(str::to_owned)
}

/// Blanks and comments where no newline may stand.
fn blank() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&[" ", " ", " ", "  ", "\t", " /* c */ ", " /* c\nd */ "][..])
}

/// Blanks and comments where a newline may stand.
fn wide() -> impl Strategy<Value = &'static str> {
    prop::sample::select(
        &[
            " ",
            " ",
            " ",
            "\n",
            "\n\n\n",
            " // c\n",
            "\n // c\n\n // d\n",
            " /* c */ ",
            "\n/* c */ ",
            " /* c\nd */\n",
        ][..],
    )
}

/// What parts statements.
fn part() -> impl Strategy<Value = &'static str> {
    prop::sample::select(
        &[
            ", ",
            ", ",
            "\n",
            "\n",
            "\n\n",
            " // c\n",
            ",\n",
            "\n,\n// c\n",
            " /* c */, ",
            ", /* c */ ",
            " // c\n // d\n\n\n// e\n",
            " /* c\n d */\n",
        ][..],
    )
}

fn expr() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        prop::sample::select(
            &["1", "22%", "4Ki", "1e-5", "100GB/s", "true", "\"a // b\"", "\"\\\"\"", "0.5"][..]
        )
        .prop_map(str::to_owned),
        ident(),
        (ident(), ident()).prop_map(|(a, b)| format!("{a}.{b}")),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let operators = prop::sample::select(&["+", "-", "*", "/", "&&", "||", "=="][..]);
        let items = (wide(), prop::collection::vec((inner.clone(), wide(), wide()), 1..5), any::<bool>())
            .prop_map(|(open, items, comma)| {
                let mut out = open.to_owned();
                let last = items.len() - 1;
                for (n, (item, before, after)) in items.into_iter().enumerate() {
                    out += &if n < last || comma {
                        format!("{item}{before},{after}")
                    } else {
                        format!("{item}{before}")
                    };
                }
                out
            })
            .boxed();
        prop_oneof![
            (inner.clone(), wide(), operators, wide(), inner.clone())
                .prop_map(|(a, x, op, y, b)| format!("({a}{x}{op}{y}{b})")),
            (inner.clone(), wide(), wide(), inner.clone())
                .prop_map(|(a, x, y, b)| format!("(({a}){x}..{y}({b}))")),
            (blank(), inner.clone()).prop_map(|(x, a)| format!("-{x}({a})")),
            inner.clone().prop_map(|a| format!("!{a}")),
            items.clone().prop_map(|items| format!("[{items}]")),
            (ident(), items).prop_map(|(name, items)| format!("{name}({items})")),
            (ident(), wide(), inner.clone(), wide()).prop_map(|(a, x, i, y)| format!("{a}[{x}{i}{y}]")),
            (blank(), inner.clone(), wide(), inner.clone(), wide(), inner)
                .prop_map(|(x, a, y, b, z, c)| format!("if{x}({a}){y}{{{b}{z}}}{z}else{x}{{{y}{c}}}")),
        ]
    })
}

fn stmt() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        (ident(), blank(), blank(), expr()).prop_map(|(key, x, y, value)| format!("{key}{x}={y}{value}")),
        (ident(), blank(), expr()).prop_map(|(key, x, value)| format!("let {key}{x}={x}{value}")),
        (ident(), blank(), ident()).prop_map(|(kind, x, name)| format!("{kind}{x}{name}")),
        (blank(), expr(), wide(), wide())
            .prop_map(|(x, cond, y, z)| format!("require{x}({cond}){y}else{z}\"m\"")),
    ];
    leaf.prop_recursive(3, 24, 5, |inner| {
        let body = body(inner);
        prop_oneof![
            (ident(), blank(), ident(), wide(), body.clone())
                .prop_map(|(kind, x, name, y, body)| format!("{kind}{x}{name}{y}{body}")),
            (ident(), blank(), body.clone())
                .prop_map(|(kind, x, body)| format!("{kind}{x}:{x}base{x}for{x}cpu{x}{body}")),
            (expr(), wide(), body.clone(), wide(), body).prop_map(|(cond, x, then, y, otherwise)| format!(
                "if ({cond}){x}{then}{y}else{x}{otherwise}"
            )),
        ]
    })
}

fn body(stmt: impl Strategy<Value = String> + 'static) -> BoxedStrategy<String> {
    let ends = (wide(), wide(), prop::collection::vec((stmt, part()), 0..5));
    ends.prop_map(|(open, close, stmts)| {
        let stmts: String = stmts.into_iter().map(|(stmt, part)| stmt + part).collect();
        format!("{{{open}{stmts}{close}}}")
    })
    .boxed()
}

fn file() -> impl Strategy<Value = String> {
    let block = (ident(), body(stmt())).prop_map(|(name, body)| format!("recipe {name} {body}"));
    let item = prop_oneof![
        4 => block,
        1 => Just("use \"models/step35.step\"".to_owned()),
        1 => (ident(), expr()).prop_map(|(name, value)| format!("let {name} = {value}")),
    ];
    (wide(), prop::collection::vec((item, part()), 0..4)).prop_map(|(start, items)| {
        start.to_owned() + &items.into_iter().map(|(item, part)| item + part).collect::<String>()
    })
}

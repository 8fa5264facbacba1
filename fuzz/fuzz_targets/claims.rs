//! What holds for every input: the functions that the fuzz targets call, and the tests on what fuzzing has found.

use std::path::PathBuf;
use stepc::base::SourceMap;
use stepc::base::host::MemoryHost;
use stepc::diag::render::{Format, Style, render};
use stepc::diag::{Diagnostic, Sink};
use stepc::recipe::{Request, load};
use stepc::syntax::format::format;
use stepc::syntax::parse;
use stepc::syntax::tree::File;

/// Between the recipe and what is laid over it.
const SET: &str = "\n--set\n";

/// The parser reads any text, and what it says about it can be shown in every format.
pub fn parser(text: &str) {
    let (mut sources, mut sink) = (SourceMap::default(), Sink::default());
    let id = sources.add("a.step", text);
    parse(id, text, &mut sink);
    show(&sink.finish(), &sources);
}

/// Loading and resolving ends for any text and any `--set`: with a recipe, or with an error that can be shown.
pub fn evaluator(text: &str) {
    let (recipe, set) = text.split_once(SET).unwrap_or((text, ""));
    let host = MemoryHost::new().with("a.step", recipe);
    let set = set.lines().take(8).map(str::to_owned).collect();
    let request = Request { path: PathBuf::from("a.step"), recipe: None, profile: None, set };
    let (mut sources, mut sink) = (SourceMap::default(), Sink::default());
    if let Some(loaded) = load(&host, &request, &mut sources, &mut sink) {
        loaded.check_all(&mut sink);
        let resolved = loaded.resolve(None, &mut sink);
        assert!(resolved.is_some() || sink.has_errors(), "no recipe, and no reason why");
    }
    show(&sink.finish(), &sources);
}

/// A text without syntax errors is laid out stably and keeps its tree; any other is refused with a reason.
pub fn formatter(text: &str) {
    let Some(before) = tree(text) else {
        assert!(laid_out(text).is_none(), "laid out in spite of errors");
        return;
    };
    let once = laid_out(text).expect("a good text is laid out");
    assert!(tree(&once) == Some(before), "the tree has changed");
    assert_eq!(laid_out(&once).as_ref(), Some(&once), "the layout is not stable");
}

fn tree(text: &str) -> Option<File> {
    let mut sink = Sink::default();
    let file = parse(SourceMap::default().add("a.step", text), text, &mut sink);
    (!sink.has_errors()).then(|| file.without_places())
}

fn laid_out(text: &str) -> Option<String> {
    let mut sink = Sink::default();
    let out = format(SourceMap::default().add("a.step", text), text, &mut sink);
    assert_eq!(out.is_none(), sink.has_errors(), "a text or a reason");
    out
}

fn show(diagnostics: &[Diagnostic], sources: &SourceMap) {
    let style = Style { color: false, width: 100, unicode: true };
    for format in [Format::Human, Format::Short, Format::Json] {
        let text = render(diagnostics, sources, format, style);
        assert_eq!(text.is_empty(), diagnostics.is_empty());
    }
}

//! Recipes in Markdown: fenced blocks of `step` with what they claim behind the fence.
//!
//! A block stands inside a recipe based on `docs/errors/small.step`, with `file` it is a whole file. `set=` and `profile=` are
//! the options of a command, `file=NAME` puts a file beside the others.

use crate::support::check_files;
use stepc::base::SourceMap;
use stepc::base::host::MemoryHost;
use stepc::diag::{Diagnostic, Sink};
use stepc::recipe::{Request, load};

/// The recipe that examples are laid over.
const SMALL: &str = include_str!("../../docs/errors/small.step");

/// One fenced block: the words behind the fence, and what is in it.
pub struct Example<'p> {
    pub words: Vec<&'p str>,
    pub text: String,
}

impl<'p> Example<'p> {
    /// Every block of a page.
    pub fn all(page: &'p str) -> Vec<Example<'p>> {
        let mut found = Vec::new();
        let mut lines = page.lines();
        while let Some(line) = lines.next() {
            if let Some(info) = line.strip_prefix("```step") {
                let text: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
                found.push(Example { words: info.split_whitespace().collect(), text: text.join("\n") });
            }
        }
        found
    }

    pub fn option(&self, key: &str) -> Option<&'p str> {
        self.words.iter().find_map(|word| word.strip_prefix(key))
    }

    pub fn is(&self, word: &str) -> bool {
        self.words.contains(&word)
    }

    fn root(&self) -> String {
        if self.is("file") {
            return self.text.clone();
        }
        let inside: String = self.text.lines().map(|line| format!("  {line}\n")).collect();
        format!("use \"small.step\"\n\nrecipe example: small {{\n{inside}}}\n")
    }

    /// What is said about it, with the files that `all` puts beside it.
    pub fn check(&self, all: &[Example<'_>]) -> (Vec<Diagnostic>, SourceMap) {
        let root = self.root();
        let beside = all.iter().filter_map(|other| Some((other.option("file=")?, other.text.as_str())));
        let files: Vec<_> = beside.chain([("small.step", SMALL), ("example.step", root.as_str())]).collect();
        let set: Vec<_> = self.option("set=").into_iter().collect();
        check_files(&files, "example.step", self.option("profile="), &set)
    }

    /// The value that `path` has in it.
    pub fn value(&self, path: &str) -> Option<String> {
        let host = MemoryHost::new().with("small.step", SMALL).with("example.step", self.root());
        let set = self.option("set=").into_iter().map(str::to_owned).collect();
        let request = Request { path: "example.step".into(), set, ..Request::default() };
        let (mut sources, mut sink) = (SourceMap::default(), Sink::default());
        let loaded = load(&host, &request, &mut sources, &mut sink)?;
        let settings = loaded.why(self.option("profile="), path, &mut sink)?;
        settings.first()?.value.clone()
    }
}

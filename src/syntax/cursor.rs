//! Walking pest's pairs without trusting the grammar: a piece that is not there is `None`, never a panic.

use super::mend::Mended;
use crate::base::{FileId, Span};
use pest::iterators::{Pair, Pairs};

/// The parser pest makes of the grammar file.
#[derive(pest_derive::Parser)]
#[grammar = "grammar/step.pest"]
pub(super) struct Grammar;

/// The meaningful children of a pair in order; brackets, separators and keywords are passed over.
pub(super) struct Cursor<'t> {
    pairs: Pairs<'t, Rule>,
}

impl<'t> Cursor<'t> {
    pub(super) fn over(pair: Pair<'t, Rule>) -> Self {
        Cursor { pairs: pair.into_inner() }
    }

    /// The next child if it is a `rule`.
    pub(super) fn child(&mut self, rule: Rule) -> Option<Pair<'t, Rule>> {
        self.child_of(&[rule])
    }

    /// The next child if it is one of `rules`.
    pub(super) fn child_of(&mut self, rules: &[Rule]) -> Option<Pair<'t, Rule>> {
        while self.pairs.peek().is_some_and(|pair| is_mark(pair.as_rule())) {
            self.pairs.next();
        }
        self.pairs.peek().filter(|pair| rules.contains(&pair.as_rule()))?;
        self.pairs.next()
    }
}

impl<'t> Iterator for Cursor<'t> {
    type Item = Pair<'t, Rule>;

    fn next(&mut self) -> Option<Self::Item> {
        self.pairs.find(|pair| !is_mark(pair.as_rule()))
    }
}

/// Whether a token only marks structure.
fn is_mark(rule: Rule) -> bool {
    use Rule::*;
    matches!(
        rule,
        assign
            | colon
            | comma
            | dot
            | lbrace
            | rbrace
            | lparen
            | rparen
            | lbracket
            | rbracket
            | kw_use
            | kw_let
            | kw_require
            | kw_if
            | kw_else
            | kw_for
            | EOI
    )
}

/// Where the last token of a pair ends; every token has a rule of its own.
fn end(pair: &Pair<'_, Rule>) -> usize {
    match pair.clone().into_inner().next_back() {
        Some(last) => end(&last),
        None => pair.as_span().start() + pair.as_str().trim_end().len(),
    }
}

/// Turns places of the mended text into spans of the file.
#[derive(Clone, Copy)]
pub(super) struct Places<'a> {
    pub file: FileId,
    pub mended: &'a Mended,
    /// Where the stretch of the mended text begins in which pest counts.
    pub base: usize,
}

impl<'a> Places<'a> {
    /// The mended text from the beginning of the stretch on.
    pub(super) fn text(&self) -> &'a str {
        &self.mended.text[self.base..]
    }

    /// The span of a pair, without the blanks and comments that pest counts to its end.
    pub(super) fn of(&self, pair: &Pair<'_, Rule>) -> Span {
        self.range(pair.as_span().start(), end(pair))
    }

    /// The span of `start..end` of the stretch.
    pub(super) fn range(&self, start: usize, end: usize) -> Span {
        let [start, end] = [start, end].map(|at| self.mended.original(self.base + at));
        Span::new(self.file, start, end.max(start))
    }
}

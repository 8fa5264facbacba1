//! The entry points, and statements: pest's pairs to items, blocks and attributes.

use super::balance::balance;
use super::cursor::{Cursor, Grammar, Places, Rule};
use super::faults;
use super::items::{Parser, tokens_of};
use super::literal;
use super::mend::{Mended, Repairs};
use super::scan::{Token, scan};
use super::tree::{Block, Expr, File, Ident, Item, Let, Stmt};
use crate::base::{FileId, Span};
use crate::diag::suggest::nearest;
use crate::diag::{Diagnostic, Sink};
use pest::Parser as _;
use pest::iterators::Pair;
use std::ops::Range;

/// The kinds of block a file may hold; `use` and `let` stand beside them.
pub const TOP_KINDS: [&str; 4] = ["model", "device", "cluster", "recipe"];

/// Reads a file. What cannot be read is reported and left out of the tree.
pub fn parse(id: FileId, text: &str, sink: &mut Sink) -> File {
    Parser::default().parse(id, text, sink)
}

/// The items of a stretch of a mended file. `None` where it is written in another format.
pub(super) fn read(id: FileId, mended: &Mended, range: Range<usize>, sink: &mut Sink) -> Option<Vec<Item>> {
    let mut builder = Builder::new(id, mended, range.start, sink);
    match Grammar::parse(Rule::file, &mended.text[range]) {
        Ok(mut pairs) => pairs.next().map_or_else(|| Some(Vec::new()), |file| builder.items(file)),
        Err(error) => {
            builder.refused(&error);
            Some(Vec::new())
        }
    }
}

/// Reads `path.to.field = value`, where a part of the path may be `kind name` (`model.attention full.heads`) and is then
/// one identifier of two words. `None` where it could not be read, which is reported.
pub fn parse_assignment(id: FileId, text: &str, sink: &mut Sink) -> Option<(Vec<Ident>, Expr)> {
    let (mended, _) = mend(id, text, sink);
    let mut builder = Builder::new(id, &mended, 0, sink);
    let pair = match Grammar::parse(Rule::assignment, &mended.text) {
        Ok(mut pairs) => pairs.next()?,
        Err(error) => {
            builder.bad_assignment(&error);
            return None;
        }
    };
    let mut cursor = Cursor::over(pair);
    let mut path = Vec::new();
    while let Some(segment) = cursor.child(Rule::segment) {
        let span = builder.places.of(&segment);
        let words: Vec<_> = segment.into_inner().map(|word| word.as_str()).collect();
        path.push(Ident { text: words.join(" "), span });
    }
    let value = builder.expr(cursor.child(Rule::expr)?)?;
    Some((path, value))
}

/// The text with its brackets balanced, its strings and comments closed, and its tokens.
pub(super) fn mend(id: FileId, text: &str, sink: &mut Sink) -> (Mended, Vec<Token>) {
    let mut repairs = Repairs::default();
    let tokens = scan(id, text, &mut repairs, sink);
    balance(id, text, &tokens, &mut repairs, sink);
    let mended = Mended::new(text, repairs);
    let tokens = if mended.text == text { tokens } else { tokens_of(&mended) };
    (mended, tokens)
}

/// Where a statement stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    File,
    Block,
}

/// A statement of any level.
enum Piece {
    Stmt(Stmt),
    Use { path: String, span: Span },
}

/// Builds the tree and reports what is wrong on the way.
pub(super) struct Builder<'a> {
    pub(super) places: Places<'a>,
    pub(super) sink: &'a mut Sink,
    /// Brackets and operators around the place that is being read.
    pub(super) depth: usize,
}

impl<'a> Builder<'a> {
    fn new(file: FileId, mended: &'a Mended, base: usize, sink: &'a mut Sink) -> Self {
        Builder { places: Places { file, mended, base }, sink, depth: 0 }
    }

    /// Reports a fault, unless its line is one where mending had to guess.
    pub(super) fn report(&mut self, diagnostic: Diagnostic) {
        let guess = |span: Span| self.places.mended.is_guess(span.start as usize);
        if !diagnostic.labels.first().is_some_and(|label| guess(label.span)) {
            self.sink.push(diagnostic);
        }
    }

    /// A pair the builder has no use for: the grammar and the builder disagree.
    pub(super) fn internal<T>(&mut self, pair: &Pair<'_, Rule>) -> Option<T> {
        let span = self.places.of(pair);
        self.report(
            Diagnostic::error("step::syntax::internal", format!("cannot read this {:?}", pair.as_rule()))
                .label(span, "not understood")
                .help("this is a defect of the compiler, please report it"),
        );
        None
    }

    /// `None` where the file is written in another format.
    fn items(&mut self, file: Pair<'_, Rule>) -> Option<Vec<Item>> {
        if faults::foreign_format(self, &file) {
            return None;
        }
        let pieces = self.pieces(file, Level::File);
        let items = pieces.into_iter().filter_map(|piece| match piece {
            Piece::Use { path, span } => Some(Item::Use { path, span }),
            Piece::Stmt(Stmt::Let(stmt)) => Some(Item::Let(stmt)),
            Piece::Stmt(Stmt::Block(block)) => self.top_block(block).map(Item::Block),
            Piece::Stmt(Stmt::Attr { key, .. }) => {
                let help = format!("put it inside a block, or name a value with `let {} = …`", key.text);
                self.misplaced(&format!("`{}`", key.text), key.span, &help)
            }
            Piece::Stmt(Stmt::Require { span, .. }) => self.misplaced(
                "`require`",
                Span { end: span.start + 7, ..span },
                "put it inside a recipe or a model",
            ),
            Piece::Stmt(Stmt::If { span, .. }) => {
                self.misplaced("`if`", Span { end: span.start + 2, ..span }, "put it inside a block")
            }
        });
        Some(items.collect())
    }

    fn misplaced<T>(&mut self, what: &str, span: Span, help: &str) -> Option<T> {
        self.report(
            Diagnostic::error("step::syntax::misplaced", format!("{what} stands outside of every block"))
                .label(span, "a file holds use, let, model, device, cluster and recipe")
                .help(help),
        );
        None
    }

    /// A block of the file. A misspelt kind is read as the one that was meant.
    fn top_block(&mut self, mut block: Block) -> Option<Block> {
        if TOP_KINDS.contains(&block.kind.text.as_str()) {
            if block.body.is_some() {
                return Some(block);
            }
            let (head, kind) = (block.head(), &block.kind.text);
            self.report(
                Diagnostic::error(
                    "step::syntax::expected",
                    format!("expected `{{` after the head of this {kind}"),
                )
                .label(head, "has no body")
                .help(format!("write `{kind} … {{ … }}`")),
            );
            return None;
        }
        let kind = block.kind.clone();
        let meant = nearest(&kind.text, TOP_KINDS.into_iter().chain(["use", "let"]));
        let fault = Diagnostic::error(
            "step::syntax::unknown_kind",
            format!("`{}` is not an item of a file", kind.text),
        );
        let fault = fault.label(kind.span, "a file holds use, let, model, device, cluster and recipe");
        self.report(match meant {
            Some(meant) => fault.help(format!("did you mean `{meant}`?")).fix(kind.span, meant),
            None => fault.help(format!("a `{}` block belongs inside one of them", kind.text)),
        });
        block.kind.text = meant.filter(|meant| TOP_KINDS.contains(meant))?.to_owned();
        block.body.is_some().then_some(block)
    }

    /// The statements of a `file` or a `body`.
    fn pieces(&mut self, pair: Pair<'_, Rule>, level: Level) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut previous_end = 0;
        let mut cursor = Cursor::over(pair).peekable();
        while let Some(pair) = cursor.next() {
            if pair.as_rule() == Rule::gap {
                if let Some(next) = cursor.peek().filter(|next| !faults::is_fault(next.as_rule())) {
                    faults::missing_separator(self, previous_end, next);
                }
                continue;
            }
            previous_end = self.places.of(&pair).end;
            pieces.extend(self.piece(pair, level));
        }
        pieces
    }

    fn piece(&mut self, pair: Pair<'_, Rule>, level: Level) -> Option<Piece> {
        let stmt = match pair.as_rule() {
            Rule::use_stmt => return self.use_stmt(pair, level),
            Rule::let_stmt => self.let_stmt(pair),
            Rule::require_stmt => self.require_stmt(pair),
            Rule::if_stmt => self.if_stmt(pair),
            Rule::attr => self.attr(pair),
            Rule::block => self.block(pair).map(Stmt::Block),
            Rule::block_twin => faults::block_twin(self, pair),
            Rule::attr_twin | Rule::attr_bare => {
                // At the level of the file the twin itself is mistake enough.
                let attr = faults::attr_twin(self, pair);
                if level == Level::File { None } else { attr }
            }
            Rule::faulty_block => self.faulty_block(pair, level),
            Rule::faulty | Rule::faulty_line | Rule::stray => {
                faults::chunk(self, &pair, level == Level::File);
                None
            }
            _ => self.internal(&pair),
        };
        stmt.map(Piece::Stmt)
    }

    fn use_stmt(&mut self, pair: Pair<'_, Rule>, level: Level) -> Option<Piece> {
        let span = self.places.of(&pair);
        let path = Cursor::over(pair).child(Rule::string)?;
        if level == Level::Block {
            self.report(
                Diagnostic::error("step::syntax::misplaced", "`use` stands inside a block")
                    .label(span, "not allowed here")
                    .help("move it to the top of the file"),
            );
            return None;
        }
        Some(Piece::Use { path: literal::string(&path, self.places, self.sink), span })
    }

    fn let_stmt(&mut self, pair: Pair<'_, Rule>) -> Option<Stmt> {
        let mut cursor = Cursor::over(pair);
        let name = cursor.child(Rule::ident)?;
        let value = cursor.child(Rule::expr)?;
        Some(Stmt::Let(Let { name: self.ident(name), value: self.expr(value)? }))
    }

    fn attr(&mut self, pair: Pair<'_, Rule>) -> Option<Stmt> {
        let mut cursor = Cursor::over(pair);
        let key = cursor.child(Rule::ident)?;
        let value = cursor.child(Rule::expr)?;
        Some(Stmt::Attr { key: self.ident(key), value: self.expr(value)? })
    }

    fn require_stmt(&mut self, pair: Pair<'_, Rule>) -> Option<Stmt> {
        let span = self.places.of(&pair);
        let mut cursor = Cursor::over(pair);
        let cond = cursor.child(Rule::expr)?;
        let cond = self.expr(cond);
        if let Some(comma) = cursor.child(Rule::wrong_else) {
            faults::wrong_else(self, &comma);
        }
        let message = cursor
            .child(Rule::string)
            .map(|text| (literal::string(&text, self.places, self.sink), self.places.of(&text)));
        Some(Stmt::Require { cond: cond?, message, span })
    }

    /// `kind name? (: base)? (for target)? body?`
    fn block(&mut self, pair: Pair<'_, Rule>) -> Option<Block> {
        let span = self.places.of(&pair);
        let mut cursor = Cursor::over(pair);
        let kind = cursor.child(Rule::ident)?;
        let mut part = |rule| cursor.child(rule).and_then(|part| Cursor::over(part).child(Rule::ident));
        let (name, base, target) = (part(Rule::name), part(Rule::base), part(Rule::target));
        let body = cursor.child(Rule::body).map(|body| self.body(body));
        let ident = |pair: Option<Pair<'_, Rule>>| pair.map(|pair| self.ident(pair));
        let (name, base, target) = (ident(name), ident(base), ident(target));
        Some(Block { kind: self.ident(kind), name, base, target, body, span })
    }

    pub(super) fn body(&mut self, pair: Pair<'_, Rule>) -> Vec<Stmt> {
        let pieces = self.deeper(1, &pair.clone(), |builder| Some(builder.pieces(pair, Level::Block)));
        let stmts = pieces.unwrap_or_default().into_iter().filter_map(|piece| match piece {
            Piece::Stmt(stmt) => Some(stmt),
            Piece::Use { .. } => None,
        });
        stmts.collect()
    }

    /// Conditions and bodies in turn and perhaps a last body, folded from the end.
    fn if_stmt(&mut self, pair: Pair<'_, Rule>) -> Option<Stmt> {
        let span = self.places.of(&pair);
        let levels = pair.clone().into_inner().filter(|part| part.as_rule() == Rule::body).count();
        self.deeper(levels, &pair.clone(), |builder| {
            let mut cursor = Cursor::over(pair);
            let (mut arms, mut last) = (Vec::new(), Vec::new());
            while let Some(part) = cursor.next() {
                if part.as_rule() == Rule::body {
                    last = builder.body(part);
                    continue;
                }
                let start = builder.places.of(&part).start;
                let cond = builder.expr(part);
                let then = cursor.child(Rule::body).map(|body| builder.body(body)).unwrap_or_default();
                arms.push((cond, then, start));
            }
            let mut otherwise = last;
            for (cond, then, start) in arms.into_iter().rev() {
                let arm = Span { start, ..span };
                otherwise = vec![Stmt::If { cond: cond?, then, otherwise, span: arm }];
            }
            match otherwise.pop() {
                Some(Stmt::If { cond, then, otherwise, .. }) => {
                    Some(Stmt::If { cond, then, otherwise, span })
                }
                other => other,
            }
        })
    }

    /// A body under a head that cannot be read: the faults inside are told, what it holds is left out.
    fn faulty_block(&mut self, pair: Pair<'_, Rule>, level: Level) -> Option<Stmt> {
        let mut cursor = Cursor::over(pair);
        if let Some(head) = cursor.child(Rule::faulty_head) {
            faults::head(self, &head, level == Level::File);
        }
        if let Some(body) = cursor.child(Rule::body) {
            self.body(body);
        }
        None
    }
}

//! Where a place stands in a text that may be broken: between which blocks, in a key, a name, a value or a path. Found by one
//! pass over the tokens, with the schema to tell where a brace was forgotten; no tree is needed.

use super::tokens::{Kind, Token, Tokens};
use crate::recipe::schema::BlockSchema;
use crate::recipe::{LAYER, item_schema};
use crate::syntax::TOP_KINDS;

/// The head of an open block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Head<'t> {
    pub kind: &'t str,
    pub name: Option<&'t str>,
    pub base: Option<&'t str>,
}

/// What can be written at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Slot<'t> {
    /// Nothing that could be foretold: a comment, a name of the user's choice, a place behind a finished value.
    Nothing,
    /// A statement begins: a key, a block or an item.
    Statement,
    /// The name behind the kind of a block.
    Name { kind: &'t str },
    /// The block that another one copies.
    Base { kind: &'t str },
    /// The device of a profile.
    Target,
    /// An operand of the value of `key`, or of a condition; `path` holds the steps before the last dot.
    Value { key: Option<&'t str>, path: Vec<&'t str> },
    /// The unit of a number that is the value of `key`, or part of it.
    Unit { key: Option<&'t str>, digits: &'t str },
    /// The text of `key`, or without one of `use`; `before` is what stands before the place.
    Text { key: Option<&'t str>, before: &'t str },
}

/// A place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor<'t> {
    pub slot: Slot<'t>,
    /// The blocks around, the outermost first.
    pub blocks: Vec<Head<'t>>,
    /// Keys, and kinds with names, of what else is written in the innermost block.
    pub written: Vec<(&'t str, Option<&'t str>)>,
    /// The bytes of the word at the place; of a text, those behind its last slash.
    pub word: std::ops::Range<usize>,
    /// The function whose arguments these are, and how many of them stand before.
    pub call: Option<(&'t str, usize)>,
}

/// What an opening bracket began.
#[derive(Debug, Clone, Copy)]
enum Opened<'t> {
    File,
    Block(Head<'t>, Option<&'static BlockSchema>),
    /// Statements under a condition.
    Arm,
    /// A value under a condition.
    Branch,
    Group,
    List,
    Call(&'t str),
}

struct Level<'t> {
    opened: Opened<'t>,
    /// The tokens of the statement, argument or element so far.
    stmt: Vec<Token<'t>>,
    written: Vec<(&'t str, Option<&'t str>)>,
    commas: usize,
}

impl<'t> Level<'t> {
    fn new(opened: Opened<'t>) -> Self {
        Level { opened, stmt: Vec::new(), written: Vec::new(), commas: 0 }
    }

    fn holds_statements(&self) -> bool {
        matches!(self.opened, Opened::File | Opened::Block(..) | Opened::Arm)
    }
}

impl<'t> Cursor<'t> {
    /// The place `offset` of `text`, a character boundary.
    pub fn at(text: &'t str, offset: usize) -> Cursor<'t> {
        let mut scan = Scan { levels: vec![Level::new(Opened::File)], offset };
        let mut tokens = Tokens::over(text);
        let (slot, word, rest) = loop {
            let token = tokens.next();
            match token {
                Some(token) if token.end < offset => scan.take(token),
                Some(token) if token.end == offset && !token.is_open_at_end() => scan.take(token),
                Some(token) if token.start < offset || token.is_word_at(offset) => {
                    let (slot, word) = scan.inside(text, token);
                    break (slot, word, Some(token));
                }
                token => break (scan.slot(), offset..offset, token),
            }
        };
        let call = scan.levels.iter().rev().find_map(|level| match level.opened {
            Opened::Call(function) => Some(Some((function, level.commas))),
            Opened::File | Opened::Block(..) | Opened::Arm => Some(None),
            _ => None,
        });
        let blocks = scan.levels.iter().filter_map(|level| match level.opened {
            Opened::Block(head, _) => Some(head),
            _ => None,
        });
        let blocks: Vec<_> = blocks.collect();
        let written = scan.rest_of_block(rest, tokens, blocks.len());
        Cursor { slot, blocks, written, word, call: call.flatten() }
    }
}

struct Scan<'t> {
    /// The brackets that are open, the file around them first.
    levels: Vec<Level<'t>>,
    offset: usize,
}

impl<'t> Scan<'t> {
    fn top(&mut self) -> &mut Level<'t> {
        if self.levels.is_empty() {
            self.levels.push(Level::new(Opened::File));
        }
        let last = self.levels.len() - 1;
        &mut self.levels[last]
    }

    fn take(&mut self, token: Token<'t>) {
        match token.kind {
            Kind::Comment => {}
            Kind::Newline => self.newline(),
            Kind::Mark(b',') => {
                self.top().commas += 1;
                self.end();
            }
            Kind::Mark(b'{') => self.brace(token),
            Kind::Mark(b'}') => {
                self.close(|opened| matches!(opened, Opened::Block(..) | Opened::Arm | Opened::Branch))
            }
            Kind::Mark(b'(') => {
                let function = self.top().stmt.pop_if(|last| last.kind == Kind::Word);
                let opened = function.map_or(Opened::Group, |function| Opened::Call(function.text));
                self.levels.push(Level::new(opened));
            }
            Kind::Mark(b'[') => self.levels.push(Level::new(Opened::List)),
            Kind::Mark(b')') => self.close(|opened| matches!(opened, Opened::Group | Opened::Call(_))),
            Kind::Mark(b']') => self.close(|opened| matches!(opened, Opened::List)),
            Kind::Mark(b'=') => self.assign(token),
            _ => self.top().stmt.push(token),
        }
    }

    /// A line ends a statement that could end there.
    fn newline(&mut self) {
        let top = self.top();
        let goes_on =
            top.stmt.last().is_some_and(|last| matches!(last.kind, Kind::Mark(mark) if mark != b'.'));
        if top.holds_statements() && !goes_on {
            self.end();
        }
    }

    /// Ends a statement, an argument or an element.
    fn end(&mut self) {
        let top = self.top();
        // A block without braces: `scaling none`.
        if let [kind, name] = top.stmt.as_slice()
            && (kind.kind, name.kind) == (Kind::Word, Kind::Word)
        {
            let written = (kind.text, Some(name.text));
            top.written.push(written);
        }
        top.stmt.clear();
    }

    fn assign(&mut self, token: Token<'t>) {
        let key = match self.top().stmt.as_slice() {
            [key] if key.kind == Kind::Word => Some(*key),
            _ => None,
        };
        if let Some(key) = key {
            // `key =` never stands inside of a value: brackets before it were left open.
            while !self.top().holds_statements() && self.levels.len() > 1 {
                self.levels.pop();
                self.top().stmt = vec![key];
            }
            if !key.is_word_at(self.offset) {
                self.top().written.push((key.text, None));
            }
        }
        self.top().stmt.push(token);
    }

    fn brace(&mut self, token: Token<'t>) {
        let stmt = &self.top().stmt;
        let first = stmt.first().filter(|first| first.kind == Kind::Word).map_or("", |first| first.text);
        let is_value = stmt.iter().any(|token| token.kind == Kind::Mark(b'=')) || first == "require";
        let head = head(stmt);
        let inside_value = !self.top().holds_statements();
        if is_value || (inside_value && !self.is_forgotten(head)) {
            return self.levels.push(Level::new(Opened::Branch));
        }
        if first == "if" || first == "else" {
            return self.levels.push(Level::new(Opened::Arm));
        }
        let offset = self.offset;
        let typed = token.start >= offset && self.top().stmt.iter().any(|word| word.is_word_at(offset));
        let schema = self.make_room(head);
        let top = self.top();
        top.stmt.clear();
        if !typed {
            top.written.push((head.kind, head.name));
        }
        self.levels.push(Level::new(Opened::Block(head, schema)));
    }

    /// Whether a value around was left open: the block around it can hold what begins here.
    fn is_forgotten(&self, head: Head<'_>) -> bool {
        let block = self.levels.iter().rev().find_map(|level| match level.opened {
            Opened::Block(_, schema) => Some(schema),
            _ => None,
        });
        block.flatten().and_then(|schema| schema.field(head.kind)).is_some_and(|field| field.ty.is_block())
    }

    /// Closes the blocks that cannot hold such a block where one around them can. Gives what it holds.
    fn make_room(&mut self, head: Head<'_>) -> Option<&'static BlockSchema> {
        let fits = |level: &Level<'_>| match level.opened {
            Opened::File => TOP_KINDS.contains(&head.kind).then(|| item_schema(head.kind)),
            Opened::Block(_, None) => Some(None),
            Opened::Block(_, Some(schema)) => inner(schema, head),
            _ => None,
        };
        let mut found = None;
        for (index, level) in self.levels.iter().enumerate().rev() {
            if let Some(schema) = fits(level) {
                found = Some((index, schema));
                break;
            }
        }
        let (index, schema) = found?;
        let arms = self.levels[index + 1..].iter().all(|level| matches!(level.opened, Opened::Arm));
        if !arms {
            self.levels.truncate(index + 1);
        }
        schema
    }

    fn close(&mut self, closes: impl Fn(&Opened<'t>) -> bool) {
        let Some(index) = self.levels.iter().rposition(|level| closes(&level.opened)) else { return };
        let value = matches!(
            self.levels[index].opened,
            Opened::Branch | Opened::Group | Opened::List | Opened::Call(_)
        );
        if value && self.levels[index + 1..].iter().any(Level::holds_statements) {
            return;
        }
        self.levels.truncate(index.max(1));
        match value {
            true => self.top().stmt.push(Token::OPERAND),
            false => self.top().stmt.clear(),
        }
    }

    /// The slot of a place inside of `token`, and the bytes of the word there.
    fn inside(&mut self, text: &'t str, token: Token<'t>) -> (Slot<'t>, std::ops::Range<usize>) {
        match token.kind {
            Kind::Word => match self.slot() {
                Slot::Nothing => (Slot::Nothing, self.offset..self.offset),
                slot => (slot, token.start..token.end),
            },
            Kind::Number => {
                let digits = token.text.find(|c: char| !c.is_ascii_digit() && !"._".contains(c));
                let digits = &token.text[..digits.unwrap_or(token.text.len())];
                match self.slot() {
                    Slot::Value { key, path } if path.is_empty() => {
                        (Slot::Unit { key, digits }, token.start..token.end)
                    }
                    _ => (Slot::Nothing, self.offset..self.offset),
                }
            }
            Kind::Text => {
                let before = text.get(token.start + 1..self.offset).unwrap_or_default();
                let word = self.offset - before.rsplit('/').next().unwrap_or_default().len();
                let closed = token.text.len() > 1 && token.text.ends_with('"');
                let end = if closed { token.end - 1 } else { token.end };
                let after = text.get(self.offset..end).unwrap_or_default();
                let after = if closed { after.find('/').unwrap_or(after.len()) } else { 0 };
                let uses = self.top().stmt.first().is_some_and(|first| first.text == "use");
                let slot = match self.key() {
                    None if !uses => Slot::Nothing,
                    key => Slot::Text { key, before },
                };
                (slot, word..self.offset + after)
            }
            _ => (Slot::Nothing, self.offset..self.offset),
        }
    }

    /// What can stand behind the tokens so far.
    fn slot(&mut self) -> Slot<'t> {
        let key = self.key();
        let top = self.top();
        let stmt = top.stmt.as_slice();
        if !top.holds_statements() {
            return operand(stmt, key);
        }
        let Some(first) = stmt.first() else { return Slot::Statement };
        let assign = stmt.iter().position(|token| token.kind == Kind::Mark(b'='));
        match (first.text, assign) {
            (_, Some(assign)) => operand(&stmt[assign + 1..], key),
            ("require" | "if", None) => operand(&stmt[1..], None),
            ("let" | "use", None) => Slot::Nothing,
            (kind, None) => match stmt {
                [_] if first.kind == Kind::Word => Slot::Name { kind },
                [.., last] if last.kind == Kind::Mark(b':') => Slot::Base { kind },
                [.., last] if last.text == "for" => Slot::Target,
                _ => Slot::Nothing,
            },
        }
    }

    /// The key whose value is being written.
    fn key(&self) -> Option<&'t str> {
        let level = self.levels.iter().rev().find(|level| level.holds_statements())?;
        match level.stmt.as_slice() {
            [key, assign, ..] if key.kind == Kind::Word && assign.kind == Kind::Mark(b'=') => Some(key.text),
            _ => None,
        }
    }

    /// What is written in the block that is the innermost now, to its end.
    fn rest_of_block(
        mut self,
        token: Option<Token<'t>>,
        tokens: Tokens<'t>,
        depth: usize,
    ) -> Vec<(&'t str, Option<&'t str>)> {
        let is_block = |level: &Level<'t>| matches!(level.opened, Opened::Block(..));
        let Some(block) = self.levels.iter().rposition(is_block) else { return Vec::new() };
        let mut written = std::mem::take(&mut self.levels[block].written);
        for token in token.into_iter().chain(tokens) {
            self.take(token);
            if self.levels.iter().filter(|level| is_block(level)).count() < depth
                || self.levels.len() <= block
            {
                return written;
            }
            written.append(&mut self.levels[block].written);
        }
        written
    }
}

/// What a block inside one of `schema` holds; `None` where it cannot stand there, `Some(None)` where that is not known.
fn inner(schema: &'static BlockSchema, head: Head<'_>) -> Option<Option<&'static BlockSchema>> {
    const LAYERS: &BlockSchema = &LAYER;
    match schema.field(head.kind) {
        Some(field) if head.kind == "layer" && field.ty.is_block() => Some(Some(LAYERS)),
        Some(_) if head.kind == "profile" => Some(item_schema("recipe")),
        Some(field) => field.ty.is_block().then(|| field.ty.body(head.name)),
        // Blocks of the model by their names.
        None if std::ptr::eq(schema, LAYERS) => (!TOP_KINDS.contains(&head.kind)).then_some(None),
        None => None,
    }
}

/// `kind name? (: base)?`
fn head<'t>(stmt: &[Token<'t>]) -> Head<'t> {
    let word =
        |index: usize| stmt.get(index).filter(|token| token.kind == Kind::Word).map(|token| token.text);
    let colon = stmt.iter().position(|token| token.kind == Kind::Mark(b':'));
    let name = word(1).filter(|word| *word != "for");
    Head { kind: word(0).unwrap_or_default(), name, base: colon.and_then(|colon| word(colon + 1)) }
}

/// The slot behind these tokens of an expression.
fn operand<'t>(tokens: &[Token<'t>], key: Option<&'t str>) -> Slot<'t> {
    let mut path = Vec::new();
    let mut rest = tokens;
    while let [before @ .., step, dot] = rest
        && (step.kind, dot.kind) == (Kind::Word, Kind::Mark(b'.'))
    {
        path.insert(0, step.text);
        rest = before;
    }
    match rest.last() {
        None => Slot::Value { key, path },
        Some(last) => match (last.kind, last.text) {
            (Kind::Mark(b'.'), _) => Slot::Nothing,
            (Kind::Mark(_), _) | (Kind::Word, "if" | "else" | "and" | "or" | "not") => {
                Slot::Value { key, path }
            }
            _ => Slot::Nothing,
        },
    }
}

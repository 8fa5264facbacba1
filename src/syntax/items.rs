//! A file an item at a time, so that after an edit only what was edited is read again.

use super::TOP_KINDS;
use super::mend::{Mended, Repairs};
use super::parser::{mend, read};
use super::scan::{Kind, Token, scan};
use super::tree::{File, Item};
use crate::base::{FileId, Span};
use crate::diag::Sink;
use std::collections::HashMap;
use std::mem;
use std::ops::Range;

/// Words behind which a value or a statement goes on.
const OPEN_WORDS: [&str; 9] = ["use", "let", "require", "if", "else", "for", "or", "and", "not"];

/// Reads files, and may remember the items without mistakes.
#[derive(Debug, Default)]
pub struct Parser {
    remembers: bool,
    known: HashMap<Box<str>, Known>,
    /// What has been read since the last [`Parser::forget`].
    recent: HashMap<Box<str>, Known>,
}

/// What a stretch of text was read as, and where it began.
#[derive(Debug)]
struct Known {
    start: usize,
    items: Vec<Item>,
}

impl Known {
    /// The same items where the text begins at `start` of the file `id`.
    fn at(&self, id: FileId, start: usize) -> Vec<Item> {
        let mut items = self.items.clone();
        let moved = |at: u32| (at as usize + start - self.start) as u32;
        for item in &mut items {
            item.visit_places(&mut |span| {
                *span = Span { file: id, start: moved(span.start), end: moved(span.end) }
            });
        }
        items
    }
}

impl Parser {
    /// A parser that is quick with what it has read before.
    pub fn with_memory() -> Parser {
        Parser { remembers: true, ..Parser::default() }
    }

    /// Reads a file. What cannot be read is reported and left out of the tree.
    pub fn parse(&mut self, id: FileId, text: &str, sink: &mut Sink) -> File {
        let (mended, tokens) = mend(id, text, sink);
        let mut items = Vec::new();
        for range in pieces(&mended, &tokens) {
            match self.piece(id, &mended, range, sink) {
                Some(read) => items.extend(read),
                None => break,
            }
        }
        File { id, items }
    }

    /// Forgets what has not been read since the last call.
    pub fn forget(&mut self) {
        self.known = mem::take(&mut self.recent);
    }

    /// The items of a stretch of the mended text. `None` where the file is none of the language.
    fn piece(
        &mut self,
        id: FileId,
        mended: &Mended,
        range: Range<usize>,
        sink: &mut Sink,
    ) -> Option<Vec<Item>> {
        let (text, start) = (&mended.text[range.clone()], mended.original(range.start));
        let is_copy = mended.is_copy(&range);
        if is_copy && let Some((text, known)) = self.known.remove_entry(text) {
            self.recent.insert(text, known);
        }
        if let Some(known) = self.recent.get(text).filter(|_| is_copy) {
            return Some(known.at(id, start));
        }
        let mut own = Sink::default();
        let items = read(id, mended, range.clone(), &mut own);
        let is_sound = is_copy && own.is_empty() && !mended.has_guesses();
        if let Some(items) = items.as_ref().filter(|_| self.remembers && is_sound) {
            self.recent.insert(text.into(), Known { start, items: items.clone() });
        }
        sink.extend(own.finish());
        items
    }
}

/// Stretches of the mended text that can be read by themselves: a line that begins with a kind of item or with `use` or
/// `let`, outside of all brackets, behind something that is complete, begins a new one.
fn pieces(mended: &Mended, tokens: &[Token]) -> Vec<Range<usize>> {
    let text = &mended.text;
    let word = |token: &Token| &text[token.start..token.end];
    let is_complete = |token: &Token| match token.kind {
        Kind::Close(_) | Kind::Str => true,
        Kind::Word => !word(token).ends_with('.') && !OPEN_WORDS.contains(&word(token)),
        _ => false,
    };
    let (mut cuts, mut depth, mut before) = (vec![0], 0_usize, None);
    for (index, token) in tokens.iter().enumerate() {
        match token.kind {
            Kind::Newline => continue,
            Kind::Open(_) => depth += 1,
            Kind::Close(_) => depth = depth.saturating_sub(1),
            Kind::Word if depth == 0 && (token.start == 0 || text.as_bytes()[token.start - 1] == b'\n') => {
                let begins = TOP_KINDS.contains(&word(token)) || matches!(word(token), "use" | "let");
                let named =
                    tokens.get(index + 1).is_some_and(|next| matches!(next.kind, Kind::Word | Kind::Str));
                if begins && named && before.is_none_or(is_complete) && token.start > 0 {
                    cuts.push(token.start);
                }
            }
            _ => {}
        }
        before = Some(token);
    }
    cuts.push(text.len());
    cuts.windows(2).map(|cut| cut[0]..cut[1]).collect()
}

/// The tokens of a text that has been mended.
pub(super) fn tokens_of(mended: &Mended) -> Vec<Token> {
    scan(FileId(0), &mended.text, &mut Repairs::default(), &mut Sink::default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::source::floor;
    use crate::diag::Diagnostic;

    const TEXTS: [&str; 4] = [
        include_str!("../../recipes/step35_flash.step"),
        include_str!("../../recipes/models/step35.step"),
        include_str!("../../recipes/models/gemma3.step"),
        include_str!("../../docs/errors/small.step"),
    ];

    /// The whole file at once.
    fn whole(text: &str) -> (File, Vec<Diagnostic>) {
        let mut sink = Sink::default();
        let (mended, _) = mend(FileId(0), text, &mut sink);
        let items = read(FileId(0), &mended, 0..mended.text.len(), &mut sink).unwrap_or_default();
        (File { id: FileId(0), items }, sink.finish())
    }

    fn again(parser: &mut Parser, text: &str) -> (File, Vec<Diagnostic>) {
        let mut sink = Sink::default();
        let file = parser.parse(FileId(0), text, &mut sink);
        parser.forget();
        (file, sink.finish())
    }

    #[test]
    fn an_item_at_a_time_is_the_whole() {
        let odd = [
            "let x = 1 +\nmodel m {\n}\n",
            "let x = 0..\nlet y = 2\n",
            "let x =\nlet y = 1\n",
            "recipe a\nrecipe b {\n",
            "model m\n{\n a = 1\n}\nuse \"x\"\nlet z = if true { 1 }\nlet w = 1\n",
            "let x = not\nmodel m { a = 1 }\n",
            "/* model m { */ let a = 1\nmodel m { /*\nmodel n { */ b = 'x' }\nlet c = 1 2\n",
            "{ \"a\": 1 }\nmodel m { a = 1 }\n",
            "a: 1\nmodel m {}\n",
            "model m:\nmodel n {\n}\n",
        ];
        let mut parser = Parser::with_memory();
        for text in odd.iter().chain(&TEXTS) {
            assert_eq!(again(&mut parser, text), whole(text), "{text}");
        }
    }

    #[test]
    fn edits_change_what_they_touch() {
        let text = TEXTS.concat();
        let mut parser = Parser::with_memory();
        again(&mut parser, &text);
        // Every so often something goes, comes, or both: brackets, quotes, ends of lines.
        let places = (0..text.len()).step_by(397).filter(|at| text.is_char_boundary(*at));
        for (count, at) in places.enumerate() {
            let come = ["", "{", "}", "\"", "\n", "/*", "let x =\n", "model new {\n}\n"][count % 8];
            let end = floor(&text, at + count % 7);
            let edited = [&text[..at], come, &text[end..]].concat();
            assert_eq!(again(&mut parser, &edited), whole(&edited), "{at} to {end} became {come:?}");
        }
    }
}

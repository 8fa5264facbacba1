//! Brackets that lack their partner. The matcher reports them and edits the text until it balances; where a brace was
//! forgotten is told by indentation, but only in a file whose braces do not balance anyway.

use super::DEPTH_LIMIT;
use super::mend::{Edit, Repairs};
use super::scan::{Kind, Token};
use crate::base::{FileId, Span};
use crate::diag::{Diagnostic, Sink};

/// How many brackets left open at the end of a file are reported; more than these are one mistake.
const OPEN_AT_END: usize = 3;

/// Adds to `repairs` what balances the brackets of `tokens`.
pub(super) fn balance(file: FileId, text: &str, tokens: &[Token], repairs: &mut Repairs, sink: &mut Sink) {
    let (missing, excess) = count(tokens);
    let mut matcher =
        Matcher { file, text, tokens, repairs, sink, stack: Vec::new(), missing, excess, previous_end: 0 };
    matcher.run();
}

/// Braces without a closing one, and closing ones without an open one.
fn count(tokens: &[Token]) -> (usize, usize) {
    let (mut depth, mut excess) = (0usize, 0);
    for token in tokens {
        match token.kind {
            Kind::Open(b'{') => depth += 1,
            Kind::Close(b'}') if depth == 0 => excess += 1,
            Kind::Close(b'}') => depth -= 1,
            _ => {}
        }
    }
    (depth, excess)
}

/// A bracket that waits for its partner.
struct Open {
    at: usize,
    bracket: u8,
    /// Indentation of the line that opened it, and of the first line inside.
    indent: usize,
    inside: Option<usize>,
    /// An `if` stands inside a parenthesis, so braces may too.
    has_if: bool,
}

struct Matcher<'a> {
    file: FileId,
    text: &'a str,
    tokens: &'a [Token],
    repairs: &'a mut Repairs,
    sink: &'a mut Sink,
    stack: Vec<Open>,
    missing: usize,
    excess: usize,
    previous_end: usize,
}

impl Matcher<'_> {
    fn run(&mut self) {
        let mut indent = 0;
        let mut first = true;
        let mut at = 0;
        while let Some(token) = self.tokens.get(at).copied() {
            if token.kind == Kind::Newline {
                first = true;
                at += 1;
                continue;
            }
            if first {
                indent = self.indent(token.start);
                self.line_start(at, token, indent);
            }
            match token.kind {
                Kind::Open(_) if self.stack.len() >= DEPTH_LIMIT => {
                    at = self.too_deep(at);
                    first = false;
                    continue;
                }
                Kind::Open(bracket) => self.open(token, bracket, indent),
                Kind::Close(bracket) => self.close(token, bracket, first.then_some(indent)),
                Kind::Word if &self.text[token.start..token.end] == "if" => {
                    if let Some(open) = self.stack.last_mut() {
                        open.has_if = true;
                    }
                }
                _ => {}
            }
            first = false;
            self.previous_end = token.end;
            at += 1;
        }
        self.end();
    }

    /// Indentation of the line that `at` lies on, in characters.
    fn indent(&self, at: usize) -> usize {
        let line = self.text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        self.text[line..at].chars().take_while(|c| matches!(c, ' ' | '\t')).count()
    }

    /// Closes what a new line shows to have been left open.
    fn line_start(&mut self, at: usize, token: Token, indent: usize) {
        if self.begins_statement(at) {
            while self.stack.last().is_some_and(|open| open.bracket != b'{') {
                self.close_missing(self.previous_end, token);
            }
        }
        while self.missing > 0 && self.dedented(token, indent) {
            self.missing -= 1;
            self.close_missing(token.start, token);
        }
        if let Some(open) = self.stack.last_mut()
            && !matches!(token.kind, Kind::Close(_))
        {
            open.inside.get_or_insert(indent);
        }
    }

    /// Whether the line beginning with `token` stands too far left to be inside the innermost block.
    fn dedented(&self, token: Token, indent: usize) -> bool {
        self.stack.last().filter(|open| open.bracket == b'{').is_some_and(|open| match token.kind {
            Kind::Close(b'}') => {
                indent < open.indent && open.inside.is_none_or(|inside| inside > open.indent)
            }
            Kind::Word => indent <= open.indent && open.inside.is_some_and(|inside| inside > open.indent),
            _ => false,
        })
    }

    /// `word =`, `word {`, `word word {` and `word word :` begin a statement wherever a line begins with them.
    fn begins_statement(&self, at: usize) -> bool {
        let kind = |n: usize| self.tokens.get(at + n).map(|token| token.kind);
        let Some(word) = self.tokens.get(at).filter(|token| token.kind == Kind::Word) else { return false };
        match &self.text[word.start..word.end] {
            "if" | "else" => false,
            "let" | "require" => true,
            _ => match kind(1) {
                Some(Kind::Assign | Kind::Open(b'{')) => true,
                Some(Kind::Word) => matches!(kind(2), Some(Kind::Open(b'{') | Kind::Colon)),
                _ => false,
            },
        }
    }

    fn open(&mut self, token: Token, bracket: u8, indent: usize) {
        if bracket == b'{' {
            while self.stack.last().is_some_and(|open| open.bracket != b'{' && !open.has_if) {
                self.close_missing(self.previous_end, token);
            }
        }
        self.stack.push(Open { at: token.start, bracket, indent, inside: None, has_if: false });
    }

    fn close(&mut self, token: Token, bracket: u8, line_indent: Option<usize>) {
        let partner = partner(bracket);
        let Some(open) = self.stack.last() else { return self.stray(token, bracket) };
        let too_far_right =
            |indent| indent > open.indent && open.inside.is_some_and(|inside| inside > open.indent);
        if bracket == b'}'
            && self.excess > 0
            && open.bracket == b'{'
            && line_indent.is_some_and(too_far_right)
        {
            self.excess -= 1;
            return self.stray(token, bracket);
        }
        // A parenthesis looks for its partner inside the innermost block only; a brace closes them all.
        let reachable = |open: &&Open| bracket == b'}' || open.bracket != b'{';
        if !self.stack.iter().rev().take_while(reachable).any(|open| open.bracket == partner) {
            return self.stray(token, bracket);
        }
        while self.stack.last().is_some_and(|open| open.bracket != partner) {
            self.close_missing(self.previous_end, token);
        }
        self.stack.pop();
    }

    /// Reports the innermost open bracket and closes it at `at`; `noticed` is the token that gave it away.
    fn close_missing(&mut self, at: usize, noticed: Token) {
        let Some(open) = self.stack.pop() else { return };
        let close = partner(open.bracket) as char;
        self.report_open(
            &open,
            self.span(noticed.start, noticed.end),
            format!("`{close}` is missing before this"),
        );
        if open.bracket == b'{' {
            self.repairs.edits.push(Edit::insert(at, "}\n"));
        } else {
            self.repairs.edits.push(Edit::insert(at, close.to_string()));
            self.repairs.guesses.push(open.at..at);
        }
    }

    fn stray(&mut self, token: Token, bracket: u8) {
        let (close, open) = (bracket as char, partner(bracket) as char);
        let span = self.span(token.start, token.end);
        self.sink.push(
            Diagnostic::error("step::syntax::stray", format!("this `{close}` closes nothing"))
                .label(span, format!("no `{open}` is open here"))
                .help(format!("remove it, or open a `{open}` before it"))
                .fix(span, ""),
        );
        self.repairs.edits.push(Edit::replace(token.start..token.end, " "));
        self.repairs.guesses.push(token.start..token.end);
    }

    /// Leaves out everything inside a bracket that is one too deep; returns the token to go on with.
    fn too_deep(&mut self, at: usize) -> usize {
        let start = self.tokens[at].start;
        let mut depth = 0usize;
        let mut next = at;
        while let Some(token) = self.tokens.get(next) {
            match token.kind {
                Kind::Open(_) => depth += 1,
                Kind::Close(_) => depth -= 1,
                _ => {}
            }
            next += 1;
            if depth == 0 {
                break;
            }
        }
        let end = self.tokens.get(next - 1).map_or(start, |token| token.end);
        self.sink.push(
            Diagnostic::error(
                "step::syntax::too_deep",
                format!("more than {DEPTH_LIMIT} brackets are open inside one another"),
            )
            .label(self.span(start, start + 1), "one too many")
            .help("name parts of it with `let`"),
        );
        self.repairs.edits.push(Edit::replace(start..end, "0"));
        self.repairs.guesses.push(start..end);
        self.previous_end = end;
        next
    }

    fn report_open(&mut self, open: &Open, noticed: Span, why: String) {
        let (bracket, close) = (open.bracket as char, partner(open.bracket) as char);
        self.sink.push(
            Diagnostic::error("step::syntax::unclosed", format!("this `{bracket}` is never closed"))
                .label(self.span(open.at, open.at + 1), "opened here")
                .label(noticed, why)
                .help(format!("close it with `{close}`")),
        );
    }

    /// Closes what is still open at the end of the file.
    fn end(&mut self) {
        let (end, last) = (self.text.len(), self.text.trim_end().len());
        let mut reported = 0;
        while let Some(open) = self.stack.pop() {
            let close = partner(open.bracket) as char;
            if reported < OPEN_AT_END && !self.repairs.open_comment {
                reported += 1;
                self.report_open(
                    &open,
                    self.span(last, last),
                    format!("`{close}` is missing at the end of the file"),
                );
            }
            // On a line of its own, for the file may end in a comment.
            self.repairs.edits.push(Edit::insert(end, format!("\n{close}")));
            if open.bracket != b'{' {
                self.repairs.guesses.push(open.at..end);
            }
        }
    }

    fn span(&self, start: usize, end: usize) -> Span {
        Span::new(self.file, start, end)
    }
}

fn partner(bracket: u8) -> u8 {
    match bracket {
        b'{' => b'}',
        b'(' => b')',
        b'[' => b']',
        b'}' => b'{',
        b')' => b'(',
        _ => b'[',
    }
}

//! Characters to rough tokens, and the mistakes that are visible a character at a time: open strings and comments, foreign
//! quotes, comments and punctuation, control characters. Each is reported here and mended, so that what follows it is read.

use super::mend::{Edit, Repairs};
use crate::base::{FileId, Span};
use crate::diag::{Diagnostic, Sink};

/// What brackets are matched by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Newline,
    Word,
    Str,
    /// A single `=`.
    Assign,
    /// `:`
    Colon,
    Open(u8),
    Close(u8),
    Other,
}

/// A rough token, `start..end` in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token {
    pub kind: Kind,
    pub start: usize,
    pub end: usize,
}

/// Characters that look like one of the language and are not: what is meant, and the name.
const LOOKALIKES: &[(char, &str, &str)] = &[
    ('，', ",", "full-width comma"),
    ('、', ",", "ideographic comma"),
    ('；', ",", "full-width semicolon"),
    ('：', ":", "full-width colon"),
    ('＝', "=", "full-width equals sign"),
    ('（', "(", "full-width parenthesis"),
    ('）', ")", "full-width parenthesis"),
    ('［', "[", "full-width bracket"),
    ('］', "]", "full-width bracket"),
    ('｛', "{", "full-width brace"),
    ('｝', "}", "full-width brace"),
    ('％', "%", "full-width percent sign"),
    ('−', "-", "minus sign"),
    ('–', "-", "en dash"),
    ('×', "*", "multiplication sign"),
    ('\u{a0}', " ", "no-break space"),
    ('\u{3000}', " ", "ideographic space"),
    ('\u{200b}', " ", "zero-width space"),
    ('\u{feff}', " ", "byte order mark inside the text"),
];

/// Reads `text` into tokens; comments and blanks are left out.
pub(super) fn scan(file: FileId, text: &str, repairs: &mut Repairs, sink: &mut Sink) -> Vec<Token> {
    let mut scanner = Scanner {
        file,
        text,
        at: 0,
        line_end: 0,
        tokens: Vec::new(),
        repairs,
        sink,
        last_foreign_comment: None,
    };
    if text.starts_with('\u{feff}') {
        scanner.at = '\u{feff}'.len_utf8();
        scanner.repairs.edits.push(Edit::replace(0..scanner.at, ""));
    }
    while let Some(c) = scanner.peek(0) {
        scanner.token(c);
    }
    scanner.tokens
}

struct Scanner<'a> {
    file: FileId,
    text: &'a str,
    at: usize,
    /// The end of the line that was last asked for: a file may be one long line.
    line_end: usize,
    tokens: Vec<Token>,
    repairs: &'a mut Repairs,
    sink: &'a mut Sink,
    /// End of the last line that was taken for a foreign comment: a run of such lines is one mistake.
    last_foreign_comment: Option<usize>,
}

impl Scanner<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&self, n: usize) -> Option<char> {
        self.rest().chars().nth(n)
    }

    fn line_end(&mut self) -> usize {
        if self.line_end < self.at || self.line_end == 0 {
            self.line_end = self.rest().find('\n').map_or(self.text.len(), |n| self.at + n);
        }
        self.line_end
    }

    fn span(&self, start: usize, end: usize) -> Span {
        Span::new(self.file, start, end)
    }

    fn push(&mut self, kind: Kind, len: usize) {
        self.tokens.push(Token { kind, start: self.at, end: self.at + len });
        self.at += len;
    }

    fn token(&mut self, c: char) {
        let comment_may_start =
            matches!(self.text[..self.at].chars().next_back(), None | Some(' ' | '\t' | '\n' | '\r'));
        match c {
            ' ' | '\t' | '\r' => self.at += 1,
            '\n' => self.push(Kind::Newline, 1),
            '/' if self.peek(1) == Some('/') => self.at = self.line_end(),
            '/' if self.peek(1) == Some('*') => self.block_comment(),
            '#' => self.foreign_comment("#"),
            '-' if comment_may_start && self.peek(1) == Some('-') => self.foreign_comment("--"),
            '"' => self.string(),
            '\'' | '‘' | '’' | '“' | '”' | '`' => self.foreign_string(c),
            ';' => self.semicolon(),
            '{' | '(' | '[' => self.push(Kind::Open(c as u8), 1),
            '}' | ')' | ']' => self.push(Kind::Close(c as u8), 1),
            ':' => self.push(Kind::Colon, 1),
            '=' | '!' | '<' | '>' => self.comparison(c),
            _ if c.is_ascii_alphanumeric() || c == '_' => {
                let end = self.rest().find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.');
                self.push(Kind::Word, end.unwrap_or(self.rest().len()));
            }
            _ if c.is_control() => self.control(),
            _ => self.lookalike(c),
        }
    }

    fn comparison(&mut self, c: char) {
        match (c, self.peek(1)) {
            (_, Some('=')) => self.push(Kind::Other, 2),
            ('=', Some('>')) => self.push(Kind::Other, 2),
            ('=', _) => self.push(Kind::Assign, 1),
            _ => self.push(Kind::Other, 1),
        }
    }

    fn block_comment(&mut self) {
        if let Some(len) = self.rest()[2..].find("*/") {
            self.at += len + 4;
            return;
        }
        self.sink.push(
            Diagnostic::error("step::syntax::unclosed_comment", "this comment is never closed")
                .label(self.span(self.at, self.at + 2), "opened here, open to the end of the file")
                .help("close it with `*/`, or comment single lines with `//`"),
        );
        self.repairs.open_comment = true;
        self.repairs.edits.push(Edit::replace(self.at..self.text.len(), ""));
        self.repairs.guesses.push(self.at..self.text.len());
        self.at = self.text.len();
    }

    fn foreign_comment(&mut self, mark: &'static str) {
        let (end, start) = (self.line_end(), self.at);
        let continues = self.last_foreign_comment.is_some_and(|last| {
            let between = &self.text[last..start];
            between.trim().is_empty() && between.matches('\n').count() <= 1
        });
        if !continues {
            self.sink.push(
                Diagnostic::error("step::syntax::comment", format!("`{mark}` does not begin a comment"))
                    .label(self.span(start, start + mark.len()), "comments begin with `//`")
                    .help("write `//`")
                    .fix(self.span(start, start + mark.len()), "//"),
            );
        }
        self.last_foreign_comment = Some(end);
        self.repairs.edits.push(Edit::replace(start..end, ""));
        self.at = end;
    }

    fn string(&mut self) {
        let (line_end, start) = (self.line_end(), self.at);
        if let Some(len) = string_len(&self.text[start..line_end]) {
            self.push(Kind::Str, len);
            return;
        }
        // Closing brackets and commas at the end of the line are not thought to be part of the text.
        let content = self.text[start + 1..line_end].trim_end_matches([' ', '\t', '\r', ',', '}', ')', ']']);
        let content = content.strip_suffix('\\').unwrap_or(content);
        let end = start + 1 + content.len();
        self.sink.push(
            Diagnostic::error("step::syntax::unclosed_string", "this string is never closed")
                .label(self.span(start, start + 1), "opened here")
                .help("a string ends on its line: close it with `\"`")
                .fix(self.span(end, end), "\""),
        );
        self.repairs.edits.push(Edit::insert(end, "\""));
        self.repairs.guesses.push(start..end);
        self.push(Kind::Str, end - start);
    }

    fn foreign_string(&mut self, quote: char) {
        let (line_end, start) = (self.line_end(), self.at);
        let inner = start + quote.len_utf8();
        let closing: &[char] = match quote {
            '\'' => &['\''],
            '`' => &['`'],
            '‘' | '’' => &['’', '‘'],
            _ => &['”', '“', '"'],
        };
        let Some((len, end_quote)) =
            self.text[inner..line_end].char_indices().find(|(_, c)| closing.contains(c))
        else {
            self.push(Kind::Other, quote.len_utf8());
            return;
        };
        let (close, end) = (inner + len, inner + len + end_quote.len_utf8());
        let content = self.text[inner..close].replace('\\', "\\\\").replace('"', "\\\"");
        let mended = format!("\"{content}\"");
        self.sink.push(
            Diagnostic::error("step::syntax::quotes", "text stands in double quotes")
                .label(self.span(start, end), format!("quoted with {quote}"))
                .help(format!("write `{mended}`"))
                .fix(self.span(start, end), mended.clone()),
        );
        self.repairs.edits.push(Edit::replace(start..end, mended));
        self.push(Kind::Str, end - start);
    }

    fn semicolon(&mut self) {
        let line_end = self.line_end();
        let after = self.text[self.at + 1..line_end].trim_start();
        let last = after.is_empty() || after.starts_with('}') || after.starts_with("//");
        let text = if last { "" } else { "," };
        self.sink.push(
            Diagnostic::error("step::syntax::semicolon", "a statement does not end with `;`")
                .label(self.span(self.at, self.at + 1), "not needed")
                .help("a comma or a new line parts statements")
                .fix(self.span(self.at, self.at + 1), text),
        );
        self.repairs.edits.push(Edit::replace(self.at..self.at + 1, if last { " " } else { "," }));
        self.at += 1;
    }

    fn control(&mut self) {
        let (start, rest) = (self.at, self.rest());
        let len = rest.find(|c: char| !c.is_control() || c == '\n').unwrap_or(rest.len());
        let first = rest.chars().next().map_or(0, u32::from);
        self.sink.push(
            Diagnostic::error(
                "step::syntax::control_character",
                format!("control character U+{first:04X} in the text"),
            )
            .label(self.span(start, start + len), "not a printable character")
            .help("remove it; is this a text file?")
            .fix(self.span(start, start + len), ""),
        );
        self.repairs.edits.push(Edit::replace(start..start + len, " "));
        self.at += len;
    }

    fn lookalike(&mut self, c: char) {
        let len = c.len_utf8();
        let Some((_, meant, name)) = LOOKALIKES.iter().find(|(odd, ..)| *odd == c) else {
            self.push(Kind::Other, len);
            return;
        };
        let message = match *meant {
            " " => format!("{name} (U+{:04X}) where a plain space belongs", u32::from(c)),
            meant => format!("`{c}` is a {name}, not `{meant}`"),
        };
        self.sink.push(
            Diagnostic::error("step::syntax::lookalike", message)
                .label(self.span(self.at, self.at + len), "")
                .help(if *meant == " " { "type a space".to_owned() } else { format!("write `{meant}`") })
                .fix(self.span(self.at, self.at + len), *meant),
        );
        self.repairs.edits.push(Edit::replace(self.at..self.at + len, *meant));
        let kind = match meant.as_bytes()[0] {
            open @ (b'{' | b'(' | b'[') => Kind::Open(open),
            close @ (b'}' | b')' | b']') => Kind::Close(close),
            b'=' => Kind::Assign,
            b':' => Kind::Colon,
            _ => Kind::Other,
        };
        if *meant == " " { self.at += len } else { self.push(kind, len) }
    }
}

/// The length of the string literal `line` begins with, quotes included, if it ends there.
fn string_len(line: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in line.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

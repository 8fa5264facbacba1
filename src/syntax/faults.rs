//! What to say about text that is no statement: twins (wrong, but clear) and faulty chunks.
//!
//! A chunk is parsed again on its own, strictly; the rules pest tried last become the expected set, in words.

use super::cursor::{Cursor, Grammar, Rule};
use super::literal;
use super::mend::Repairs;
use super::parser::{Builder, TOP_KINDS};
use super::scan::{Kind, scan};
use super::tree::{Block, Ident, Stmt};
use crate::base::{FileId, Span};
use crate::diag::suggest::nearest;
use crate::diag::{Diagnostic, Sink};
use pest::Parser;
use pest::error::{Error, ErrorVariant, InputLocation};
use pest::iterators::Pair;

/// Longest piece of text that a message repeats, in characters.
const SHOWN: usize = 24;

/// Whether a pair will be reported as a chunk that could not be read.
pub(super) fn is_fault(rule: Rule) -> bool {
    matches!(rule, Rule::faulty | Rule::faulty_line | Rule::faulty_block | Rule::stray)
}

// ---- twins

/// Two statements with nothing between them; `previous_end` is where the first one ends in the file.
pub(super) fn missing_separator(builder: &mut Builder<'_>, previous_end: u32, next: &Pair<'_, Rule>) {
    let (start, word) = (next.as_span().start(), first_token(next.as_str()));
    let span = builder.places.range(start, start + word.len());
    builder.report(
        Diagnostic::error(
            "step::syntax::separator",
            format!("expected a comma or a new line before `{word}`"),
        )
        .label(span, "a second statement begins here")
        .help("part the two with `,` or a new line")
        .fix(Span { start: previous_end.min(span.start), end: span.start, ..span }, ", "),
    );
}

pub(super) fn wrong_else(builder: &mut Builder<'_>, comma: &Pair<'_, Rule>) {
    let span = builder.places.of(comma);
    builder.report(
        Diagnostic::error("step::syntax::expected", "expected `else` before the message of `require`")
            .label(span, "`else` belongs here")
            .help("write `require CONDITION else \"message\"`")
            .fix(span, " else"),
    );
}

/// `key: value`, `key == value`, `"key": value`, `key value`.
pub(super) fn attr_twin(builder: &mut Builder<'_>, pair: Pair<'_, Rule>) -> Option<Stmt> {
    let span = builder.places.of(&pair);
    let mut cursor = Cursor::over(pair);
    let key = key(builder, &mut cursor)?;
    let mark = cursor.child(Rule::wrong_assign);
    let value = cursor.child(Rule::expr)?;
    let shown = format!("{} = {}", key.text, one_line(value.as_str()));
    let behind = Span { start: key.span.end, end: builder.places.of(&value).start, ..span };
    let (message, place) = match &mark {
        Some(mark) if mark.as_str() == "==" => {
            ("`==` compares; a value is set with `=`".to_owned(), builder.places.of(mark))
        }
        Some(mark) if mark.as_str() != "=" => {
            (format!("a value is set with `=`, not `{}`", mark.as_str()), builder.places.of(mark))
        }
        Some(_) => ("the name of a field is written without quotes".to_owned(), key.span),
        None => (format!("`=` is missing between `{}` and its value", key.text), behind),
    };
    let whole = Span { end: builder.places.of(&value).end, ..key.span };
    builder.report(
        Diagnostic::error("step::syntax::assignment", message)
            .label(place, "expected `=`")
            .help(format!("write `{shown}`"))
            .fix(whole, format!("{} = {}", key.text, value.as_str().trim_end())),
    );
    Some(Stmt::Attr { key, value: builder.expr(value)? })
}

/// `kind: { … }`, `kind = { … }`, `"kind": { … }`.
pub(super) fn block_twin(builder: &mut Builder<'_>, pair: Pair<'_, Rule>) -> Option<Stmt> {
    let span = builder.places.of(&pair);
    let mut cursor = Cursor::over(pair);
    let kind = key(builder, &mut cursor)?;
    let body = cursor.child(Rule::body)?;
    let head = Span { end: builder.places.of(&body).start, ..kind.span };
    builder.report(
        Diagnostic::error(
            "step::syntax::assignment",
            format!("a block is not a value: nothing stands between `{}` and `{{`", kind.text),
        )
        .label(head, "the head of a block")
        .help(format!("write `{} {{ … }}`", kind.text))
        .fix(head, format!("{} ", kind.text)),
    );
    let body = Some(builder.body(body));
    Some(Stmt::Block(Block { kind, name: None, base: None, target: None, body, span }))
}

/// The name in front of a twin's mark, with or without quotes.
fn key(builder: &mut Builder<'_>, cursor: &mut Cursor<'_>) -> Option<Ident> {
    let key = cursor.child_of(&[Rule::ident, Rule::string])?;
    match key.as_rule() {
        Rule::string => {
            let text = literal::string(&key, builder.places, builder.sink);
            Some(Ident { text, span: builder.places.of(&key) })
        }
        _ => Some(builder.ident(key)),
    }
}

// ---- whole files

/// Reports a file that is written in another format altogether, once.
pub(super) fn foreign_format(builder: &mut Builder<'_>, file: &Pair<'_, Rule>) -> bool {
    let Some(first) = Cursor::over(file.clone()).next() else { return false };
    let text = first.as_str().trim_end();
    let format = match first.as_rule() {
        Rule::faulty if text.starts_with('{') => "JSON",
        Rule::faulty if text.starts_with("---") => "YAML",
        Rule::faulty if text.ends_with(':') && !text.contains(' ') => "YAML",
        Rule::faulty if text.starts_with('[') && text.ends_with(']') => "TOML",
        _ => return false,
    };
    let start = first.as_span().start();
    let span = builder.places.range(start, start + first_token(text).len());
    builder.report(
        Diagnostic::error(
            "step::syntax::foreign_format",
            format!("this looks like {format}, not like a recipe"),
        )
        .label(span, "expected use, let, model, device, cluster or recipe")
        .help("a recipe is written `recipe NAME { train { steps = 10 } }`"),
    );
    true
}

// ---- chunks

/// A chunk that is no statement.
pub(super) fn chunk(builder: &mut Builder<'_>, pair: &Pair<'_, Rule>, top: bool) {
    let text = code(pair);
    let fault = Fault::find(Rule::strict_stmt, text, text);
    report(builder, pair.as_span().start(), text, &fault, top);
}

/// The head of a block that is no head.
pub(super) fn head(builder: &mut Builder<'_>, pair: &Pair<'_, Rule>, top: bool) {
    let text = code(pair);
    let fault = Fault::find(Rule::strict_head, text, &format!("{text} {{"));
    report(builder, pair.as_span().start(), text, &fault, top);
}

/// The text of a chunk without the blanks and comments at its end. Whatever the scanner would report, it has before.
fn code<'t>(pair: &Pair<'t, Rule>) -> &'t str {
    let text = pair.as_str();
    let tokens = scan(FileId(0), text, &mut Repairs::default(), &mut Sink::default());
    let last = tokens.iter().rev().find(|token| token.kind != Kind::Newline);
    &text[..last.map_or(0, |token| token.end)]
}

/// How far a chunk could be read, and what would have let it go on.
struct Fault {
    at: usize,
    expected: Vec<&'static str>,
}

impl Fault {
    /// Holds `parsed`, which begins with `text`, against a rule.
    fn find(rule: Rule, text: &str, parsed: &str) -> Self {
        match Grammar::parse(rule, parsed) {
            Ok(_) => Fault { at: 0, expected: Vec::new() },
            Err(error) => match expected(&error) {
                none if none.is_empty() => Fault { at: 0, expected: none },
                expected => Fault { at: location(&error).min(text.len()), expected },
            },
        }
    }
}

fn report(builder: &mut Builder<'_>, start: usize, text: &str, fault: &Fault, top: bool) {
    // Blanks before the place where reading stopped belong to neither side.
    let blank = text[fault.at..].len() - text[fault.at..].trim_start().len();
    let at = fault.at + blank;
    let token = first_token(&text[at..]);
    let place = if token.is_empty() { text.trim_end().len() } else { at };
    let span = builder.places.range(start + place, start + place + token.len());
    let behind = builder.places.text()[start + text.len()..].trim_start_matches([' ', '\t', '\r']);
    let found = match behind.chars().next() {
        _ if !token.is_empty() => format!("`{token}`"),
        Some(next @ (',' | '}')) => format!("`{next}`"),
        _ => "the end of the line".to_owned(),
    };
    let expected = match (at, fault.expected.as_slice()) {
        (0, _) | (_, []) if top => "use, let, model, device, cluster or recipe".to_owned(),
        (0, _) | (_, []) => "a field, a block, `let`, `if` or `require`".to_owned(),
        (_, words) => either(words),
    };
    let mut fault =
        Diagnostic::error("step::syntax::expected", format!("expected {expected}, found {found}"))
            .label(span, format!("expected {expected}"));
    if let Some(help) = hint(text, at, token, top) {
        fault = fault.help(help);
    }
    builder.report(fault);
}

/// What probably was meant by a chunk that could be read up to `at`, where `token` stands.
fn hint(text: &str, at: usize, token: &str, top: bool) -> Option<String> {
    let first = first_token(text);
    let (before, rest) = (text[..at].trim_end(), &text[at..]);
    let misspelt =
        || nearest(first, TOP_KINDS.into_iter().chain(["use", "let"])).filter(|meant| *meant != first);
    Some(match (first, token) {
        _ if RESERVED.contains(&token) && rest[token.len()..].trim_start().starts_with('=') => {
            format!("`{token}` is a word of the language and cannot be a name")
        }
        ("for" | "while", _) => "there are no loops; `layer i { … }` describes every layer i".to_owned(),
        ("import" | "include" | "from", _) => "another file is read with `use \"path.step\"`".to_owned(),
        ("use", _) => "the path stands in quotes: `use \"models/name.step\"`".to_owned(),
        ("else", _) => "`else` follows the `}` of an `if`".to_owned(),
        ("-", _) => "a list is written `key = [a, b]`".to_owned(),
        ("*", "*") if rest.starts_with("*/") => "no comment is open here; comments do not nest".to_owned(),
        ("let", _) => "write `let NAME = VALUE`".to_owned(),
        (_, "?") => "a choice is written `if CONDITION { a } else { b }`".to_owned(),
        (_, "if") if before.contains('=') => "a choice is written `if CONDITION { a } else { b }`".to_owned(),
        (_, "&" | "|") => format!("logic is written `{token}{token}`"),
        (_, "*" | "^") if rest.starts_with("**") || token == "^" => {
            "there is no power operator; multiply".to_owned()
        }
        (_, "+" | "-" | "*" | "/" | "%") if rest[1..].starts_with('=') => {
            "a value is set once, with `=`".to_owned()
        }
        (_, "-") if !before.contains('=') => "a name holds letters, digits and `_`".to_owned(),
        (_, ".") if !before.contains('=') => {
            "a field is set inside its block: `train { steps = 10 }`".to_owned()
        }
        (_, ".") if rest[1..].starts_with(|c: char| c.is_ascii_digit()) => {
            "write a digit before the point: `0.5`".to_owned()
        }
        (_, ".") if before.ends_with(|c: char| c.is_ascii_digit()) => {
            "write a digit behind the point: `1.0`".to_owned()
        }
        (_, "'" | "`" | "“" | "”" | "‘" | "’") => {
            "text stands in double quotes and ends on its line".to_owned()
        }
        (_, ":") if text.ends_with(':') => format!("the body of a block stands in braces: `{first} {{ … }}`"),
        (_, "") if before.ends_with('=') => format!("write a value: `{before} …`"),
        (_, "=") if before.ends_with('=') => "write one `=`".to_owned(),
        (_, "") if before.ends_with('}') && before.contains("if") => {
            "a value needs both branches: `if CONDITION { a } else { b }`".to_owned()
        }
        _ if top => return misspelt().map(|meant| format!("did you mean `{meant}`?")),
        _ if is_word(first) && !text.contains('=') && before.contains(' ') => {
            format!("write `{first} = VALUE`, or `{first} NAME {{ … }}` for a block")
        }
        (_, "") if is_word(text) => format!("write `{text} = VALUE`, or `{text} {{ … }}` for a block"),
        _ => return None,
    })
}

const RESERVED: [&str; 11] =
    ["use", "let", "require", "if", "else", "for", "true", "false", "and", "or", "not"];

// ---- refused input

impl Builder<'_> {
    /// pest gave up on a file: its stack is limited, and the grammar accepts everything else.
    pub(super) fn refused(&mut self, error: &Error<Rule>) {
        let at = location(error).min(self.places.text().len());
        let span = self.places.range(at, at);
        self.sink.push(
            Diagnostic::error(
                "step::syntax::too_deep",
                format!("the file cannot be read: {}", error.variant.message()),
            )
            .label(span, "reading stopped here")
            .help("nest less deeply; name parts with `let`"),
        );
    }

    /// A `--set` argument that is no assignment.
    pub(super) fn bad_assignment(&mut self, error: &Error<Rule>) {
        let text = self.places.text().trim_end();
        let at = location(error).min(text.len());
        let token = first_token(&text[at..]);
        let span = self.places.range(at, at + token.len());
        let found = if token.is_empty() { "the end".to_owned() } else { format!("`{token}`") };
        let expected = match expected(error).as_slice() {
            [] => "`path.to.field=value`".to_owned(),
            words => either(words),
        };
        let help = match text.split_once('=') {
            Some((path, value)) if at > path.len() && !value.trim().is_empty() => {
                format!(
                    "write `path.to.field=value`; text stands in double quotes: '{}=\"{}\"'",
                    path.trim(),
                    value.trim().trim_matches('"')
                )
            }
            _ => "write `path.to.field=value`, for example `train.steps=10`".to_owned(),
        };
        self.report(
            Diagnostic::error("step::syntax::expected", format!("expected {expected}, found {found}"))
                .label(span, format!("expected {expected}"))
                .help(help),
        );
    }
}

fn location(error: &Error<Rule>) -> usize {
    match error.location {
        InputLocation::Pos(at) | InputLocation::Span((at, _)) => at,
    }
}

// ---- words

const VALUE: &str = "a value";
const NAME: &str = "a name";

/// What pest tried where it stopped, in words, each once and in a fixed order.
fn expected(error: &Error<Rule>) -> Vec<&'static str> {
    let ErrorVariant::ParsingError { positives, .. } = &error.variant else { return Vec::new() };
    if positives.iter().all(|rule| *rule == Rule::string) && !positives.is_empty() {
        return vec!["text in double quotes"];
    }
    let mut words: Vec<_> = positives.iter().filter_map(|rule| word(*rule)).collect();
    words.sort_unstable();
    words.dedup();
    // A name is one way to begin a value.
    let value = words.iter().any(|(_, word)| *word == VALUE);
    words.retain(|(_, word)| !value || *word != NAME);
    words.into_iter().map(|(_, word)| word).collect()
}

/// A rule in the user's words, and its place in a list of them.
fn word(rule: Rule) -> Option<(u8, &'static str)> {
    use Rule::*;
    Some(match rule {
        expr | number | string | kw_true | kw_false | if_expr | list | group | call | path | neg | not
        | word_not => (0, VALUE),
        ident | name | segment => (1, NAME),
        assign => (2, "`=`"),
        lbrace | branch | body => (3, "`{`"),
        rparen => (4, "`)`"),
        rbracket => (5, "`]`"),
        kw_else => (6, "`else`"),
        operator | or | and | equal | unequal | at_most | at_least | less | greater | range | plus
        | minus | times | slash | percent => (7, "an operator"),
        comma | EOI => (8, "the end of the statement"),
        _ => return None,
    })
}

/// `a, b or c`
fn either(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}

/// The first word, number or character of a text.
fn first_token(text: &str) -> &str {
    let text = text.trim_start();
    let word = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    match word {
        0 if text.starts_with('"') => quoted(text),
        0 => &text[..text.chars().next().map_or(0, char::len_utf8)],
        word => &text[..word],
    }
}

/// The string a text begins with, or its quote if the string is long.
fn quoted(text: &str) -> &str {
    let end = text[1..].find('"').map_or(1, |end| end + 2);
    if text[..end].chars().count() <= SHOWN { &text[..end] } else { &text[..1] }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The text as a message can repeat it: its first line, cut where it is long.
fn one_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default().trim_end();
    if line.len() == text.trim_end().len() && line.chars().count() <= SHOWN {
        return line.to_owned();
    }
    line.chars().take(SHOWN).chain(['…']).collect()
}

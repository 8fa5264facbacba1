//! Rough tokens of a text in any state, enough to tell where a place stands.

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Newline,
    Comment,
    /// A name or a keyword.
    Word,
    /// A number with the letters right behind it.
    Number,
    /// A text in quotes, which may be open to the end of its line.
    Text,
    /// A value in brackets.
    Operand,
    /// A bracket, an operator, a separator; of two characters the first.
    Mark(u8),
}

/// A token, `start..end` in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'t> {
    pub kind: Kind,
    pub start: usize,
    pub end: usize,
    pub text: &'t str,
}

impl Token<'_> {
    /// A value whose tokens no longer matter.
    pub const OPERAND: Token<'static> = Token { kind: Kind::Operand, start: 0, end: 0, text: "" };

    /// A word or a number that `offset` lies in or touches.
    pub fn is_word_at(&self, offset: usize) -> bool {
        matches!(self.kind, Kind::Word | Kind::Number) && (self.start..=self.end).contains(&offset)
    }

    /// What is typed next may still belong to it.
    pub fn is_open_at_end(&self) -> bool {
        match self.kind {
            Kind::Word | Kind::Number => true,
            Kind::Text => self.text.len() < 2 || !self.text.ends_with('"'),
            Kind::Comment => self.text.starts_with("//") || !self.text.ends_with("*/"),
            _ => false,
        }
    }
}

/// The tokens of a text in their order, without blanks.
#[derive(Debug, Clone)]
pub struct Tokens<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Tokens<'t> {
    pub fn over(text: &'t str) -> Self {
        Tokens { text, at: 0 }
    }
}

impl<'t> Iterator for Tokens<'t> {
    type Item = Token<'t>;

    fn next(&mut self) -> Option<Token<'t>> {
        let bytes = self.text.as_bytes();
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r');
        self.at += bytes[self.at..].iter().take_while(|byte| is_blank(byte)).count();
        let rest = &bytes[self.at..];
        let to_line_end = || run(rest, |byte| byte != b'\n');
        let (kind, len) = match *rest.first()? {
            b'\n' => (Kind::Newline, 1),
            b'/' if rest.get(1) == Some(&b'/') => (Kind::Comment, to_line_end()),
            b'/' if rest.get(1) == Some(&b'*') => {
                let close = rest[2..].windows(2).position(|two| two == b"*/");
                (Kind::Comment, close.map_or(rest.len(), |at| at + 4))
            }
            b'"' => (Kind::Text, text_len(rest)),
            first if first.is_ascii_digit() => (Kind::Number, number_len(rest)),
            first if is_letter(first) => (Kind::Word, run(rest, is_letter)),
            first @ (b'=' | b'!' | b'<' | b'>') if rest.get(1) == Some(&b'=') => {
                (Kind::Mark(other(first)), 2)
            }
            first if first.is_ascii() => (Kind::Mark(first), 1),
            // What is no character of the language is passed over as a whole.
            _ => (Kind::Operand, run(rest, |byte| !byte.is_ascii())),
        };
        let (start, end) = (self.at, self.at + len);
        self.at = end;
        Some(Token { kind, start, end, text: self.text.get(start..end).unwrap_or_default() })
    }
}

/// A comparison must not be taken for an assignment.
fn other(first: u8) -> u8 {
    if first == b'=' { b'!' } else { first }
}

/// The bytes that begin a text and are all of one sort.
fn run(bytes: &[u8], of: impl Fn(u8) -> bool) -> usize {
    bytes.iter().take_while(|byte| of(**byte)).count()
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Digits, a fraction, an exponent and a unit. `0..45` is a range and no fraction.
fn number_len(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let fraction = *byte == b'.' && bytes.get(at + 1).is_some_and(u8::is_ascii_digit);
        let sign = matches!(byte, b'+' | b'-')
            && matches!(bytes.get(at.wrapping_sub(1)), Some(b'e' | b'E'))
            && bytes.get(at + 1).is_some_and(u8::is_ascii_digit);
        if !is_letter(*byte) && !fraction && !sign {
            break;
        }
        at += 1;
    }
    at
}

/// A text to its closing quote, or to the end of its line.
fn text_len(bytes: &[u8]) -> usize {
    let mut escaped = false;
    for (at, byte) in bytes.iter().enumerate().skip(1) {
        match byte {
            b'\n' => return at,
            b'\r' if bytes.get(at + 1) == Some(&b'\n') => return at,
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_is_covered() {
        let text = "a.b = 4Ki/* x */ \"ü\\\"\" 0..45 1e-5 x == y \"open\r\n步 // end";
        let tokens: Vec<_> = Tokens::over(text).map(|token| token.text).collect();
        let expected = [
            "a",
            ".",
            "b",
            "=",
            "4Ki",
            "/* x */",
            "\"ü\\\"\"",
            "0",
            ".",
            ".",
            "45",
            "1e-5",
            "x",
            "==",
            "y",
            "\"open",
            "\n",
            "步",
            "// end",
        ];
        assert_eq!(tokens, expected);
    }
}

//! Lines and columns as the protocol counts them.

use crate::base::source::floor;
use lsp_types::{Position, PositionEncodingKind, Range};

/// What a column counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoding {
    Utf8,
    /// What every client understands.
    #[default]
    Utf16,
    Utf32,
}

impl Encoding {
    /// The cheapest one among those that a client offers.
    pub fn negotiate(offered: Option<&[PositionEncodingKind]>) -> Encoding {
        let offers = |kind| offered.is_some_and(|offered| offered.contains(&kind));
        if offers(PositionEncodingKind::UTF8) { Encoding::Utf8 } else { Encoding::Utf16 }
    }

    pub fn kind(self) -> PositionEncodingKind {
        match self {
            Encoding::Utf8 => PositionEncodingKind::UTF8,
            Encoding::Utf16 => PositionEncodingKind::UTF16,
            Encoding::Utf32 => PositionEncodingKind::UTF32,
        }
    }

    /// The columns that `text` takes.
    pub fn columns(self, text: &str) -> u32 {
        let columns = match self {
            Encoding::Utf8 => text.len(),
            Encoding::Utf16 => text.chars().map(char::len_utf16).sum(),
            Encoding::Utf32 => text.chars().count(),
        };
        columns as u32
    }

    /// The byte of `line` that `column` names: its end where the line is shorter, a character's first byte inside of it.
    fn byte(self, line: &str, column: u32) -> usize {
        let mut left = column as usize;
        for (at, c) in line.char_indices() {
            let width = match self {
                Encoding::Utf8 => c.len_utf8(),
                Encoding::Utf16 => c.len_utf16(),
                Encoding::Utf32 => 1,
            };
            if left < width {
                return at;
            }
            left -= width;
        }
        line.len()
    }
}

/// Where the lines of a text begin. Lines end with `\n`, `\r\n` or `\r`, as in the protocol.
#[derive(Debug, Clone)]
pub struct Lines {
    starts: Vec<u32>,
}

impl Lines {
    pub fn new(text: &str) -> Self {
        let bytes = text.as_bytes();
        let ends = memchr::memchr2_iter(b'\n', b'\r', bytes)
            .filter(|at| bytes[*at] == b'\n' || bytes.get(at + 1) != Some(&b'\n'));
        Lines { starts: std::iter::once(0).chain(ends.map(|at| at as u32 + 1)).collect() }
    }

    /// The byte that a position names; the end of the line, or of the text, for one behind it.
    pub fn offset(&self, text: &str, position: Position, encoding: Encoding) -> usize {
        let line = position.line as usize;
        let Some(start) = self.starts.get(line).map(|start| *start as usize) else { return text.len() };
        let end = self.starts.get(line + 1).map_or(text.len(), |end| *end as usize);
        let line = text[start..end].trim_end_matches(['\n', '\r']);
        start + encoding.byte(line, position.character)
    }

    /// The position of a byte; that of the character it lies in.
    pub fn position(&self, text: &str, offset: usize, encoding: Encoding) -> Position {
        let offset = floor(text, offset);
        let line = self.starts.partition_point(|start| *start as usize <= offset) - 1;
        let character = encoding.columns(&text[self.starts[line] as usize..offset]);
        Position { line: line as u32, character }
    }

    /// The range of bytes as positions.
    pub fn range(&self, text: &str, bytes: std::ops::Range<usize>, encoding: Encoding) -> Range {
        Range {
            start: self.position(text, bytes.start, encoding),
            end: self.position(text, bytes.end, encoding),
        }
    }
}

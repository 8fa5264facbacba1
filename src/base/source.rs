//! The texts of a run by number, so that a [`Span`] stays eight bytes and still finds its path, line and column.

use super::{FileId, Span};
use std::sync::Arc;

/// One text and where its lines begin.
#[derive(Debug, Clone)]
struct Source {
    path: String,
    text: Arc<str>,
    /// Byte offset of the first character of every line.
    lines: Vec<u32>,
}

/// All files read so far. A file may be a pseudo file such as `<--set>`.
#[derive(Debug, Clone, Default)]
pub struct SourceMap {
    files: Vec<Source>,
}

impl SourceMap {
    /// Adds a text under the name that messages show for it.
    pub fn add(&mut self, path: impl Into<String>, text: impl Into<Arc<str>>) -> FileId {
        let text = text.into();
        let newlines = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let lines = std::iter::once(0).chain(newlines.map(|(at, _)| at as u32 + 1)).collect();
        self.files.push(Source { path: path.into(), text, lines });
        FileId(self.files.len() as u32 - 1)
    }

    /// The text of a file; empty for an unknown one.
    pub fn text(&self, file: FileId) -> &str {
        self.files.get(file.0 as usize).map_or("", |source| &source.text)
    }

    /// The name messages show for a file.
    pub fn path(&self, file: FileId) -> &str {
        self.files.get(file.0 as usize).map_or("<unknown>", |source| &source.path)
    }

    /// Every file in the order it was added.
    pub fn files(&self) -> impl Iterator<Item = FileId> + use<> {
        (0..self.files.len() as u32).map(FileId)
    }

    /// Line and column of a span's first character, both from 1, the column in characters.
    pub fn line_col(&self, span: Span) -> (usize, usize) {
        self.position(span.file, span.start as usize)
    }

    /// Line and column behind a span's last character.
    pub fn end_line_col(&self, span: Span) -> (usize, usize) {
        self.position(span.file, span.end as usize)
    }

    /// The text a span covers, cut to what the file holds.
    pub fn slice(&self, span: Span) -> &str {
        let text = self.text(span.file);
        let end = floor(text, span.end as usize);
        &text[floor(text, span.start as usize).min(end)..end]
    }

    /// Bytes of the line that a span begins on.
    pub fn line_len(&self, span: Span) -> usize {
        let Some(source) = self.files.get(span.file.0 as usize) else { return 0 };
        let next = source.lines.partition_point(|start| *start <= span.start);
        let end = source.lines.get(next).map_or(source.text.len(), |end| *end as usize);
        end - source.lines[next - 1] as usize
    }

    fn position(&self, file: FileId, offset: usize) -> (usize, usize) {
        let Some(source) = self.files.get(file.0 as usize) else { return (1, 1) };
        let offset = floor(&source.text, offset);
        let line = source.lines.partition_point(|start| *start as usize <= offset);
        let start = source.lines[line - 1] as usize;
        // A byte order mark takes no column.
        let before = source.text[start..offset].trim_start_matches('\u{feff}');
        (line, before.chars().count() + 1)
    }
}

/// The nearest character boundary at or before `offset`.
pub fn floor(text: &str, offset: usize) -> usize {
    let mut at = offset.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters() {
        let mut sources = SourceMap::default();
        let id = sources.add("a.step", "\u{feff}x = 1\r\nname = \"步\" y");
        let y = sources.text(id).len() - 1;
        assert_eq!(sources.line_col(Span::new(id, 3, 4)), (1, 1));
        assert_eq!(sources.line_col(Span::new(id, y, y + 1)), (2, 12));
        assert_eq!(sources.end_line_col(Span::new(id, y, y + 1)), (2, 13));
        assert_eq!(sources.slice(Span::new(id, y, y + 9)), "y");
    }

    #[test]
    fn places_outside_are_clamped() {
        let mut sources = SourceMap::default();
        let id = sources.add("<--set>", "");
        assert_eq!(sources.line_col(Span::new(id, 7, 9)), (1, 1));
        assert_eq!(sources.line_col(Span::new(FileId(9), 0, 0)), (1, 1));
        assert_eq!(sources.path(FileId(9)), "<unknown>");
    }
}

//! One document as it lies in a file, and where that is.

use crate::diag::Diagnostic;
use minijinja::Value;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// Where a document lies in its source: the unit, and the number in it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, serde::Serialize, serde::Deserialize,
)]
pub(super) struct Address {
    pub unit: u64,
    pub record: u64,
}

/// A document that has been found.
#[derive(Debug, Clone)]
pub(super) struct Document {
    pub place: Place,
    pub content: Content,
}

/// What a document holds, before anything is known to be valid.
#[derive(Debug, Clone)]
pub(super) enum Content {
    /// Bytes `start..end` of a file, read when their turn comes.
    Range { file: Arc<File>, start: u64, end: u64, json: bool },
    /// Plain text.
    Text(Vec<u8>),
    /// A JSON object.
    Json(Vec<u8>),
    /// The needed columns of a row.
    Row(Value),
}

impl Content {
    /// How much of the group's budget it takes.
    pub(super) fn size(&self) -> u64 {
        match self {
            Content::Range { start, end, .. } => end - start,
            Content::Text(bytes) | Content::Json(bytes) => bytes.len() as u64,
            Content::Row(value) => weight(value),
        }
    }
}

/// Bytes of text in a value, roughly.
fn weight(value: &Value) -> u64 {
    match value.as_str() {
        Some(text) => text.len() as u64,
        None => {
            16 + value.try_iter().map_or(0, |items| {
                items
                    .map(|item| value.get_item(&item).map_or(16, |inner| weight(&inner)).max(weight(&item)))
                    .sum()
            })
        }
    }
}

/// A text document longer than this is handed out in pieces that end after a line break, or after a space.
const PIECE: usize = 256 << 10;

/// A document, or a piece of a long one, in memory.
pub(super) struct Piece {
    /// Where the piece begins.
    pub place: Place,
    pub content: Loaded,
    /// Bytes of the document up to the end of the piece; `None` where that is its end.
    pub end: Option<u64>,
}

pub(super) enum Loaded {
    Text(Vec<u8>),
    Json(Vec<u8>),
    Row(Value),
}

impl Document {
    /// The piece that begins `byte` bytes into the document.
    pub(super) fn piece(self, byte: u64) -> Result<Piece, Diagnostic> {
        let Document { mut place, content } = self;
        let (file, start, end, json) = match content {
            Content::Text(bytes) => return Ok(Piece { place, content: Loaded::Text(bytes), end: None }),
            Content::Json(bytes) => return Ok(Piece { place, content: Loaded::Json(bytes), end: None }),
            Content::Row(value) => return Ok(Piece { place, content: Loaded::Row(value), end: None }),
            Content::Range { file, start, end, json } => (file, start + byte, end, json),
        };
        let left = end.saturating_sub(start) as usize;
        let whole = json || left <= PIECE;
        let mut bytes = vec![0; if whole { left } else { PIECE }];
        file.read_exact_at(&mut bytes, start).map_err(|error| unreadable(&place.path, &error))?;
        place.at = At::Byte(start);
        if whole {
            let content = if json { Loaded::Json(bytes) } else { Loaded::Text(bytes) };
            return Ok(Piece { place, content, end: None });
        }
        let cut = memchr::memrchr(b'\n', &bytes).or_else(|| memchr::memrchr(b' ', &bytes));
        bytes.truncate(cut.map_or_else(|| boundary(&bytes), |at| at + 1));
        Ok(Piece { place, end: Some(byte + bytes.len() as u64), content: Loaded::Text(bytes) })
    }
}

/// The last position at which a character begins, so that a cut there splits none.
fn boundary(bytes: &[u8]) -> usize {
    let begins = |&at: &usize| bytes[at] & 0xc0 != 0x80;
    (bytes.len().saturating_sub(4)..bytes.len())
        .rev()
        .find(begins)
        .filter(|&at| at > 0)
        .unwrap_or(bytes.len())
}

/// Where a document begins, for diagnostics.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub path: Arc<Path>,
    pub at: At,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum At {
    /// A byte of the file; its line is counted when it is asked for.
    Byte(u64),
    /// A line of a compressed file.
    Line { line: u64, byte: u64 },
    /// A row of a row group or of a record batch, from 0 as their own tools count.
    Row { group: u64, row: u64 },
}

impl Place {
    /// `path:line:byte`, both from 1, of what lies behind the bytes `before` of the document; group and row in
    /// files of columns.
    pub(super) fn show(&self, before: &[u8]) -> String {
        let path = self.path.display();
        let (line, byte) = match self.at {
            At::Byte(start) => {
                let offset = start + before.len() as u64;
                line_of(&self.path, offset).unwrap_or((0, offset))
            }
            At::Line { line, byte } => match memchr::memrchr(b'\n', before) {
                None => (line, byte + before.len() as u64),
                Some(last) => {
                    let breaks = memchr::memchr_iter(b'\n', before).count() as u64;
                    (line + breaks, (before.len() - last) as u64)
                }
            },
            At::Row { group, row } => return format!("{path}: row group {group}, row {row}"),
        };
        format!("{path}:{line}:{byte}")
    }
}

/// Line and byte in it of an offset in a file, both from 1.
fn line_of(path: &Path, offset: u64) -> io::Result<(u64, u64)> {
    let file = File::open(path)?;
    let (mut line, mut line_start, mut at) = (1, 0, 0);
    let mut buffer = vec![0; 1 << 20];
    while at < offset {
        let want = buffer.len().min((offset - at) as usize);
        let read = file.read_at(&mut buffer[..want], at)?;
        if read == 0 {
            break;
        }
        for found in memchr::memchr_iter(b'\n', &buffer[..read]) {
            line += 1;
            line_start = at + found as u64 + 1;
        }
        at += read as u64;
    }
    Ok((line, offset - line_start + 1))
}

pub(super) fn unreadable(path: &Path, error: &io::Error) -> Diagnostic {
    Diagnostic::error("step::data::io", format!("cannot read {}: {error}", path.display()))
        .help("the file must exist, be readable and stay unchanged during the run")
}

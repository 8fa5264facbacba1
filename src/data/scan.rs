//! Documents between separators, found without knowing what came before.
//!
//! A document begins at the start of the file and behind every separator; of separators that overlap, as in a
//! long run of line breaks, the last one counts. Where documents begin therefore depends on nothing but the
//! bytes around, and a file may be entered anywhere: unit `u` has the documents that begin in its
//! [`UNIT`] bytes, and together the units have every document once.

use super::record::{At, Content, Document, Place, unreadable};
use crate::diag::Diagnostic;
use memchr::memmem::Finder;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

/// Bytes of a unit.
pub(super) const UNIT: u64 = 256 << 10;
/// Bytes read at a time.
const READ: usize = 64 << 10;

/// Finds the ends of separators in a stream of bytes.
struct Scanner<R> {
    reader: R,
    finder: Finder<'static>,
    /// Bytes from offset `base` of the file on, searched up to `from`.
    buffer: Vec<u8>,
    base: u64,
    from: usize,
    ended: bool,
    /// Bytes from here on are kept for the caller.
    keep: Option<u64>,
}

impl<R: Read> Scanner<R> {
    fn new(reader: R, base: u64, separator: &[u8], keep: Option<u64>) -> Self {
        let finder = Finder::new(separator).into_owned();
        Scanner { reader, finder, buffer: Vec::new(), base, from: 0, ended: false, keep }
    }

    /// The next offset at which a separator ends and no later one overlaps it; `None` at the end of the file.
    fn boundary(&mut self) -> io::Result<Option<u64>> {
        let length = self.finder.needle().len();
        loop {
            match self.finder.find(&self.buffer[self.from..]).map(|at| self.from + at) {
                // One byte more tells whether another one overlaps it.
                Some(at) if at + length < self.buffer.len() || self.ended => {
                    self.from = at + 1;
                    if !self.buffer[at + 1..].starts_with(self.finder.needle()) {
                        return Ok(Some(self.base + (at + length) as u64));
                    }
                }
                Some(at) => {
                    self.from = at;
                    self.fill()?;
                }
                None if self.ended => return Ok(None),
                None => {
                    self.from = self.from.max(self.buffer.len().saturating_sub(length - 1));
                    self.fill()?;
                }
            }
        }
    }

    /// Reads on, and lets go of what has been searched and is not kept.
    fn fill(&mut self) -> io::Result<()> {
        let kept = self.keep.map_or(self.from, |keep| (keep - self.base) as usize).min(self.from);
        self.buffer.drain(..kept);
        (self.base, self.from) = (self.base + kept as u64, self.from - kept);
        let before = self.buffer.len();
        self.ended = self.reader.by_ref().take(READ as u64).read_to_end(&mut self.buffer)? == 0;
        debug_assert!(self.ended || self.buffer.len() > before);
        Ok(())
    }

    /// Where the bytes end that have been read.
    fn end(&self) -> u64 {
        self.base + self.buffer.len() as u64
    }

    fn bytes(&self, start: u64, end: u64) -> &[u8] {
        &self.buffer[(start - self.base) as usize..(end - self.base) as usize]
    }
}

/// The documents of a unit of a plain file, by the bytes they take.
pub(super) struct Ranges {
    scanner: Scanner<File>,
    file: Arc<File>,
    path: Arc<Path>,
    json: bool,
    /// Where the next document begins.
    next: Option<u64>,
    /// Where the unit ends.
    end: u64,
}

impl Ranges {
    pub(super) fn open(path: &Arc<Path>, unit: u64, separator: &[u8], json: bool) -> io::Result<Self> {
        let (start, length) = (unit * UNIT, separator.len() as u64);
        let mut reader = File::open(path)?;
        let file = Arc::new(reader.try_clone()?);
        let before = start.saturating_sub(length);
        reader.seek(SeekFrom::Start(before))?;
        let mut scanner = Scanner::new(reader, before, separator, None);
        let mut next = Some(0);
        if start > 0 {
            next = scanner.boundary()?;
            while next.is_some_and(|at| at < start) {
                next = scanner.boundary()?;
            }
        }
        Ok(Ranges { scanner, file, path: path.clone(), json, next, end: start + UNIT })
    }

    fn range(&mut self) -> io::Result<Option<(u64, u64)>> {
        while let Some(start) = self.next.filter(|&start| start < self.end) {
            let boundary = self.scanner.boundary()?;
            self.next = boundary;
            let end = match boundary {
                Some(boundary) => boundary - self.scanner.finder.needle().len() as u64,
                None => self.scanner.end(),
            };
            if start < end {
                return Ok(Some((start, end)));
            }
        }
        Ok(None)
    }
}

impl Iterator for Ranges {
    type Item = Result<Document, Diagnostic>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.range().map_err(|error| unreadable(&self.path, &error)).transpose()?;
        Some(found.map(|(start, end)| Document {
            place: Place { path: self.path.clone(), at: At::Byte(start) },
            content: Content::Range { file: self.file.clone(), start, end, json: self.json },
        }))
    }
}

/// The documents of a compressed file, in order.
pub(super) struct Split {
    scanner: Scanner<Box<dyn Read + Send>>,
    path: Arc<Path>,
    json: bool,
    next: Option<u64>,
    line: u64,
}

impl Split {
    pub(super) fn new(reader: Box<dyn Read + Send>, path: &Arc<Path>, separator: &[u8], json: bool) -> Self {
        let scanner = Scanner::new(reader, 0, separator, Some(0));
        Split { scanner, path: path.clone(), json, next: Some(0), line: 1 }
    }

    fn document(&mut self) -> io::Result<Option<Document>> {
        while let Some(start) = self.next {
            self.scanner.keep = Some(start);
            self.next = self.scanner.boundary()?;
            let behind = self.next.unwrap_or(self.scanner.end());
            let end = match self.next {
                Some(boundary) => boundary - self.scanner.finder.needle().len() as u64,
                None => behind,
            };
            let line = self.line;
            self.line += memchr::memchr_iter(b'\n', self.scanner.bytes(start, behind)).count() as u64;
            if start < end {
                let bytes = self.scanner.bytes(start, end).to_vec();
                return Ok(Some(Document {
                    place: Place { path: self.path.clone(), at: At::Line { line, byte: 1 } },
                    content: if self.json { Content::Json(bytes) } else { Content::Text(bytes) },
                }));
            }
        }
        Ok(None)
    }
}

impl Iterator for Split {
    type Item = Result<Document, Diagnostic>;

    fn next(&mut self) -> Option<Self::Item> {
        self.document().map_err(|error| unreadable(&self.path, &error)).transpose()
    }
}

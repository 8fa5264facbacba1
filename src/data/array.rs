//! The elements of a JSON array, one after the other, without reading the whole.

use super::record::{At, Content, Document, Place, unreadable};
use crate::diag::Diagnostic;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

/// Elements are told apart by brackets and strings alone; whether one is valid shows when it is parsed.
pub(super) struct Elements {
    reader: BufReader<Box<dyn Read + Send>>,
    path: Arc<Path>,
    line: u64,
    /// The byte in the line, from 1, of the next byte.
    byte: u64,
    state: State,
}

#[derive(PartialEq, Eq)]
enum State {
    Before,
    Within,
    Ended,
}

impl Elements {
    pub(super) fn new(reader: Box<dyn Read + Send>, path: &Arc<Path>) -> Self {
        let reader = BufReader::with_capacity(1 << 16, reader);
        Elements { reader, path: path.clone(), line: 1, byte: 1, state: State::Before }
    }

    /// The next element; one that the end of the file cuts short comes as far as it goes.
    fn element(&mut self) -> io::Result<Option<Document>> {
        let (mut bytes, mut place) = (Vec::new(), (self.line, self.byte));
        let (mut depth, mut string, mut escaped, mut complete) = (0u32, false, false, false);
        while self.state != State::Ended && !complete {
            let buffer = self.reader.fill_buf()?;
            if buffer.is_empty() {
                self.state = State::Ended;
                // A list that is not closed has lost its end, be it only the bracket.
                complete = true;
                if bytes.is_empty() {
                    bytes.push(b'[');
                }
            }
            let mut used = 0;
            for &byte in buffer {
                used += 1;
                let here = (self.line, self.byte);
                (self.line, self.byte) = if byte == b'\n' { (here.0 + 1, 1) } else { (here.0, here.1 + 1) };
                if string {
                    bytes.push(byte);
                    (string, escaped) = (escaped || byte != b'"', !escaped && byte == b'\\');
                    continue;
                }
                match byte {
                    b'[' if self.state == State::Before => {
                        self.state = State::Within;
                        continue;
                    }
                    _ if self.state == State::Before => continue,
                    b']' if depth == 0 => {
                        self.state = State::Ended;
                        complete = !bytes.is_empty();
                        break;
                    }
                    b',' if depth == 0 => {
                        complete = !bytes.is_empty();
                        if complete {
                            break;
                        }
                        continue;
                    }
                    b' ' | b'\t' | b'\r' | b'\n' if bytes.is_empty() => continue,
                    b'"' => string = true,
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => depth -= 1,
                    _ => {}
                }
                if bytes.is_empty() {
                    place = here;
                }
                bytes.push(byte);
            }
            self.reader.consume(used);
        }
        let (line, byte) = place;
        Ok(complete.then(|| Document {
            place: Place { path: self.path.clone(), at: At::Line { line, byte } },
            content: Content::Json(bytes),
        }))
    }
}

impl Iterator for Elements {
    type Item = Result<Document, Diagnostic>;

    fn next(&mut self) -> Option<Self::Item> {
        self.element().map_err(|error| unreadable(&self.path, &error)).transpose()
    }
}

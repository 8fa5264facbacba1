//! Documents to sequences: one long stream of tokens, cut every `length` tokens.
//!
//! A document that does not end with its sequence goes on in the next one; the stream goes on from one pass
//! over the files to the next, so nothing is dropped and nothing padded.

use super::corpus::{Document, Source};
use super::order::Permutation;
use super::tokenizer::Tokenizer;
use crate::diag::Diagnostic;
use std::collections::VecDeque;

/// One training sample of `S` tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sequence {
    /// `[S]`.
    pub tokens: Vec<u32>,
    /// `[S]`: the next token of the same document; -1 at the end of a document, where nothing is to be
    /// predicted.
    pub labels: Vec<i32>,
    /// Where attention is confined: segment `i` is `segments[i]..segments[i + 1]`, from 0 to `S`. One segment
    /// unless documents are kept apart.
    pub segments: Vec<u32>,
    /// `[S]`: the position in the segment.
    pub positions: Vec<u32>,
}

/// What has been drawn from a source.
struct Draw {
    source: Source,
    documents: u64,
    tokens: u64,
    order: Permutation,
}

/// Makes the sequences one after the other.
pub(super) struct Packer {
    draws: Vec<Draw>,
    tokenizer: Tokenizer,
    length: usize,
    apart: bool,
    seed: u64,
    /// The stream from the start of the next sequence on, and where documents end in it.
    stream: Vec<u32>,
    ends: VecDeque<usize>,
    /// The document that is being read: its source, and whether it has given a token.
    current: Option<(usize, Document, bool)>,
    bytes: Vec<u8>,
    text: String,
}

impl Packer {
    /// Reads as much as the first sequence needs, which must not be more than the files hold.
    pub(super) fn new(
        sources: Vec<Source>,
        tokenizer: Tokenizer,
        length: usize,
        apart: bool,
        seed: u64,
    ) -> Result<Self, Diagnostic> {
        let draw = |(number, source): (usize, Source)| {
            let order = Permutation::new(source.len(), seed, number as u64, 0);
            Draw { source, documents: 0, tokens: 0, order }
        };
        let draws = sources.into_iter().enumerate().map(draw).collect();
        let (stream, ends, current) = (Vec::new(), VecDeque::new(), None);
        let (bytes, text) = (Vec::new(), String::new());
        let mut packer = Packer { draws, tokenizer, length, apart, seed, stream, ends, current, bytes, text };
        while packer.stream.len() <= length {
            if packer.draws.iter().all(|draw| draw.documents >= draw.source.len()) {
                let (found, needed) = (packer.stream.len(), length + 1);
                let message = format!("the data holds {found} tokens, one sequence needs {needed}");
                return Err(
                    Diagnostic::error("step::data::too_small", message).help("add data, or lower `sequence`")
                );
            }
            packer.read()?;
        }
        Ok(packer)
    }

    /// The next sequence.
    pub(super) fn next(&mut self) -> Result<Sequence, Diagnostic> {
        let length = self.length;
        while self.stream.len() <= length {
            self.read()?;
        }
        let mut labels: Vec<i32> = self.stream[1..=length].iter().map(|&token| token as i32).collect();
        let mut segments = vec![0];
        while let Some(&end) = self.ends.front().filter(|&&end| end <= length) {
            labels[end - 1] = -1;
            if self.apart && end < length {
                segments.push(end as u32);
            }
            self.ends.pop_front();
        }
        segments.push(length as u32);
        let positions = segments.windows(2).flat_map(|segment| 0..segment[1] - segment[0]).collect();
        let tokens = self.stream.drain(..length).collect();
        self.ends.iter_mut().for_each(|end| *end -= length);
        Ok(Sequence { tokens, labels, segments, positions })
    }

    /// Documents read to their end, and the most passes over one source.
    pub(super) fn progress(&self) -> (u64, f64) {
        let passes = self.draws.iter().map(|draw| draw.documents as f64 / draw.source.len() as f64);
        (self.draws.iter().map(|draw| draw.documents).sum(), passes.fold(0.0, f64::max))
    }

    /// Files, documents and bytes of all sources.
    pub(super) fn corpus(&self) -> (usize, u64, u64) {
        let sources = self.draws.iter().map(|draw| &draw.source);
        sources
            .fold((0, 0, 0), |(f, d, b), source| (f + source.files(), d + source.len(), b + source.bytes()))
    }

    /// Adds one piece of a document to the stream, or ends the document.
    fn read(&mut self) -> Result<(), Diagnostic> {
        let (number, document, begun) = match &mut self.current {
            Some(current) => current,
            None => {
                let next = self.choose()?;
                self.current.insert(next)
            }
        };
        let draw = &mut self.draws[*number];
        let before = self.stream.len();
        if document.piece(&mut self.bytes, &mut self.text)? {
            self.tokenizer.encode(&self.text, &mut self.stream)?;
            *begun |= self.stream.len() > before;
        } else {
            if *begun {
                self.stream.extend(self.tokenizer.eos());
                self.ends.push_back(self.stream.len());
            }
            draw.documents += 1;
            self.current = None;
        }
        draw.tokens += (self.stream.len() - before) as u64;
        Ok(())
    }

    /// Opens the next document of the source that lags most behind its share of the tokens.
    fn choose(&mut self) -> Result<(usize, Document, bool), Diagnostic> {
        let mut number = 0;
        let lag = |draw: &Draw| draw.tokens as f64 / draw.source.weight;
        for other in 1..self.draws.len() {
            if lag(&self.draws[other]) < lag(&self.draws[number]) {
                number = other;
            }
        }
        let draw = &mut self.draws[number];
        let (epoch, index) = (draw.documents / draw.source.len(), draw.documents % draw.source.len());
        if index == 0 && epoch > 0 {
            if draw.tokens == 0 {
                let message =
                    format!("source `{}` holds no text in {} documents", draw.source.name, draw.documents);
                return Err(Diagnostic::error("step::data::empty", message)
                    .help("look at its files and its `column`"));
            }
            draw.order = Permutation::new(draw.source.len(), self.seed, number as u64, epoch);
        }
        Ok((number, draw.source.document(draw.order.at(index))?, false))
    }
}

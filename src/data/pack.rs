//! Documents to sequences.
//!
//! With `overlong = split` documents form one stream of tokens that is cut every `length` tokens: a document that does not
//! end with its sequence goes on in the next one, so nothing is dropped and nothing padded. Otherwise documents stay whole: a
//! sequence begins with the document that has waited longest, the largest one that fits comes next, and what is left is
//! padding without labels.

use super::pool::Pool;
use super::position::Pending;
use super::record::Address;
use std::collections::VecDeque;

/// One training sample of `S` tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sequence {
    /// `[S]`.
    pub tokens: Vec<u32>,
    /// `[S]`: the next token of the same document where it is to be learned; -1 elsewhere, and at the end of a document,
    /// where nothing is to be predicted.
    pub labels: Vec<i32>,
    /// Where attention is confined: segment `i` is `segments[i]..segments[i + 1]`, from 0 to `S`. One segment
    /// unless documents are kept apart.
    pub segments: Vec<u32>,
    /// `[S]`: the position in the segment.
    pub positions: Vec<u32>,
}

impl Sequence {
    /// Numbers the positions in `segments`.
    fn new(tokens: Vec<u32>, labels: Vec<i32>, segments: Vec<u32>) -> Self {
        let positions = segments.windows(2).flat_map(|segment| 0..segment[1] - segment[0]).collect();
        Sequence { tokens, labels, segments, positions }
    }
}

/// A document, or a piece of one, that has been drawn, and where it came from.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub source: u32,
    pub address: Address,
    pub byte: u64,
    pub ids: Vec<u32>,
    pub targets: Vec<i32>,
    /// Whether a document ends here.
    pub ended: bool,
}

impl Part {
    pub(super) fn pending(&self, skip: u64) -> Pending {
        let Part { source, address, byte, ended, .. } = *self;
        Pending { source, address, byte, skip, ended }
    }
}

/// What has been drawn and waits for its sequence.
pub(super) enum Waiting {
    Stream(Stream),
    Whole(Pool),
}

/// Tokens from the start of the next sequence on.
#[derive(Default)]
pub(super) struct Stream {
    ids: VecDeque<u32>,
    targets: VecDeque<i32>,
    /// Where documents end in it.
    ends: VecDeque<usize>,
    /// What it is made of: parts without their tokens, and how many those are.
    parts: VecDeque<(Pending, u64)>,
}

impl Stream {
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(super) fn push(&mut self, part: Part, skip: u64) {
        let count = part.ids.len() as u64;
        if count > 0 {
            self.parts.push_back((part.pending(skip), count));
        }
        self.ids.extend(part.ids.iter().skip(skip as usize));
        self.targets.extend(part.targets.iter().skip(skip as usize));
        if part.ended && count > 0 {
            self.ends.push_back(self.ids.len());
        }
    }

    pub(super) fn pending(&self) -> Vec<Pending> {
        self.parts.iter().map(|(part, _)| *part).collect()
    }

    /// Cuts `length` tokens off; there are more.
    pub(super) fn cut(&mut self, length: usize, apart: bool) -> Sequence {
        let mut labels: Vec<i32> = self.targets.range(1..=length).copied().collect();
        let mut segments = vec![0];
        while let Some(&end) = self.ends.front().filter(|&&end| end <= length) {
            labels[end - 1] = -1;
            if apart && end < length {
                segments.push(end as u32);
            }
            self.ends.pop_front();
        }
        segments.push(length as u32);
        self.targets.drain(..length);
        self.ends.iter_mut().for_each(|end| *end -= length);
        let mut left = length as u64;
        while let Some((part, count)) = self.parts.front_mut() {
            let rest = *count - part.skip;
            if left < rest {
                part.skip += left;
                break;
            }
            left -= rest;
            self.parts.pop_front();
        }
        Sequence::new(self.ids.drain(..length).collect(), labels, segments)
    }
}

/// Whole documents in one sequence; the rest is `padding`.
pub(super) fn join(parts: &[Part], length: usize, apart: bool, padding: u32) -> Sequence {
    let (mut tokens, mut labels, mut segments) =
        (Vec::with_capacity(length), Vec::with_capacity(length), vec![0]);
    for part in parts {
        tokens.extend_from_slice(&part.ids);
        labels.extend(part.targets.iter().skip(1).copied().chain([-1]));
        if apart && tokens.len() < length {
            segments.push(tokens.len() as u32);
        }
    }
    tokens.resize(length, padding);
    labels.resize(length, -1);
    segments.push(length as u32);
    Sequence::new(tokens, labels, segments)
}

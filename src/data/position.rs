//! Where a run stands in its data: small, and enough to go on exactly.

use super::record::Address;
use super::source::Cursor;
use serde::{Deserialize, Serialize};

/// What stands between two sequences of a run.
///
/// It holds how far every source has been read and drawn, and where the documents lie that have been drawn and not yet been
/// used. It is a function of the number of the sequence alone, for a given configuration and given files: not of ranks, of
/// threads or of where the run started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Position {
    /// The number of the next sequence.
    pub sequence: u64,
    /// Of the configuration, the files and the tokenizer.
    pub(super) data: u64,
    pub(super) draws: Vec<Share>,
    /// The source whose document is being read, and the tokens that has given.
    pub(super) current: Option<(usize, u64)>,
    pub(super) pending: Vec<Pending>,
    pub(super) counts: Counts,
}

impl Position {
    /// In front of sequence 0.
    pub(super) fn beginning(data: u64, sources: usize) -> Position {
        let draws = vec![Share::default(); sources];
        Position { sequence: 0, data, draws, current: None, pending: Vec::new(), counts: Counts::default() }
    }
}

impl Position {
    /// Passes over the source that has been read most often.
    pub(super) fn epochs(&self) -> f64 {
        self.draws.iter().map(|draw| draw.progress).fold(0.0, f64::max)
    }

    /// Tokens drawn from all sources.
    pub(super) fn drawn(&self) -> u64 {
        self.draws.iter().map(|draw| draw.tokens).sum()
    }
}

/// What has been drawn from a source.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Share {
    pub cursor: Cursor,
    /// Tokens that were used: the measure of its share.
    pub tokens: u64,
    pub progress: f64,
    /// Whether the current pass has given a token.
    pub fruitful: bool,
}

/// A document, or a piece of one, that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pending {
    pub source: u32,
    pub address: Address,
    pub byte: u64,
    /// Tokens of it that have been used.
    pub skip: u64,
    /// Whether the document ends with it.
    pub ended: bool,
}

/// Documents since sequence 0, and what became of those that were not simply used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// All that have been read.
    pub documents: u64,
    /// Longer than a sequence: dropped, truncated or split as the policy says.
    pub overlong: u64,
    /// Left out: not readable, without a token, without a token to learn.
    pub invalid: u64,
    pub empty: u64,
    pub unsupervised: u64,
    /// Lone surrogates that became U+FFFD.
    pub replaced: u64,
}

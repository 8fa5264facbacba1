//! Where a run stands in its data: small, and enough to go on exactly.

use super::record::Address;
use super::source::Cursor;
use crate::diag::Diagnostic;
use serde::{Deserialize, Serialize};

/// What stands between two sequences of a run.
///
/// It holds how far every source has been read and drawn, and where the documents lie that have been drawn and not yet been
/// used. It is a function of the number of the sequence alone, for a given configuration and given files: not of ranks, of
/// threads or of where the run started. In other sources or by other policies a run goes on from it as [`Changed`] says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Position {
    /// The number of the next sequence.
    pub sequence: u64,
    /// Of what must be the same for a position to mean anything: the length of sequences, the seed, the tokenizer.
    pub(super) run: u64,
    /// Of what decides how documents wait: policies, the chat template.
    pub(super) form: u64,
    pub(super) draws: Vec<Share>,
    /// The source whose document is being read, and the tokens that has given.
    pub(super) current: Option<(usize, u64)>,
    pub(super) pending: Vec<Pending>,
    pub(super) counts: Counts,
}

/// Something that is not as it was when a position was kept, and what it means for the run.
#[derive(Debug, Clone, PartialEq)]
pub struct Changed {
    /// The source that it is about; none where it is about all of them.
    pub source: Option<String>,
    pub warning: Diagnostic,
}

impl Position {
    /// In front of sequence 0.
    pub(super) fn beginning(run: u64, form: u64, draws: Vec<Share>) -> Position {
        let (current, pending, counts) = (None, Vec::new(), Counts::default());
        Position { sequence: 0, run, form, draws, current, pending, counts }
    }

    /// The same position in what the data is `now`, in front of its sequence 0, and what has changed.
    ///
    /// A source is known by its name. One that is as it was goes on where it stands, one whose files or reading are others
    /// begins with its next pass, a new one at its beginning. Where anything has changed, shares are counted from here on:
    /// nothing is made up for.
    ///
    /// # Errors
    /// Data in which the number of a sequence means something else.
    pub(super) fn within(&self, now: Position) -> Result<(Position, Vec<Changed>), Diagnostic> {
        if self.run != now.run {
            let message = format!("sequence {} is a position in other data", self.sequence);
            return Err(Diagnostic::error("step::data::position", message)
                .help("`sequence`, `train.seed` and the tokenizer must be as they were"));
        }
        let same_form = self.form == now.form;
        if same_form
            && self.draws.len() == now.draws.len()
            && self.draws.iter().zip(&now.draws).all(Share::same)
        {
            return Ok((self.clone(), Vec::new()));
        }
        let was = |new: &Share| self.draws.iter().find(|old| old.name == new.name);
        let draws: Vec<Share> = now.draws.iter().map(|new| new.going_on(was(new))).collect();
        // Where a source that is as it was stands among those of now.
        let kept = |at: usize| {
            let old = &self.draws[at];
            draws.iter().position(|new| new.name == old.name && new.source == old.source)
        };
        let others = now.draws.iter().filter(|new| was(new).is_some_and(|old| old.source != new.source));
        let mut changed: Vec<_> = others.map(|new| files(&new.name)).collect();
        let moved = |part: &Pending| Some(Pending { source: kept(part.source as usize)? as u32, ..*part });
        let pending: Vec<_> = self.pending.iter().filter_map(moved).collect();
        let current = self.current.and_then(|(at, tokens)| Some((kept(at)?, tokens)));
        let then = Position { sequence: self.sequence, counts: self.counts, draws, current, pending, ..now };
        if same_form {
            return Ok((then, changed));
        }
        changed.push(form(then.pending.len()));
        Ok((then.without_waiting(), changed))
    }

    /// Without the documents that wait, and without the rest of the one that is being read.
    fn without_waiting(mut self) -> Position {
        if let Some((at, _)) = self.current.take() {
            let cursor = &mut self.draws[at].cursor;
            *cursor = cursor.behind();
        }
        Position { pending: Vec::new(), ..self }
    }
}

fn files(source: &str) -> Changed {
    let message = format!("the files of source `{source}` are not those that it was reading");
    let warning = Diagnostic::warning("step::data::changed", message)
        .help("which of its documents have been read is not known any more: it begins with its next pass");
    Changed { source: Some(source.to_owned()), warning }
}

fn form(waiting: usize) -> Changed {
    let message = "policies or the chat template are not what they were";
    let warning = Diagnostic::warning("step::data::changed", message).help(format!(
        "documents are read by them from here on; {waiting} that were read before and not used yet are left out"
    ));
    Changed { source: None, warning }
}

impl Position {
    /// Passes over the source that has been read most often.
    pub(super) fn epochs(&self) -> f64 {
        self.draws.iter().map(|draw| draw.progress).fold(0.0, f64::max)
    }

    /// Whether anything has been drawn from the sources that there are now.
    pub(super) fn begun(&self) -> bool {
        self.draws.iter().any(|draw| draw.tokens > 0)
    }

    /// Passes that a token of the run makes over the source of which it makes most.
    pub(super) fn rate(&self) -> f64 {
        let total: f64 = self.draws.iter().map(|draw| draw.weight).sum();
        let drawn = self.draws.iter().filter(|draw| draw.tokens > 0);
        drawn.map(|draw| draw.weight / total * draw.progress / draw.tokens as f64).fold(0.0, f64::max)
    }
}

/// What has been drawn from a source.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Share {
    pub name: String,
    pub weight: f64,
    /// Of the source's files and of how they are read.
    pub source: u64,
    pub cursor: Cursor,
    /// Tokens that were used.
    pub tokens: u64,
    /// Those of them that were used before the sources or their weights became what they are.
    pub before: u64,
    pub progress: f64,
    /// Whether the current pass has given a token.
    pub fruitful: bool,
}

impl Share {
    /// The measure of what it has given: the source where it is least comes next.
    pub(super) fn lag(&self) -> f64 {
        (self.tokens - self.before) as f64 / self.weight
    }

    fn same((a, b): (&Share, &Share)) -> bool {
        (&a.name, a.weight, a.source) == (&b.name, b.weight, b.source)
    }

    /// The share of a source that has been drawn from as `old` says, if at all.
    fn going_on(&self, old: Option<&Share>) -> Share {
        let Some(old) = old else { return self.clone() };
        let (same, weight, source) = (old.source == self.source, self.weight, self.source);
        let cursor = if same { old.cursor } else { old.cursor.next_pass() };
        Share { weight, source, cursor, before: old.tokens, fruitful: old.fruitful && same, ..old.clone() }
    }
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

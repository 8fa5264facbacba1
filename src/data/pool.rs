//! Whole documents that wait for a sequence with room for them.

use super::pack::Part;
use super::position::Pending;

/// Sequences' worth of tokens, and documents, among which the fitting one is chosen.
const SEQUENCES: usize = 4;
const DOCUMENTS: usize = 256;

/// Documents in the order in which they were drawn.
#[derive(Default)]
pub(super) struct Pool {
    parts: Vec<Part>,
    tokens: usize,
}

impl Pool {
    /// Whether there is enough to choose from.
    pub(super) fn full(&self, length: usize) -> bool {
        self.parts.len() >= DOCUMENTS || self.tokens >= SEQUENCES * length
    }

    pub(super) fn push(&mut self, part: Part) {
        self.tokens += part.ids.len();
        self.parts.push(part);
    }

    /// Takes the oldest document for an empty sequence, the largest that fits for one that has begun.
    pub(super) fn take(&mut self, room: usize, begun: bool) -> Option<Part> {
        let fits = self.parts.iter().enumerate().filter(|(_, part)| part.ids.len() <= room);
        let at =
            if begun { fits.rev().max_by_key(|(_, part)| part.ids.len()) } else { fits.into_iter().next() };
        let part = at.map(|(at, _)| at).map(|at| self.parts.remove(at))?;
        self.tokens -= part.ids.len();
        Some(part)
    }

    pub(super) fn pending(&self) -> Vec<Pending> {
        self.parts.iter().map(|part| part.pending(0)).collect()
    }
}

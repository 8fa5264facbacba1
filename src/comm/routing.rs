//! Who sends how many rows to which expert, and where the rows lie on both sides.
//!
//! Experts are split evenly over the members of the group: member `r` owns `r × E/P .. (r + 1) × E/P`. A
//! source holds its rows sorted by expert; an owner holds, for each of its experts, the rows of all sources
//! in order.

use std::ops::Range;

/// The table of one dispatch, allocated once and filled by [`exchange`](super::Communicator::exchange).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routing {
    ranks: usize,
    experts: usize,
    /// `[P][E]` rows from source to expert.
    counts: Vec<u32>,
    /// `[P][E]` first row in the source's buffer.
    sent_at: Vec<usize>,
    /// `[P][E]` first row in the owner's buffer.
    received_at: Vec<usize>,
    /// `[P]` rows a member sends and receives.
    sent: Vec<usize>,
    received: Vec<usize>,
}

impl Routing {
    /// A table of `ranks` × `experts` zeros; `None` unless every rank gets the same whole number of experts.
    pub fn new(ranks: usize, experts: usize) -> Option<Self> {
        (ranks > 0 && experts > 0 && experts.is_multiple_of(ranks)).then(|| Routing {
            ranks,
            experts,
            counts: vec![0; ranks * experts],
            sent_at: vec![0; ranks * experts],
            received_at: vec![0; ranks * experts],
            sent: vec![0; ranks],
            received: vec![0; ranks],
        })
    }

    /// Members of the group.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// Experts of all members together.
    pub fn experts(&self) -> usize {
        self.experts
    }

    /// `[P][E]`: rows each member sends to each expert.
    pub fn counts(&self) -> &[u32] {
        &self.counts
    }

    /// Rows the member sends.
    pub fn sent(&self, rank: usize) -> usize {
        self.sent[rank]
    }

    /// Rows the member receives for its experts.
    pub fn received(&self, rank: usize) -> usize {
        self.received[rank]
    }

    /// Rows a member receives on average, rounded up.
    pub fn average(&self) -> usize {
        self.received.iter().sum::<usize>().div_ceil(self.ranks)
    }

    /// `out[E/P]` = rows of each expert of the member, all sources together.
    pub fn local_counts(&self, rank: usize, out: &mut [u32]) {
        for (expert, out) in self.owned(rank).zip(out) {
            *out = (0..self.ranks).map(|source| self.counts[source * self.experts + expert]).sum();
        }
    }

    /// The experts of the member.
    pub fn owned(&self, rank: usize) -> Range<usize> {
        let each = self.experts / self.ranks;
        rank * each..(rank + 1) * each
    }

    /// The member that owns the expert.
    pub fn owner(&self, expert: usize) -> usize {
        expert / (self.experts / self.ranks)
    }

    /// Replaces all counts: `fill` writes `[P][E]`, then the places of the rows follow.
    pub(super) fn update(&mut self, fill: impl FnOnce(&mut [u32])) {
        fill(&mut self.counts);
        for source in 0..self.ranks {
            let mut row = 0;
            for expert in 0..self.experts {
                let at = source * self.experts + expert;
                self.sent_at[at] = row;
                row += self.counts[at] as usize;
            }
            self.sent[source] = row;
        }
        for owner in 0..self.ranks {
            let mut row = 0;
            for expert in self.owned(owner) {
                for source in 0..self.ranks {
                    let at = source * self.experts + expert;
                    self.received_at[at] = row;
                    row += self.counts[at] as usize;
                }
            }
            self.received[owner] = row;
        }
    }

    /// The rows from `source` to `expert`: their range at the source and at the owner.
    pub(super) fn rows(&self, source: usize, expert: usize) -> (Range<usize>, Range<usize>) {
        let at = source * self.experts + expert;
        let rows = self.counts[at] as usize;
        let (from, to) = (self.sent_at[at], self.received_at[at]);
        (from..from + rows, to..to + rows)
    }
}

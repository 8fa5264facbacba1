//! The interface of a rank to all others: groups and the collectives on them.

use super::error::CommError;
use super::routing::Routing;

/// A set of ranks that communicate, seen from one of its members. Made by [`Communicator::group`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    id: usize,
    ranks: Vec<u32>,
    index: usize,
}

impl Group {
    /// Checks that `ranks` are sorted, distinct, below `world`, and that `rank` is one of them.
    pub(super) fn new(id: usize, ranks: &[u32], rank: u32, world: usize) -> Result<Self, CommError> {
        let refuse = |problem| Err(CommError::Group { rank, ranks: ranks.to_vec(), problem });
        if !ranks.is_sorted_by(|a, b| a < b) {
            return refuse("the ranks of a group must be sorted and distinct");
        }
        if ranks.last().is_some_and(|&last| last as usize >= world) {
            return refuse("a rank of the group is not in the world");
        }
        match ranks.binary_search(&rank) {
            Ok(index) => Ok(Group { id, ranks: ranks.to_vec(), index }),
            Err(_) => refuse("this rank is not a member"),
        }
    }

    /// The number the communicator knows it by.
    pub(super) fn id(&self) -> usize {
        self.id
    }

    /// The members, ascending.
    pub fn ranks(&self) -> &[u32] {
        &self.ranks
    }

    /// The position of this rank among the members.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The number of members.
    pub fn size(&self) -> usize {
        self.ranks.len()
    }
}

/// One rank's connection to the others.
///
/// All members of a group issue the same collectives on it in the same order; `n` is the size of the group
/// and "rank order" the order of its members. No collective allocates. After an error the communicator is of
/// no further use: every later call returns that error, on every rank.
pub trait Communicator: Send {
    /// This rank, below [`size`](Self::size).
    fn rank(&self) -> u32;

    /// The number of ranks in the world.
    fn size(&self) -> usize;

    /// Prepares the group of the given ranks: sorted, distinct, this rank among them. All members call it.
    fn group(&mut self, ranks: &[u32]) -> Result<Group, CommError>;

    /// Returns when every member has called it.
    fn barrier(&self, group: &Group) -> Result<(), CommError>;

    /// `recv[n × len]` = the `send[len]` of all members in rank order.
    fn all_gather(&self, group: &Group, send: &[f32], recv: &mut [f32]) -> Result<(), CommError>;

    /// [`all_gather`](Self::all_gather) for counts.
    fn all_gather_u32(&self, group: &Group, send: &[u32], recv: &mut [u32]) -> Result<(), CommError>;

    /// `recv[len]` = the sum over all members, in rank order, of this rank's part of `send[n × len]`; with
    /// `accumulate` it is added to `recv`.
    fn reduce_scatter(
        &self,
        group: &Group,
        send: &[f32],
        recv: &mut [f32],
        accumulate: bool,
    ) -> Result<(), CommError>;

    /// `data` = the sum of all members' `data`, in rank order.
    fn all_reduce(&self, group: &Group, data: &mut [f32]) -> Result<(), CommError>;

    /// [`all_reduce`](Self::all_reduce) for losses, norms and counters.
    fn all_reduce_f64(&self, group: &Group, values: &mut [f64]) -> Result<(), CommError>;

    /// `data` of every member = `data` of the member at index `root`.
    fn broadcast(&self, group: &Group, root: usize, data: &mut [f32]) -> Result<(), CommError>;

    /// Tells all members how many rows each sends to each expert: `counts[experts]`, by global expert.
    fn exchange(&self, group: &Group, counts: &[u32], routing: &mut Routing) -> Result<(), CommError>;

    /// Sends rows to the owners of their experts.
    ///
    /// `send[Σ counts, cols]` is sorted by global expert; `recv` gets, for each expert of this rank and each
    /// source in rank order, that source's rows. Both may be longer than needed. Returns the rows received.
    fn dispatch(
        &self,
        group: &Group,
        send: &[f32],
        recv: &mut [f32],
        cols: usize,
        routing: &Routing,
    ) -> Result<usize, CommError>;

    /// The inverse of [`dispatch`](Self::dispatch): `send` is laid out like its `recv`, `recv` like its
    /// `send`.
    fn combine(
        &self,
        group: &Group,
        send: &[f32],
        recv: &mut [f32],
        cols: usize,
        routing: &Routing,
    ) -> Result<(), CommError>;

    /// Makes the current and all later collectives of every rank fail at once; the first reason counts.
    fn abort(&self, reason: &str);
}

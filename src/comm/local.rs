//! Ranks that are threads of one process: a collective publishes where its data lies, meets the other
//! members, copies or adds straight from their buffers, and meets them again. Nothing is staged and nothing
//! allocated.

use super::communicator::{Communicator, Group};
use super::error::{CommError, Op};
use super::rendezvous::{Board, Collective, Entry, Peers, World};
use super::routing::Routing;
use std::cell::{Cell, UnsafeCell};
use std::marker::PhantomData;
use std::ops::{AddAssign, Range};
use std::sync::Arc;
use std::time::Duration;

/// How long a rank waits for the others unless told otherwise.
const LIMIT: Duration = Duration::from_secs(600);
/// Elements that are summed on the stack at a time.
const BLOCK: usize = 512;

/// The communicators of `world` ranks of this process, in rank order, one for each thread.
pub fn local(world: usize) -> Vec<LocalComm> {
    local_with_limit(world, LIMIT)
}

/// [`local()`] with a limit on the time a rank waits for the others in a collective.
pub fn local_with_limit(world: usize, limit: Duration) -> Vec<LocalComm> {
    let shared = Arc::new(World::new(world, limit));
    let rank = |rank| LocalComm { rank, world: shared.clone(), members: Vec::new(), one_thread: PhantomData };
    (0..world as u32).map(rank).collect()
}

/// One rank of [`local()`]. Dropping it tells the others that it takes part no longer.
pub struct LocalComm {
    rank: u32,
    world: Arc<World>,
    /// By the id of the group: its board and the index of this rank on it.
    members: Vec<(Arc<Board>, usize)>,
    /// A rank is in one collective at a time, so it may move to a thread but not be shared by two.
    one_thread: PhantomData<Cell<()>>,
}

impl LocalComm {
    fn enter<'a, T: Sync>(
        &'a self,
        group: &Group,
        entry: Entry,
        send: &'a [T],
    ) -> Result<Collective<'a, T>, CommError> {
        let (board, me) = self.members.get(group.id()).ok_or_else(|| {
            let ranks = group.ranks().to_vec();
            let problem = "the group was made by another communicator";
            self.world.fail(CommError::Group { rank: self.rank, ranks, problem })
        })?;
        Collective::enter(&self.world, board, *me, entry, send)
    }

    /// Fails the world unless `holds`.
    fn require(&self, holds: bool, op: Op, problem: impl FnOnce() -> String) -> Result<(), CommError> {
        match holds {
            true => Ok(()),
            false => Err(self.world.fail(CommError::Argument { rank: self.rank, op, problem: problem() })),
        }
    }

    fn gather<T: Copy + Sync>(
        &self,
        op: Op,
        group: &Group,
        send: &[T],
        recv: &mut [T],
    ) -> Result<(), CommError> {
        let (n, len) = (group.size(), send.len());
        self.require(recv.len() == n * len, op, || {
            format!("{n} ranks send {len} elements each, the receiving buffer holds {}", recv.len())
        })?;
        let entered = self.enter(group, Entry { op, elements: len, detail: 0 }, send)?;
        entered.read(|peers| {
            for index in 0..n {
                recv[index * len..(index + 1) * len].copy_from_slice(peers.data(index));
            }
            Ok(())
        })?;
        entered.finish()
    }

    /// Each member sums its part of `data` over all members, then takes the other parts from their owners.
    fn reduce_all<T: Copy + Default + AddAssign + Send + Sync>(
        &self,
        op: Op,
        group: &Group,
        data: &mut [T],
    ) -> Result<(), CommError> {
        let (n, len, me) = (group.size(), data.len(), group.index());
        let part = |index: usize| index * len / n..(index + 1) * len / n;
        let shared = Exposed::slice(data);
        let entered = self.enter(group, Entry { op, elements: len, detail: 0 }, shared)?;
        entered.read(|peers| {
            for block in blocks(part(me)) {
                let mut sum = [T::default(); BLOCK];
                for index in 0..n {
                    for (sum, value) in sum.iter_mut().zip(&peers.data(index)[block.clone()]) {
                        // SAFETY: until the next `sync` part `me` of any member is accessed by this member
                        // only.
                        *sum += unsafe { *value.0.get() };
                    }
                }
                for (value, sum) in shared[block].iter().zip(sum) {
                    // SAFETY: as above.
                    unsafe { *value.0.get() = sum };
                }
            }
            Ok(())
        })?;
        entered.sync()?;
        entered.read(|peers| {
            for index in (0..n).filter(|&index| index != me) {
                for (mine, theirs) in shared[part(index)].iter().zip(&peers.data(index)[part(index)]) {
                    // SAFETY: from `sync` to `finish` part `index` of its owner is only read, and part
                    // `index` of this member is accessed by this member only.
                    unsafe { *mine.0.get() = *theirs.0.get() };
                }
            }
            Ok(())
        })?;
        entered.finish()
    }

    /// Checks what `dispatch` and `combine` have in common.
    fn check_routing(&self, op: Op, group: &Group, cols: usize, routing: &Routing) -> Result<(), CommError> {
        self.require(routing.ranks() == group.size() && cols > 0, op, || {
            format!("a table of {} ranks and {cols} columns in a group of {}", routing.ranks(), group.size())
        })
    }
}

impl Communicator for LocalComm {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> usize {
        self.world.size()
    }

    fn group(&mut self, ranks: &[u32]) -> Result<Group, CommError> {
        let group = Group::new(self.members.len(), ranks, self.rank, self.world.size())?;
        let board = self.world.board(ranks);
        if let Some(id) = self.members.iter().position(|(known, _)| Arc::ptr_eq(known, &board)) {
            return Group::new(id, ranks, self.rank, self.world.size());
        }
        self.members.push((board, group.index()));
        Ok(group)
    }

    fn barrier(&self, group: &Group) -> Result<(), CommError> {
        let none: &[f32] = &[];
        self.enter(group, Entry { op: Op::Barrier, elements: 0, detail: 0 }, none)?.finish()
    }

    fn all_gather(&self, group: &Group, send: &[f32], recv: &mut [f32]) -> Result<(), CommError> {
        self.gather(Op::AllGather, group, send, recv)
    }

    fn all_gather_u32(&self, group: &Group, send: &[u32], recv: &mut [u32]) -> Result<(), CommError> {
        self.gather(Op::AllGatherU32, group, send, recv)
    }

    fn reduce_scatter(
        &self,
        group: &Group,
        send: &[f32],
        recv: &mut [f32],
        accumulate: bool,
    ) -> Result<(), CommError> {
        let (n, len, op) = (group.size(), recv.len(), Op::ReduceScatter);
        self.require(send.len() == n * len, op, || {
            format!("{n} ranks receive {len} elements each, this one sends {}", send.len())
        })?;
        let entered = self.enter(group, Entry { op, elements: send.len(), detail: 0 }, send)?;
        let base = group.index() * len;
        entered.read(|peers| {
            for block in blocks(0..len) {
                let mut sum = [0.0; BLOCK];
                for index in 0..n {
                    let theirs = &peers.data(index)[base + block.start..base + block.end];
                    sum.iter_mut().zip(theirs).for_each(|(sum, value)| *sum += value);
                }
                for (recv, sum) in recv[block].iter_mut().zip(sum) {
                    *recv = if accumulate { *recv + sum } else { sum };
                }
            }
            Ok(())
        })?;
        entered.finish()
    }

    fn all_reduce(&self, group: &Group, data: &mut [f32]) -> Result<(), CommError> {
        self.reduce_all(Op::AllReduce, group, data)
    }

    fn all_reduce_f64(&self, group: &Group, values: &mut [f64]) -> Result<(), CommError> {
        self.reduce_all(Op::AllReduceF64, group, values)
    }

    fn broadcast(&self, group: &Group, root: usize, data: &mut [f32]) -> Result<(), CommError> {
        let (n, op, elements) = (group.size(), Op::Broadcast, data.len());
        self.require(root < n, op, || format!("root {root} in a group of {n}"))?;
        let entry = Entry { op, elements, detail: group.ranks()[root] as usize };
        if root == group.index() {
            return self.enter(group, entry, data)?.finish();
        }
        let entered = self.enter(group, entry, &[])?;
        entered.read(|peers| {
            data.copy_from_slice(peers.data(root));
            Ok(())
        })?;
        entered.finish()
    }

    fn exchange(&self, group: &Group, counts: &[u32], routing: &mut Routing) -> Result<(), CommError> {
        let (n, experts, op) = (group.size(), counts.len(), Op::Exchange);
        self.require(routing.ranks() == n && routing.experts() == experts, op, || {
            let (ranks, known) = (routing.ranks(), routing.experts());
            format!(
                "counts of {experts} experts on {n} ranks for a table of {known} experts on {ranks} ranks"
            )
        })?;
        let entered = self.enter(group, Entry { op, elements: experts, detail: 0 }, counts)?;
        entered.read(|peers| {
            routing.update(|table| {
                for (index, row) in table.chunks_exact_mut(experts).enumerate() {
                    row.copy_from_slice(peers.data(index));
                }
            });
            Ok(())
        })?;
        entered.finish()
    }

    fn dispatch(
        &self,
        group: &Group,
        send: &[f32],
        recv: &mut [f32],
        cols: usize,
        routing: &Routing,
    ) -> Result<usize, CommError> {
        let (me, op) = (group.index(), Op::Dispatch);
        self.check_routing(op, group, cols, routing)?;
        let (sent, rows, capacity) = (routing.sent(me), routing.received(me), recv.len() / cols);
        self.require(send.len() >= sent * cols, op, || {
            format!("{sent} rows of {cols} columns to send, the buffer holds {} elements", send.len())
        })?;
        if rows > capacity {
            let [rows, average, capacity] = [rows, routing.average(), capacity].map(|n| n as u64);
            return Err(self.world.fail(CommError::Capacity { rank: self.rank, rows, average, capacity }));
        }
        let send = &send[..sent * cols];
        let entered = self.enter(group, Entry { op, elements: 0, detail: cols }, send)?;
        entered.read(|peers| {
            for expert in routing.owned(me) {
                for source in 0..peers.len() {
                    let (theirs, mine) = routing.rows(source, expert);
                    recv[mine.start * cols..mine.end * cols]
                        .copy_from_slice(rows_of(&peers, source, theirs, cols, group, op)?);
                }
            }
            Ok(())
        })?;
        entered.finish()?;
        Ok(rows)
    }

    fn combine(
        &self,
        group: &Group,
        send: &[f32],
        recv: &mut [f32],
        cols: usize,
        routing: &Routing,
    ) -> Result<(), CommError> {
        let (me, op) = (group.index(), Op::Combine);
        self.check_routing(op, group, cols, routing)?;
        let (rows, back) = (routing.received(me), routing.sent(me));
        self.require(send.len() >= rows * cols && recv.len() >= back * cols, op, || {
            let (have, room) = (send.len() / cols, recv.len() / cols);
            format!("{rows} rows to send and {back} to receive, the buffers hold {have} and {room}")
        })?;
        let send = &send[..rows * cols];
        let entered = self.enter(group, Entry { op, elements: 0, detail: cols }, send)?;
        entered.read(|peers| {
            for expert in 0..routing.experts() {
                let (mine, theirs) = routing.rows(me, expert);
                recv[mine.start * cols..mine.end * cols].copy_from_slice(rows_of(
                    &peers,
                    routing.owner(expert),
                    theirs,
                    cols,
                    group,
                    op,
                )?);
            }
            Ok(())
        })?;
        entered.finish()
    }

    fn abort(&self, reason: &str) {
        self.world.fail(CommError::Aborted { rank: self.rank, reason: reason.to_owned() });
    }
}

impl Drop for LocalComm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.abort("panicked");
        }
        self.world.leave(self.rank);
    }
}

/// Rows of a peer, unless it works with other counts than this rank.
fn rows_of<'p>(
    peers: &Peers<'p, f32>,
    index: usize,
    rows: Range<usize>,
    cols: usize,
    group: &Group,
    op: Op,
) -> Result<&'p [f32], CommError> {
    let data = peers.data(index);
    data.get(rows.start * cols..rows.end * cols).ok_or_else(|| CommError::Argument {
        rank: group.ranks()[index],
        op,
        problem: format!("its {} rows are not the ones it announced in `exchange`", data.len() / cols),
    })
}

/// The range in pieces of at most [`BLOCK`].
fn blocks(range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    range.clone().step_by(BLOCK).map(move |start| start..range.end.min(start + BLOCK))
}

/// An element of the caller's own buffer that other members read and this one writes, at different times.
#[repr(transparent)]
struct Exposed<T>(UnsafeCell<T>);

// SAFETY: the content is reached only through unsafe code, which answers for the times of access.
unsafe impl<T: Send + Sync> Sync for Exposed<T> {}

impl<T> Exposed<T> {
    fn slice(data: &mut [T]) -> &[Exposed<T>] {
        // SAFETY: `Exposed<T>` has the layout of `T`, and the result keeps `data` mutably borrowed.
        unsafe { &*(std::ptr::from_mut(data) as *const [Exposed<T>]) }
    }
}

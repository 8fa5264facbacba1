//! How the threads of one process meet: a board per group on which each member publishes what it does and
//! where its data lies, and one world that knows whether the job is still sound.
//!
//! Every slot has a `tick` that only its owner advances. A member posts a tick and waits until all others
//! have posted it too; between the first tick of a collective and its last one the published data may be
//! read.
//!
//! When the job fails, a member may leave a collective early, and its data with it. So a read is bracketed by
//! the reader's `reading` flag: the reader raises it and then looks whether the world has failed; a member
//! that leaves early knows the world has failed and then waits for the flags. In the total order of these
//! (sequentially consistent) accesses one of the two always sees the other.

use super::error::{Call, CommError, Op};
use std::marker::PhantomData;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Looks at the peers before yielding the processor, and yields before sleeping.
const SPINS: u32 = 200;
const YIELDS: u32 = 20;
/// How long a member sleeps before it looks for ranks that ended and for ranks that wait for each other.
const NAP: Duration = Duration::from_millis(100);

/// What all ranks of a process share.
pub(super) struct World {
    limit: Duration,
    /// Ranks whose communicator no longer exists.
    gone: Box<[AtomicBool]>,
    failed: AtomicBool,
    cause: Mutex<Option<CommError>>,
    registry: Mutex<Registry>,
}

struct Registry {
    boards: Vec<Arc<Board>>,
    /// Ranks seen by the search of [`World::deadlock`]; kept so that it does not allocate.
    reached: Vec<bool>,
}

impl World {
    /// A world of `size` ranks, none of which waits longer than `limit` for the others.
    pub(super) fn new(size: usize, limit: Duration) -> Self {
        World {
            limit,
            gone: (0..size).map(|_| AtomicBool::new(false)).collect(),
            failed: AtomicBool::new(false),
            cause: Mutex::new(None),
            registry: Mutex::new(Registry { boards: Vec::new(), reached: vec![false; size] }),
        }
    }

    pub(super) fn size(&self) -> usize {
        self.gone.len()
    }

    /// The board of the group of these ranks, the same one for all of them.
    pub(super) fn board(&self, ranks: &[u32]) -> Arc<Board> {
        let mut registry = lock(&self.registry);
        if let Some(board) = registry.boards.iter().find(|board| *board.ranks == *ranks) {
            return board.clone();
        }
        let board = Arc::new(Board::new(ranks));
        registry.boards.push(board.clone());
        board
    }

    /// Ends the job for all ranks and returns why: the first reason given counts.
    pub(super) fn fail(&self, error: CommError) -> CommError {
        let cause = lock(&self.cause).get_or_insert(error).clone();
        self.failed.store(true, SeqCst);
        self.wake_all();
        cause
    }

    /// Notes that a rank takes part no longer.
    pub(super) fn leave(&self, rank: u32) {
        self.gone[rank as usize].store(true, SeqCst);
        self.wake_all();
    }

    fn wake_all(&self) {
        for board in &lock(&self.registry).boards {
            board.wake();
        }
    }

    /// Why the job has failed, if it has.
    pub(super) fn check(&self) -> Result<(), CommError> {
        if self.failed.load(SeqCst)
            && let Some(cause) = &*lock(&self.cause)
        {
            return Err(cause.clone());
        }
        Ok(())
    }

    /// Whether `rank` waits, through any number of ranks and groups, for itself: then names the rank it waits
    /// for and the board that one waits on.
    ///
    /// A member with a higher tick than another one waits for it, and only that one ends the wait. Ticks only
    /// grow, so a search between two equal sums of all ticks has seen them as they were at one moment.
    fn deadlock(&self, rank: u32) -> Option<(u32, Arc<Board>)> {
        let mut registry = lock(&self.registry);
        let Registry { boards, reached } = &mut *registry;
        let ticks = |boards: &[Arc<Board>]| boards.iter().map(|board| board.ticks()).sum::<u64>();
        let before = ticks(boards);
        let mine = boards.iter().find(|board| board.holds(rank))?;
        let peer = mine.awaited_by(mine.index(rank)?).find(|&peer| {
            reached.fill(false);
            reached[peer as usize] = true;
            spread(boards, reached);
            reached[rank as usize]
        })?;
        let theirs = boards.iter().find(|board| board.holds(peer))?.clone();
        (before == ticks(boards)).then_some((peer, theirs))
    }
}

/// Marks every rank that a marked rank waits for, until there is no other.
fn spread(boards: &[Arc<Board>], reached: &mut [bool]) {
    let mut grown = true;
    while std::mem::take(&mut grown) {
        for board in boards {
            for (index, &rank) in board.ranks.iter().enumerate() {
                if reached[rank as usize] {
                    for other in board.awaited_by(index) {
                        grown |= !std::mem::replace(&mut reached[other as usize], true);
                    }
                }
            }
        }
    }
}

/// The meeting place of one group.
pub(super) struct Board {
    ranks: Box<[u32]>,
    slots: Box<[Slot]>,
    /// Members that sleep on `bell`; nobody rings it for zero.
    sleepers: AtomicUsize,
    lock: Mutex<()>,
    bell: Condvar,
}

/// What one member publishes; on a cache line of its own.
#[repr(align(128))]
#[derive(Default)]
struct Slot {
    tick: AtomicU64,
    reading: AtomicBool,
    op: AtomicU8,
    number: AtomicU64,
    elements: AtomicU64,
    detail: AtomicU64,
    data: AtomicPtr<()>,
    len: AtomicUsize,
}

impl Board {
    fn new(ranks: &[u32]) -> Self {
        Board {
            ranks: ranks.into(),
            slots: ranks.iter().map(|_| Slot::default()).collect(),
            sleepers: AtomicUsize::new(0),
            lock: Mutex::new(()),
            bell: Condvar::new(),
        }
    }

    fn index(&self, rank: u32) -> Option<usize> {
        self.ranks.binary_search(&rank).ok()
    }

    fn ticks(&self) -> u64 {
        self.slots.iter().map(|slot| slot.tick.load(SeqCst)).sum()
    }

    /// The members that have not posted a tick which the member at `index` has.
    fn awaited_by(&self, index: usize) -> impl Iterator<Item = u32> {
        let tick = self.slots[index].tick.load(SeqCst);
        let late = self.slots.iter().zip(&self.ranks).filter(move |(slot, _)| slot.tick.load(SeqCst) < tick);
        late.map(|(_, &rank)| rank)
    }

    /// Whether `rank` is a member and waits here. It can wait on one board at a time.
    fn holds(&self, rank: u32) -> bool {
        self.index(rank).is_some_and(|index| self.awaited_by(index).next().is_some())
    }

    fn wake(&self) {
        if self.sleepers.load(SeqCst) > 0 {
            let _held = lock(&self.lock);
            self.bell.notify_all();
        }
    }

    fn call(&self, index: usize) -> Call {
        let slot = &self.slots[index];
        Call {
            rank: self.ranks[index],
            op: Op::ALL[slot.op.load(Relaxed) as usize],
            number: slot.number.load(Relaxed),
            elements: slot.elements.load(Relaxed),
            detail: slot.detail.load(Relaxed),
            group: self.ranks.to_vec(),
        }
    }

    /// Posts the next tick of the member `me` and waits until all members have posted theirs.
    fn post_and_wait(&self, world: &World, me: usize) -> Result<(), CommError> {
        let tick = self.slots[me].tick.load(Relaxed) + 1;
        self.slots[me].tick.store(tick, SeqCst);
        self.wake();
        let all_here = || self.slots.iter().all(|slot| slot.tick.load(SeqCst) >= tick);
        for turn in 0..SPINS + YIELDS {
            if all_here() {
                return Ok(());
            }
            world.check()?;
            if turn < SPINS { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
        let start = Instant::now();
        loop {
            let held = lock(&self.lock);
            self.sleepers.fetch_add(1, SeqCst);
            if !all_here() && !world.failed.load(SeqCst) {
                let nap = NAP.min(world.limit.saturating_sub(start.elapsed()));
                drop(self.bell.wait_timeout(held, nap));
            } else {
                drop(held);
            }
            self.sleepers.fetch_sub(1, SeqCst);
            if all_here() {
                return Ok(());
            }
            world.check()?;
            self.look_for_trouble(world, me, tick, start)?;
        }
    }

    /// After a while without all members: has one ended, do some wait for each other, is the time up?
    fn look_for_trouble(&self, world: &World, me: usize, tick: u64, start: Instant) -> Result<(), CommError> {
        for (slot, &rank) in self.slots.iter().zip(&self.ranks) {
            // The flag first: a rank that ended has posted all the ticks it ever will.
            if world.gone[rank as usize].load(SeqCst) && slot.tick.load(SeqCst) < tick {
                let reason = format!("ended while {}", self.call(me));
                return Err(world.fail(CommError::Aborted { rank, reason }));
            }
        }
        let waited = start.elapsed();
        if waited < NAP.min(world.limit) {
            return Ok(());
        }
        if let Some((peer, board)) = world.deadlock(self.ranks[me])
            && let Some(index) = board.index(peer)
        {
            return Err(world.fail(CommError::Mismatch { first: self.call(me), second: board.call(index) }));
        }
        if waited >= world.limit {
            let silent = self.awaited_by(me).collect();
            return Err(world.fail(CommError::Timeout { call: self.call(me), silent, limit: world.limit }));
        }
        Ok(())
    }
}

/// What a member says about the collective it enters; all members must say the same.
pub(super) struct Entry {
    pub op: Op,
    pub elements: usize,
    pub detail: usize,
}

/// One member inside one collective. `'a` is the borrow of the data it published, which ends only after
/// [`finish`](Self::finish) or drop, when nobody reads it any more.
pub(super) struct Collective<'a, T> {
    world: &'a World,
    board: &'a Board,
    me: usize,
    finished: bool,
    data: PhantomData<&'a [T]>,
}

impl<'a, T: Sync> Collective<'a, T> {
    /// Publishes `send` and returns when all members are in the same collective.
    pub(super) fn enter(
        world: &'a World,
        board: &'a Board,
        me: usize,
        entry: Entry,
        send: &'a [T],
    ) -> Result<Self, CommError> {
        world.check()?;
        let slot = &board.slots[me];
        slot.op.store(entry.op as u8, Relaxed);
        slot.number.fetch_add(1, Relaxed);
        slot.elements.store(entry.elements as u64, Relaxed);
        slot.detail.store(entry.detail as u64, Relaxed);
        slot.data.store(send.as_ptr().cast_mut().cast(), Relaxed);
        slot.len.store(send.len(), Relaxed);
        let entered = Collective { world, board, me, finished: false, data: PhantomData };
        entered.sync()?;
        let said = |s: &Slot| (s.op.load(Relaxed), s.elements.load(Relaxed), s.detail.load(Relaxed));
        let first = said(&board.slots[0]);
        match board.slots.iter().position(|slot| said(slot) != first) {
            None => Ok(entered),
            Some(other) => {
                Err(world.fail(CommError::Mismatch { first: board.call(0), second: board.call(other) }))
            }
        }
    }

    /// Waits until all members are here.
    pub(super) fn sync(&self) -> Result<(), CommError> {
        self.board.post_and_wait(self.world, self.me)
    }

    /// Gives `read` the data of all members. Its error ends the job.
    pub(super) fn read<R>(
        &self,
        read: impl for<'p> FnOnce(Peers<'p, T>) -> Result<R, CommError>,
    ) -> Result<R, CommError> {
        struct Lowered<'f>(&'f AtomicBool);
        impl Drop for Lowered<'_> {
            fn drop(&mut self) {
                self.0.store(false, SeqCst);
            }
        }
        let flag = &self.board.slots[self.me].reading;
        flag.store(true, SeqCst);
        let _lowered = Lowered(flag);
        self.world.check()?;
        read(Peers { board: self.board, data: PhantomData }).map_err(|error| self.world.fail(error))
    }

    /// Returns when no member needs this one's data any more.
    pub(super) fn finish(mut self) -> Result<(), CommError> {
        self.sync()?;
        self.finished = true;
        Ok(())
    }
}

impl<T> Drop for Collective<'_, T> {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        // Left early: by an error, which has failed the world already, or by a panic.
        if self.world.check().is_ok() {
            let rank = self.board.ranks[self.me];
            self.world.fail(CommError::Aborted { rank, reason: "left a collective".into() });
        }
        while self.board.slots.iter().any(|slot| slot.reading.load(SeqCst)) {
            std::thread::yield_now();
        }
    }
}

/// The published data of all members while it may be read.
pub(super) struct Peers<'p, T> {
    board: &'p Board,
    data: PhantomData<&'p [T]>,
}

impl<'p, T: Sync> Peers<'p, T> {
    /// The data of the member at `index`.
    pub(super) fn data(&self, index: usize) -> &'p [T] {
        let slot = &self.board.slots[index];
        let (data, len) = (slot.data.load(Relaxed), slot.len.load(Relaxed));
        // SAFETY: the owner published a `&[T]` that it keeps borrowed until nobody reads (module docs), `T`
        // is the same on both sides because it follows from the operation, which has been compared, and the
        // tick of the owner (SeqCst) orders the writes to slot and data before this read.
        unsafe { std::slice::from_raw_parts(data.cast::<T>(), len) }
    }

    pub(super) fn len(&self) -> usize {
        self.board.slots.len()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

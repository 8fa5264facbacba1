//! Documents tokenised on threads in the background, in the order of each source.
//!
//! A thread takes the source with the fewest batches under way, reads a batch while nobody else reads that source, and
//! tokenises it beside the others; batches are handed out in the order in which they were read. So what comes out depends on
//! neither the number of threads nor their speed, and a source is never more than a few batches ahead.

use super::encode::{Encoder, Tokens};
use super::record::{Address, Piece, Place};
use super::source::{Cursor, Walk};
use crate::diag::Diagnostic;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// A batch has at least this many bytes, or this many documents.
const BATCH_BYTES: usize = 32 << 10;
const BATCH_DOCUMENTS: usize = 256;

/// A piece of a document as tokens.
pub(super) struct Drawn {
    pub address: Address,
    pub byte: u64,
    pub place: Place,
    pub tokens: Result<Tokens, Diagnostic>,
    /// Whether the document ends with it.
    pub ended: bool,
    /// The source behind it.
    pub next: Cursor,
    pub progress: f64,
}

/// The sources, as queues of pieces.
pub(super) struct Pipeline {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// The rest of the batch that each source is handing out.
    ready: Vec<VecDeque<Drawn>>,
}

struct Shared {
    encoder: Arc<Encoder>,
    walks: Vec<Mutex<Walk>>,
    state: Mutex<State>,
    /// Rung for the threads: there is room.
    room: Condvar,
    /// Rung for the reader: a batch is done.
    done: Condvar,
    /// Batches of a source that are under way or done.
    depth: usize,
}

struct State {
    queues: Vec<Queue>,
    stop: bool,
}

type Batch = Result<Vec<Drawn>, Diagnostic>;

#[derive(Default)]
struct Queue {
    batches: VecDeque<Option<Batch>>,
    /// Number of the batch in front.
    first: u64,
    /// Somebody reads the source, or it has failed for good.
    closed: bool,
}

impl Pipeline {
    pub(super) fn new(encoder: Arc<Encoder>, walks: Vec<Walk>, workers: usize) -> Result<Self, Diagnostic> {
        let workers = workers.max(1);
        let queues = walks.iter().map(|_| Queue::default()).collect();
        let ready = walks.iter().map(|_| VecDeque::new()).collect();
        let shared = Arc::new(Shared {
            encoder,
            walks: walks.into_iter().map(Mutex::new).collect(),
            state: Mutex::new(State { queues, stop: false }),
            room: Condvar::new(),
            done: Condvar::new(),
            depth: workers + 2,
        });
        let mut pipeline = Pipeline { shared, threads: Vec::new(), ready };
        for number in 0..workers {
            let shared = pipeline.shared.clone();
            let thread = thread::Builder::new().name(format!("tokens-{number}")).spawn(move || shared.work());
            pipeline.threads.push(thread.map_err(|error| {
                Diagnostic::error(
                    "step::data::thread",
                    format!("cannot start a thread that prepares data: {error}"),
                )
            })?);
        }
        Ok(pipeline)
    }

    /// The next piece of a source.
    pub(super) fn next(&mut self, source: usize) -> Result<Drawn, Diagnostic> {
        loop {
            if let Some(drawn) = self.ready[source].pop_front() {
                return Ok(drawn);
            }
            let mut state = self.shared.lock();
            let batch = loop {
                let queue = &mut state.queues[source];
                if let Some(batch) = queue.batches.front_mut().and_then(Option::take) {
                    queue.batches.pop_front();
                    queue.first += 1;
                    break batch;
                }
                state = self.shared.done.wait(state).unwrap_or_else(PoisonError::into_inner);
            };
            self.shared.room.notify_all();
            drop(state);
            self.ready[source].extend(batch?);
        }
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.room.notify_all();
        for thread in self.threads.drain(..) {
            // What it had to say is in its batch.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while let Some(source) = self.open() {
            let read = catch_unwind(AssertUnwindSafe(|| {
                read(&mut self.walks[source].lock().unwrap_or_else(PoisonError::into_inner))
            }));
            let read = read.unwrap_or_else(|_| Err(panicked()));
            let number = {
                let mut state = self.lock();
                let queue = &mut state.queues[source];
                queue.batches.push_back(None);
                queue.closed = read.is_err();
                queue.first + queue.batches.len() as u64 - 1
            };
            self.room.notify_one();
            let batch = read.and_then(|batch| {
                catch_unwind(AssertUnwindSafe(|| self.encode(source, batch))).map_err(|_| panicked())
            });
            let mut state = self.lock();
            let queue = &mut state.queues[source];
            let at = (number - queue.first) as usize;
            queue.batches[at] = Some(batch);
            self.done.notify_all();
        }
    }

    /// The source to read next, which is then closed to others; `None` when it is over.
    fn open(&self) -> Option<usize> {
        let mut state = self.lock();
        while !state.stop {
            let open = state.queues.iter_mut().enumerate();
            let open = open.filter(|(_, queue)| !queue.closed && queue.batches.len() < self.depth);
            if let Some((source, queue)) = open.min_by_key(|(_, queue)| queue.batches.len()) {
                queue.closed = true;
                return Some(source);
            }
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }

    fn encode(&self, source: usize, batch: Vec<Read>) -> Vec<Drawn> {
        let encode = |read: Read| Drawn {
            address: read.address,
            byte: read.byte,
            tokens: self.encoder.encode(source, &read.piece),
            ended: read.piece.end.is_none(),
            place: read.piece.place,
            next: read.next,
            progress: read.progress,
        };
        batch.into_iter().map(encode).collect()
    }
}

/// A piece that has been read.
struct Read {
    address: Address,
    byte: u64,
    piece: Piece,
    next: Cursor,
    progress: f64,
}

/// The next batch of a source.
fn read(walk: &mut Walk) -> Result<Vec<Read>, Diagnostic> {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    while bytes < BATCH_BYTES && batch.len() < BATCH_DOCUMENTS {
        let turn = walk.turn()?;
        let (address, byte) = (turn.address, turn.byte);
        let size = turn.document.content.size();
        let piece = turn.document.piece(byte)?;
        bytes += piece.end.unwrap_or(size).saturating_sub(byte) as usize;
        walk.advance(piece.end.map(|end| end - byte));
        batch.push(Read { address, byte, piece, next: walk.cursor(), progress: walk.progress() });
    }
    Ok(batch)
}

fn panicked() -> Diagnostic {
    Diagnostic::error(
        "step::data::thread",
        "a thread that prepares data has ended by a mistake of this program",
    )
    .help("please report it together with the data")
}

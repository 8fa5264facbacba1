//! Sequences prepared in the background, ahead of the ranks that read them.
//!
//! Readers ask for ascending indices, each at its own pace. A thread keeps `ahead` sequences ready beyond the
//! highest index anyone has asked for, and waits when there is nothing to do; a sequence is let go when
//! all readers have passed it. So a reader only ever waits for the thread, never for another reader.

use super::config::Config;
use super::encode::Encoder;
use super::pack::Sequence;
use super::packer::Packer;
use super::position::{Changed, Counts, Position};
use crate::diag::{Diagnostic, Severity};
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// What the files hold and what the sequences that have been asked for are made of.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Statistics {
    pub files: usize,
    /// Of all files, as they lie on the disk.
    pub bytes: u64,
    /// Files without a document.
    pub hollow: Vec<PathBuf>,
    /// Tokens in the sequences of this loader, and those of them that are to be learned.
    pub tokens: u64,
    pub supervised: u64,
    /// Documents read since sequence 0.
    pub counts: Counts,
    /// Passes since sequence 0 over the source that has been read most often.
    pub epochs: f64,
    /// Passes that a token of the run makes, over the source of which it makes most; judged by what has been drawn.
    pub rate: f64,
    /// The first document of each kind that was left out.
    pub notes: BTreeMap<&'static str, Diagnostic>,
}

impl Statistics {
    /// The same up to `position`.
    fn at(self, position: &Position) -> Self {
        let (counts, epochs, rate) = (position.counts, position.epochs(), position.rate());
        Statistics { counts, epochs, rate, ..self }
    }

    /// What became of documents that were not simply used, a line each.
    pub fn told(&self) -> Vec<String> {
        let Counts { documents, overlong, invalid, empty, unsupervised, replaced } = self.counts;
        let kinds = [
            (overlong, "longer than a sequence"),
            (invalid, "left out: not readable"),
            (empty, "left out: empty"),
            (unsupervised, "left out: nothing in them is to be learned"),
            (replaced, "with half of a surrogate pair, now U+FFFD"),
        ];
        let kinds = kinds.into_iter().filter(|(count, _)| *count > 0);
        kinds.map(|(count, what)| format!("{count} of {documents} documents {what}")).collect()
    }

    /// About how many passes `tokens` tokens are over the source that is read most often.
    pub fn passes(&self, tokens: u64) -> f64 {
        self.rate * tokens as f64
    }

    /// Warnings of what was left out, the first document of each kind.
    pub fn left_out(&self) -> impl Iterator<Item = Diagnostic> {
        self.notes.values().cloned().map(|note| Diagnostic { severity: Severity::Warning, ..note })
    }
}

/// The sequences of a run, shared by all ranks of a process. Dropping it ends its threads.
pub struct Loader {
    shared: Arc<Shared>,
    encoder: Arc<Encoder>,
    changed: Vec<Changed>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    /// Rung for readers: there is a sequence or an error.
    ready: Condvar,
    /// Rung for the thread: there is something to do.
    work: Condvar,
}

struct State {
    /// Sequences, each with the position behind it.
    window: VecDeque<(Arc<Sequence>, Position)>,
    /// The index of the first sequence in the window, which is the lowest any reader may ask for.
    base: u64,
    /// The position in front of it.
    position: Position,
    /// The last index each reader has asked for.
    cursors: Vec<u64>,
    ahead: u64,
    /// Why there are no more sequences.
    error: Option<Diagnostic>,
    stop: bool,
    /// Up to here sequences have been asked for and are in the statistics.
    told: u64,
    statistics: Statistics,
    notes: BTreeMap<&'static str, (u64, Diagnostic)>,
    /// How often each token has come up.
    counts: Vec<u64>,
}

impl Loader {
    /// Checks the files and the tokenizer and starts to prepare the sequences from index 0 on, for `readers`
    /// threads that read them.
    ///
    /// # Errors
    /// A tokenizer or a file that cannot be read, a tokenizer with more ids than `vocab`, a pattern without
    /// files, a chat template that does not work, less than one sequence of data.
    pub fn open(config: &Config, readers: usize) -> Result<Self, Diagnostic> {
        Self::start(config, None, readers)
    }

    /// As [`open`](Self::open), from the sequence on that `position` stands before, without what comes before it.
    ///
    /// Sources and policies may have changed since; [`changed`](Self::changed) then says what that means.
    ///
    /// # Errors
    /// As [`open`](Self::open); another length of sequences, another seed or tokenizer.
    pub fn open_at(config: &Config, position: &Position, readers: usize) -> Result<Self, Diagnostic> {
        Self::start(config, Some(position), readers)
    }

    fn start(config: &Config, position: Option<&Position>, readers: usize) -> Result<Self, Diagnostic> {
        if config.sources.is_empty() || config.sequence == 0 || i32::try_from(config.sequence).is_err() {
            let (sources, length) = (config.sources.len(), config.sequence);
            let message = format!("{sources} sources of data and sequences of {length} tokens");
            return Err(Diagnostic::error("step::data::config", message)
                .help("`data` needs at least one `source` and a `sequence` between 1 and 2147483647"));
        }
        let packer = Packer::open(config, position)?;
        let sources = packer.sources();
        let statistics = Statistics {
            files: sources.iter().map(|source| source.files()).sum(),
            bytes: sources.iter().map(|source| source.bytes).sum(),
            hollow: sources.iter().flat_map(|source| source.hollow.clone()).collect(),
            ..Statistics::default()
        };
        // What the first sequence needs has been read: enough to judge how many passes a run is.
        let statistics = statistics.at(&packer.position());
        let (position, changed) = (packer.start().clone(), packer.changed().to_vec());
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                window: VecDeque::new(),
                base: position.sequence,
                cursors: vec![position.sequence; readers],
                position: position.clone(),
                ahead: config.ahead.max(1),
                error: None,
                stop: false,
                told: position.sequence,
                statistics,
                notes: BTreeMap::new(),
                counts: vec![0; config.vocab],
            }),
            ready: Condvar::new(),
            work: Condvar::new(),
        });
        let (theirs, encoder) = (shared.clone(), packer.encoder());
        let thread = thread::Builder::new().name("data".into()).spawn(move || theirs.produce(packer));
        let thread = thread.map_err(|error| {
            Diagnostic::error(
                "step::data::thread",
                format!("cannot start the thread that prepares data: {error}"),
            )
        })?;
        Ok(Loader { shared, encoder, changed, thread: Some(thread) })
    }

    /// The sequence at `index`, as soon as it is ready. `reader`, below the `readers` of
    /// [`open`](Self::open), asks for ascending indices.
    ///
    /// # Errors
    /// A problem in a document that the sequence, or one before it, is made of; an index below an earlier
    /// one.
    pub fn sequence(&self, reader: usize, index: u64) -> Result<Arc<Sequence>, Diagnostic> {
        let mut state = self.shared.lock();
        if state.cursors.get(reader).is_none_or(|&last| index < last) {
            let message = format!("reader {reader} asks for sequence {index} out of order");
            return Err(Diagnostic::error("step::data::order", message)
                .help("sequences are read in ascending order; open the data again to go back"));
        }
        state.cursors[reader] = index;
        state.let_go();
        self.shared.work.notify_one();
        loop {
            let at = index.checked_sub(state.base);
            if let Some(found) =
                at.and_then(|at| state.window.get(at as usize)).map(|(found, _)| found.clone())
            {
                while state.told <= index {
                    state.tell();
                }
                return Ok(found);
            }
            if let Some(error) = &state.error {
                return Err(error.clone());
            }
            state = self.shared.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Where the data stands before sequence `index`, which is not below what every reader has asked for and at most one
    /// above what has been asked for at all: what a checkpoint keeps.
    ///
    /// # Errors
    /// An index outside of these.
    pub fn position(&self, index: u64) -> Result<Position, Diagnostic> {
        let state = self.shared.lock();
        let behind = |at: u64| state.window.get(at as usize).map(|(_, position)| position);
        let found = match index.checked_sub(state.base) {
            Some(0) => Some(&state.position),
            Some(at) => behind(at - 1),
            None => None,
        };
        found.cloned().ok_or_else(|| {
            let message =
                format!("the position of sequence {index} is not at hand, but from {} on", state.base);
            Diagnostic::error("step::data::order", message)
                .help("a position is asked for at the end of its step")
        })
    }

    /// What is not as it was when the position was kept that the data goes on from.
    pub fn changed(&self) -> &[Changed] {
        &self.changed
    }

    /// What is read where the tokens stand.
    pub fn text(&self, tokens: &[u32]) -> String {
        self.encoder.tokenizer.show(tokens)
    }

    /// What the files hold, and what became of the documents of the sequences asked for so far.
    pub fn statistics(&self) -> Statistics {
        let state = self.shared.lock();
        let notes = state.notes.iter().filter(|(_, (sequence, _))| *sequence < state.told);
        let notes = notes.map(|(code, (_, note))| (*code, note.clone())).collect();
        Statistics { notes, ..state.statistics.clone() }
    }

    /// The entropy, in nats a token, of the tokens asked for so far, taken one by one: the loss of a model
    /// that knows how frequent each token is and nothing else.
    pub fn unigram_entropy(&self) -> f64 {
        let state = self.shared.lock();
        let total = state.statistics.tokens as f64;
        let seen = state.counts.iter().filter(|&&count| count > 0).map(|&count| count as f64 / total);
        seen.map(|share| -share * share.ln()).sum()
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.work.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported to the readers.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread: prepares sequences until told to stop or until one cannot be made.
    fn produce(&self, mut packer: Packer) {
        /// Leaves an error behind when the thread ends by a panic, so that nobody waits for ever.
        struct Farewell<'a>(&'a Shared);
        impl Drop for Farewell<'_> {
            fn drop(&mut self) {
                let ended =
                    || Diagnostic::error("step::data::thread", "the thread that prepares data has ended");
                self.0.lock().error.get_or_insert_with(ended);
                self.0.ready.notify_all();
            }
        }
        let _farewell = Farewell(self);
        loop {
            let made = packer.next();
            let mut state = self.lock();
            if state.notes.len() < packer.notes.len() {
                state.notes.clone_from(&packer.notes);
            }
            let sequence = match made {
                Ok(sequence) => sequence,
                Err(error) => {
                    state.error = Some(error);
                    return;
                }
            };
            state.window.push_back((Arc::new(sequence), packer.position()));
            state.let_go();
            self.ready.notify_all();
            while state.base + state.window.len() as u64 > state.wanted() && !state.stop {
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.stop {
                return;
            }
        }
    }
}

impl State {
    /// Takes the next sequence of the window into the statistics.
    fn tell(&mut self) {
        let (sequence, position) = &self.window[(self.told - self.base) as usize];
        self.statistics.tokens += sequence.tokens.len() as u64;
        self.statistics.supervised += sequence.labels.iter().filter(|&&label| label >= 0).count() as u64;
        for &token in &sequence.tokens {
            self.counts[token as usize] += 1;
        }
        self.statistics = std::mem::take(&mut self.statistics).at(position);
        self.told += 1;
    }

    /// Lets go of the sequences that all readers have passed.
    fn let_go(&mut self) {
        let passed = self.cursors.iter().copied().min().unwrap_or(self.base);
        while self.base < passed {
            if self.told == self.base && !self.window.is_empty() {
                self.tell();
            }
            let Some((_, position)) = self.window.pop_front() else { break };
            self.position = position;
            self.base += 1;
        }
    }

    /// The index up to which sequences are prepared.
    fn wanted(&self) -> u64 {
        self.cursors.iter().copied().max().unwrap_or(self.base).saturating_add(self.ahead)
    }
}

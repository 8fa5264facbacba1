//! Sequences prepared on a thread of their own, ahead of the ranks that read them.
//!
//! Readers ask for ascending indices, each at its own pace. The thread keeps [`AHEAD`] sequences ready beyond
//! the highest index anyone has asked for, and waits when there is nothing to do; a sequence is let go when
//! all readers have passed it. So a reader only ever waits for the thread, never for another reader.

use super::corpus::{Source, SourceConfig};
use super::pack::{Packer, Sequence};
use super::tokenizer::Tokenizer;
use crate::diag::Diagnostic;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// Sequences kept ready beyond the ones asked for.
const AHEAD: u64 = 32;

/// What to read and how to cut it.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    pub sources: Vec<SourceConfig>,
    /// A `tokenizer.json`, or a folder that holds one.
    pub tokenizer: PathBuf,
    /// Tokens of a sequence.
    pub sequence: usize,
    /// Attention never crosses a document: a segment for each.
    pub documents: bool,
    /// Of the order of documents.
    pub seed: u64,
    /// Token ids the model knows.
    pub vocab: usize,
    /// The token that ends a document, if it is not the tokenizer's own.
    pub eos: Option<u32>,
}

/// What the files hold and what has been prepared from them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Statistics {
    pub files: usize,
    /// Documents and bytes of all files.
    pub documents: u64,
    pub bytes: u64,
    /// Documents read to their end, and tokens in sequences, since index 0.
    pub documents_read: u64,
    pub tokens: u64,
    /// Passes over the source that has been read most often.
    pub epochs: f64,
}

/// The sequences of a run, shared by all ranks of a process. Dropping it ends its thread.
pub struct Loader {
    shared: Arc<Shared>,
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
    window: VecDeque<Arc<Sequence>>,
    /// The index of the first sequence in the window, which is the lowest any reader may ask for.
    base: u64,
    /// The last index each reader has asked for.
    cursors: Vec<u64>,
    /// Why there are no more sequences.
    error: Option<Diagnostic>,
    stop: bool,
    statistics: Statistics,
    /// How often each token has come up.
    counts: Vec<u64>,
}

impl Loader {
    /// Checks the files and the tokenizer and starts to prepare the sequences from index `first` on, for
    /// `readers` threads that read them.
    ///
    /// # Errors
    /// A tokenizer or a file that cannot be read, a tokenizer with more ids than `vocab`, a pattern without
    /// files, a format that is not supported, less than one sequence of data.
    pub fn open(config: &Config, first: u64, readers: usize) -> Result<Self, Diagnostic> {
        if config.sources.is_empty() || config.sequence == 0 || i32::try_from(config.sequence).is_err() {
            let (sources, length) = (config.sources.len(), config.sequence);
            let message = format!("{sources} sources of data and sequences of {length} tokens");
            return Err(Diagnostic::error("step::data::config", message)
                .help("`data` needs at least one `source` and a `sequence` between 1 and 2147483647"));
        }
        let tokenizer = Tokenizer::open(&config.tokenizer, config.vocab, config.eos)?;
        let sources = config.sources.iter().map(Source::open).collect::<Result<_, _>>()?;
        let packer = Packer::new(sources, tokenizer, config.sequence, config.documents, config.seed)?;

        let (files, documents, bytes) = packer.corpus();
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                window: VecDeque::new(),
                base: first,
                cursors: vec![first; readers],
                error: None,
                stop: false,
                statistics: Statistics { files, documents, bytes, ..Statistics::default() },
                counts: vec![0; config.vocab],
            }),
            ready: Condvar::new(),
            work: Condvar::new(),
        });
        let theirs = shared.clone();
        let thread = thread::Builder::new().name("data".into()).spawn(move || theirs.produce(packer, first));
        let thread = thread.map_err(|error| {
            Diagnostic::error(
                "step::data::thread",
                format!("cannot start the thread that prepares data: {error}"),
            )
        })?;
        Ok(Loader { shared, thread: Some(thread) })
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
        let passed = state.passed();
        while state.base < passed && state.window.pop_front().is_some() {
            state.base += 1;
        }
        self.shared.work.notify_one();
        loop {
            if let Some(found) = index.checked_sub(state.base).and_then(|at| state.window.get(at as usize)) {
                return Ok(found.clone());
            }
            if let Some(error) = &state.error {
                return Err(error.clone());
            }
            state = self.shared.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// What the files hold and what has been prepared so far.
    pub fn statistics(&self) -> Statistics {
        self.shared.lock().statistics
    }

    /// The entropy, in nats a token, of the tokens prepared so far, taken one by one: the loss of a model
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
    fn produce(&self, mut packer: Packer, first: u64) {
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
        for index in 0.. {
            let made = packer.next();
            let mut state = self.lock();
            let sequence = match made {
                Ok(sequence) => sequence,
                Err(error) => {
                    state.error = Some(error);
                    return;
                }
            };
            for &token in &sequence.tokens {
                state.counts[token as usize] += 1;
            }
            state.statistics.tokens += sequence.tokens.len() as u64;
            (state.statistics.documents_read, state.statistics.epochs) = packer.progress();
            if index >= first {
                if state.window.is_empty() && index < state.passed() {
                    state.base = index + 1;
                } else {
                    state.window.push_back(Arc::new(sequence));
                    self.ready.notify_all();
                }
            }
            while index >= state.wanted() && !state.stop {
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.stop {
                return;
            }
        }
    }
}

impl State {
    /// The lowest index any reader still needs.
    fn passed(&self) -> u64 {
        self.cursors.iter().copied().min().unwrap_or(self.base)
    }

    /// The index up to which sequences are prepared.
    fn wanted(&self) -> u64 {
        self.cursors.iter().copied().max().unwrap_or(self.base).saturating_add(AHEAD)
    }
}

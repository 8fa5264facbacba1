//! Draws documents from the sources by weight, holds them against the policies, and makes sequences of them.

use super::chat::Chat;
use super::columns::Needed;
use super::config::{Config, Fault, Overlong};
use super::encode::{Encoder, Tokens};
use super::pack::{Part, Sequence, Stream, Waiting, join};
use super::pipeline::{Drawn, Pipeline};
use super::pool::Pool;
use super::position::{Changed, Counts, Pending, Position, Share};
use super::record::Place;
use super::source::{Source, Walk};
use super::tokenizer::Tokenizer;
use crate::base::hash::fnv1a;
use crate::diag::Diagnostic;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Makes the sequences one after the other.
pub(super) struct Packer {
    sources: Vec<Arc<Source>>,
    encoder: Arc<Encoder>,
    pipeline: Pipeline,
    config: Config,
    /// In front of the first sequence that it makes.
    start: Position,
    changed: Vec<Changed>,
    sequence: u64,
    draws: Vec<Share>,
    current: Option<(usize, u64)>,
    waiting: Waiting,
    counts: Counts,
    /// The first document of each kind that was left out, with the number of the sequence it was drawn for.
    pub notes: BTreeMap<&'static str, (u64, Diagnostic)>,
}

impl Packer {
    /// Finds the files, and goes on where `position` says, or begins.
    pub(super) fn open(config: &Config, position: Option<&Position>) -> Result<Self, Diagnostic> {
        let tokenizer = Tokenizer::open(&config.tokenizer, config.vocab, config.eos)?;
        let chat = config.chat.as_ref().map(|chat| Chat::open(chat, tokenizer.folder(), tokenizer.special()));
        let needed = config.sources.iter().map(|s| Needed::new(s.column.as_deref(), config.chat.as_ref()));
        let encoder = Arc::new(Encoder { chat: chat.transpose()?, needed: needed.collect(), tokenizer });
        let sources = config.sources.iter().map(|source| Source::open(source, config).map(Arc::new));
        let sources: Vec<Arc<Source>> = sources.collect::<Result<_, _>>()?;
        let now = beginning(config, &sources, &encoder);
        let (start, changed) = match position {
            Some(position) => position.within(now)?,
            None => (now, Vec::new()),
        };
        let walks =
            sources.iter().zip(&start.draws).map(|(s, draw)| Walk::new(s.clone(), draw.cursor)).collect();
        let pipeline = Pipeline::new(encoder.clone(), walks, config.workers)?;
        let waiting = match config.policy.overlong {
            Overlong::Split => Waiting::Stream(Stream::default()),
            _ => Waiting::Whole(Pool::default()),
        };
        let mut packer = Packer {
            sources,
            encoder,
            pipeline,
            config: config.clone(),
            changed,
            sequence: start.sequence,
            draws: start.draws.clone(),
            current: start.current,
            waiting,
            counts: start.counts,
            notes: BTreeMap::new(),
            start,
        };
        packer.restore()?;
        if !packer.start.begun() {
            packer.prepare()?;
        }
        Ok(packer)
    }

    /// The position in front of the first sequence that it makes.
    pub(super) fn start(&self) -> &Position {
        &self.start
    }

    /// What is not as it was when the position was kept.
    pub(super) fn changed(&self) -> &[Changed] {
        &self.changed
    }

    /// What stands before the next sequence.
    pub(super) fn position(&self) -> Position {
        Position {
            sequence: self.sequence,
            run: self.start.run,
            form: self.start.form,
            draws: self.draws.clone(),
            current: self.current,
            pending: match &self.waiting {
                Waiting::Stream(stream) => stream.pending(),
                Waiting::Whole(pool) => pool.pending(),
            },
            counts: self.counts,
        }
    }

    pub(super) fn encoder(&self) -> Arc<Encoder> {
        self.encoder.clone()
    }

    pub(super) fn sources(&self) -> &[Arc<Source>] {
        &self.sources
    }

    /// The next sequence.
    pub(super) fn next(&mut self) -> Result<Sequence, Diagnostic> {
        let (length, apart) = (self.config.sequence, self.config.documents);
        while !self.enough() {
            self.draw()?;
        }
        if let Waiting::Stream(stream) = &mut self.waiting {
            self.sequence += 1;
            return Ok(stream.cut(length, apart));
        }
        let (mut parts, mut room) = (Vec::new(), length);
        loop {
            while !self.enough() {
                self.draw()?;
            }
            let Waiting::Whole(pool) = &mut self.waiting else { break };
            let Some(part) = pool.take(room, !parts.is_empty()) else { break };
            room -= part.ids.len();
            parts.push(part);
        }
        self.sequence += 1;
        Ok(join(&parts, length, apart, self.encoder.tokenizer.eos().unwrap_or(0)))
    }

    /// Whether a sequence can be made.
    fn enough(&self) -> bool {
        match &self.waiting {
            Waiting::Stream(stream) => stream.len() > self.config.sequence,
            Waiting::Whole(pool) => pool.full(self.config.sequence),
        }
    }

    /// Reads as much as the first sequence needs, which must not be more than the files hold.
    fn prepare(&mut self) -> Result<(), Diagnostic> {
        while let (Waiting::Stream(stream), false) = (&self.waiting, self.enough()) {
            if self.draws.iter().all(|draw| draw.progress >= 1.0) {
                let (found, needed) = (stream.len(), self.config.sequence + 1);
                let message = format!("the data holds {found} tokens, one sequence needs {needed}");
                let problem = Diagnostic::error("step::data::too_small", message);
                return Err(self.blame(problem, "add data, or lower `sequence`"));
            }
            self.draw()?;
        }
        while !self.enough() {
            self.draw()?;
        }
        Ok(())
    }

    /// A document of the source that lags most behind its share of the tokens, or the next piece of the one in hand.
    fn draw(&mut self) -> Result<(), Diagnostic> {
        let (source, before) = self.current.take().unwrap_or_else(|| (self.choose(), 0));
        let drawn = self.pipeline.next(source)?;
        if drawn.next.epoch > self.draws[source].cursor.epoch && !self.draws[source].fruitful {
            let message = format!(
                "source `{}` holds no text that can be used in {} documents",
                self.sources[source].name, self.counts.documents
            );
            let problem = Diagnostic::error("step::data::empty", message);
            return Err(self.blame(problem, "look at its files and its `column`"));
        }
        let share = &mut self.draws[source];
        share.fruitful &= drawn.next.epoch == share.cursor.epoch;
        (share.cursor, share.progress) = (drawn.next, drawn.progress);
        match &self.waiting {
            Waiting::Stream(_) => self.piece(source, before, drawn),
            Waiting::Whole(_) => self.whole(source, drawn),
        }
    }

    fn choose(&self) -> usize {
        let lag = |at: usize| self.draws[at].lag();
        (0..self.draws.len()).min_by(|&a, &b| lag(a).total_cmp(&lag(b))).unwrap_or(0)
    }

    /// Adds a piece of a document to the stream.
    fn piece(&mut self, source: usize, before: u64, drawn: Drawn) -> Result<(), Diagnostic> {
        let valid = self.valid(&drawn.place, drawn.tokens)?;
        let left_out = valid.is_none();
        let mut tokens = valid.unwrap_or_default();
        self.end(&mut tokens, before > 0, drawn.ended);
        let count = before + tokens.ids.len() as u64;
        if drawn.ended {
            self.counts.documents += 1;
            self.counts.overlong += u64::from(count > self.config.sequence as u64);
            let learned = tokens.targets.iter().any(|&target| target >= 0);
            if count == 0 || self.config.chat.is_some() && !learned {
                return if left_out { Ok(()) } else { self.useless(&drawn.place, count) };
            }
        } else {
            self.current = Some((source, count));
        }
        let Tokens { ids, targets, .. } = tokens;
        let (address, byte, ended) = (drawn.address, drawn.byte, drawn.ended);
        self.used(source, ids.len());
        if let Waiting::Stream(stream) = &mut self.waiting {
            stream.push(Part { source: source as u32, address, byte, ids, targets, ended }, 0);
        }
        Ok(())
    }

    /// Adds a whole document to the pool, with the pieces of it that are still to come.
    fn whole(&mut self, source: usize, drawn: Drawn) -> Result<(), Diagnostic> {
        let (address, place) = (drawn.address, drawn.place);
        let (mut ended, valid) = (drawn.ended, self.valid(&place, drawn.tokens)?);
        let left_out = valid.is_none();
        let mut tokens = valid.unwrap_or_default();
        let mut total = tokens.ids.len();
        while !ended {
            let drawn = self.pipeline.next(source)?;
            ended = drawn.ended;
            let share = &mut self.draws[source];
            (share.cursor, share.progress) = (drawn.next, drawn.progress);
            let more = self.valid(&drawn.place, drawn.tokens)?.unwrap_or_default();
            total += more.ids.len();
            // One token beyond a sequence is enough to know.
            if tokens.ids.len() <= self.config.sequence {
                tokens.ids.extend(more.ids);
                tokens.targets.extend(more.targets);
            }
        }
        self.counts.documents += 1;
        self.end(&mut tokens, false, true);
        let length = self.config.sequence;
        if tokens.ids.len() > length {
            self.counts.overlong += 1;
            let message = || {
                format!(
                    "{}: a document of {} tokens, a sequence has {length}",
                    place.show(&[]),
                    total.max(tokens.ids.len())
                )
            };
            match self.config.policy.overlong {
                Overlong::Error => {
                    return Err(Diagnostic::error("step::data::overlong", message())
                        .help("raise `sequence`, or write `overlong = drop`, `truncate` or `split`"));
                }
                Overlong::Truncate => {
                    tokens.ids.truncate(length);
                    tokens.targets.truncate(length);
                }
                Overlong::Drop | Overlong::Split => {
                    self.note(|| Diagnostic::warning("step::data::overlong", message()));
                    return Ok(());
                }
            }
        }
        // What the first token of a document is, nothing before it can tell.
        if !tokens.targets.iter().skip(1).any(|&target| target >= 0)
            && (self.config.chat.is_some() || tokens.ids.is_empty())
        {
            return if left_out { Ok(()) } else { self.useless(&place, tokens.ids.len() as u64) };
        }
        self.used(source, tokens.ids.len());
        let Tokens { ids, targets, .. } = tokens;
        if let Waiting::Whole(pool) = &mut self.waiting {
            pool.push(Part { source: source as u32, address, byte: 0, ids, targets, ended: true });
        }
        Ok(())
    }

    fn used(&mut self, source: usize, tokens: usize) {
        let share = &mut self.draws[source];
        share.tokens += tokens as u64;
        share.fruitful |= tokens > 0;
    }

    /// Puts the token behind a document that ends it; a conversation has its own.
    fn end(&self, tokens: &mut Tokens, begun: bool, ended: bool) {
        let eos = self.encoder.tokenizer.eos().filter(|_| self.config.chat.is_none());
        if let Some(eos) = eos.filter(|_| ended && (begun || !tokens.ids.is_empty())) {
            tokens.ids.push(eos);
            tokens.targets.push(eos as i32);
        }
    }

    /// The tokens of a document; `None` of one that is left out.
    fn valid(
        &mut self,
        place: &Place,
        tokens: Result<Tokens, Diagnostic>,
    ) -> Result<Option<Tokens>, Diagnostic> {
        match tokens {
            Ok(tokens) => {
                self.counts.replaced += tokens.replaced;
                if tokens.replaced > 0 {
                    self.note(|| {
                        let what = "half of a surrogate pair has become U+FFFD";
                        Diagnostic::warning("step::data::surrogate", format!("{}: {what}", place.show(&[])))
                    });
                }
                Ok(Some(tokens))
            }
            Err(problem) if self.config.policy.invalid == Fault::Stop => Err(problem),
            Err(problem) => {
                self.counts.invalid += 1;
                self.note(|| problem);
                Ok(None)
            }
        }
    }

    /// A document without a token, or without one to learn.
    fn useless(&mut self, place: &Place, tokens: u64) -> Result<(), Diagnostic> {
        let (policy, code, what, help) = if tokens == 0 {
            self.counts.empty += 1;
            let help = "leave empty documents out with `empty = skip`";
            (self.config.policy.empty, "step::data::empty", "the document is empty".to_owned(), help)
        } else {
            self.counts.unsupervised += 1;
            let what = format!("0 of {tokens} tokens are to be learned");
            let help = "is there an answer, and does it begin within `sequence`? leave such documents out with `unsupervised = skip`";
            (self.config.policy.unsupervised, "step::data::unsupervised", what, help)
        };
        let problem = || Diagnostic::error(code, format!("{}: {what}", place.show(&[]))).help(help);
        match policy {
            Fault::Stop => Err(problem()),
            Fault::Skip => {
                if tokens > 0 {
                    self.note(problem);
                }
                Ok(())
            }
        }
    }

    /// Keeps the first problem of a kind.
    fn note(&mut self, problem: impl FnOnce() -> Diagnostic) {
        let problem = problem();
        self.notes.entry(problem.code).or_insert((self.sequence, problem));
    }

    /// Adds to a problem what has been left out.
    fn blame(&self, problem: Diagnostic, help: &str) -> Diagnostic {
        match self.notes.values().next() {
            Some((_, first)) => problem.help(format!("{help}; left out was, for one, {}", first.message)),
            None => problem.help(help),
        }
    }

    /// Reads again what had been drawn and not used.
    fn restore(&mut self) -> Result<(), Diagnostic> {
        let pending = self.start.pending.clone();
        let mut documents = BTreeMap::new();
        for (number, source) in self.sources.iter().enumerate() {
            let mine = || pending.iter().enumerate().filter(|(_, part)| part.source as usize == number);
            let addresses: Vec<_> = mine().map(|(_, part)| part.address).collect();
            documents.extend(mine().map(|(at, _)| at).zip(source.fetch(&addresses)?));
        }
        for (part, document) in pending.iter().zip(documents.into_values()) {
            let Pending { source, address, byte, skip, ended } = *part;
            let whole = matches!(self.waiting, Waiting::Whole(_));
            let mut tokens = Tokens::default();
            let mut next = Some(byte);
            while let Some(from) = next {
                let piece = document.clone().piece(from)?;
                let more = self.encoder.encode(source as usize, &piece)?;
                tokens.ids.extend(more.ids);
                tokens.targets.extend(more.targets);
                next = piece.end.filter(|_| whole);
            }
            self.end(&mut tokens, true, ended);
            let Tokens { mut ids, mut targets, .. } = tokens;
            match &mut self.waiting {
                Waiting::Stream(stream) => {
                    stream.push(Part { source, address, byte, ids, targets, ended }, skip)
                }
                Waiting::Whole(pool) => {
                    ids.truncate(self.config.sequence);
                    targets.truncate(self.config.sequence);
                    pool.push(Part { source, address, byte, ids, targets, ended });
                }
            }
        }
        Ok(())
    }
}

/// The position in front of sequence 0. What it depends on is everything but ranks, threads and where files lie.
fn beginning(config: &Config, sources: &[Arc<Source>], encoder: &Encoder) -> Position {
    let Config { sequence, documents, seed, vocab, eos, policy, .. } = config;
    let chat = encoder.chat.as_ref().map(Chat::hash);
    let share = |source: &Arc<Source>| {
        let Source { name, weight, identity, .. } = &**source;
        Share { name: name.clone(), weight: *weight, source: *identity, ..Share::default() }
    };
    Position::beginning(
        fnv1a(&format!("{:?}", (sequence, seed, vocab, eos, encoder.tokenizer.hash))),
        fnv1a(&format!("{:?}", (documents, policy, chat))),
        sources.iter().map(share).collect(),
    )
}

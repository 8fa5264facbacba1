//! The documents of a source, in the order of a run.
//!
//! Files are divided into units that can be read on their own: 256 KiB of a text or jsonl file, a row group of
//! a Parquet file, a record batch of an Arrow file; what can only be read from its beginning (compressed
//! files, JSON arrays, Arrow streams) is one unit. A pass over the source takes its units in a permuted order,
//! gathers their documents into groups of about [`GROUP`] bytes and hands out each group in a permuted order
//! of its own. So opening a source costs the sizes, ends and footers of its files and nothing else, a pass has every
//! document exactly once, and a [`Cursor`] of a few numbers leads to any document by reading one group.

use super::array::Elements;
use super::arrow::Arrow;
use super::columns::Needed;
use super::config::{Config, SourceConfig};
use super::files::{Coding, Written, decoded, identity, matches, written};
use super::order::Permutation;
use super::parquet::Parquet;
use super::record::{Address, Content, Document, unreadable};
use super::scan::{Ranges, Split, UNIT};
use crate::base::hash::fnv1a;
use crate::diag::Diagnostic;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What divides a text file into documents unless a source says otherwise.
const SEPARATOR: &str = "\n\n\n";
/// Bytes of documents that are shuffled together: enough to mix the units of many files, few enough to be read
/// again in an instant.
const GROUP: u64 = 8 << 20;
/// Documents of a group at most, where they are short.
const GROUP_DOCUMENTS: usize = 1 << 16;

type Documents = Box<dyn Iterator<Item = Result<Document, Diagnostic>> + Send>;

/// A source whose files are known.
pub(super) struct Source {
    pub name: String,
    pub weight: f64,
    /// Of seed and name: the order of a source is its own, whatever stands beside it.
    key: [u64; 2],
    /// Of its files, in order, and of how they are read: what a [`Cursor`] depends on.
    pub identity: u64,
    files: Vec<Units>,
    /// Number of the first unit of each file, and the total at the end.
    first: Vec<u64>,
    pub bytes: u64,
    /// Files without a document.
    pub hollow: Vec<PathBuf>,
}

/// A file by its units.
enum Units {
    Ranges { path: Arc<Path>, units: u64, separator: Vec<u8>, json: bool },
    Split { path: Arc<Path>, coding: Coding, separator: Vec<u8>, json: bool },
    Elements { path: Arc<Path>, coding: Coding },
    Parquet(Parquet),
    Arrow(Arrow),
}

impl Units {
    fn count(&self) -> u64 {
        match self {
            Units::Ranges { units, .. } => *units,
            Units::Split { .. } | Units::Elements { .. } => 1,
            Units::Parquet(file) => file.units(),
            Units::Arrow(file) => file.units(),
        }
    }

    fn read(&self, unit: u64) -> Result<Documents, Diagnostic> {
        Ok(match self {
            Units::Ranges { path, separator, json, .. } => {
                Box::new(Ranges::open(path, unit, separator, *json).map_err(|e| unreadable(path, &e))?)
            }
            Units::Split { path, coding, separator, json } => {
                let reader = decoded(path, *coding).map_err(|error| unreadable(path, &error))?;
                Box::new(Split::new(reader, path, separator, *json))
            }
            Units::Elements { path, coding } => {
                let reader = decoded(path, *coding).map_err(|error| unreadable(path, &error))?;
                Box::new(Elements::new(reader, path))
            }
            Units::Parquet(file) => Box::new(file.read(unit)?.into_iter().map(Ok)),
            Units::Arrow(file) => file.read(unit)?,
        })
    }
}

impl Source {
    /// Finds the files, and how they are written.
    pub(super) fn open(source: &SourceConfig, config: &Config) -> Result<Self, Diagnostic> {
        if !(source.weight > 0.0 && source.weight.is_finite()) {
            let message = format!("source `{}` has weight {}", source.name, source.weight);
            return Err(
                Diagnostic::error("step::data::weight", message).help("a weight is a number above zero")
            );
        }
        if source.separator.as_deref() == Some("") {
            let message = format!("source `{}` has an empty separator", source.name);
            return Err(Diagnostic::error("step::data::separator", message)
                .help("leave `separator` out to divide at three line breaks"));
        }
        let needed = Needed::new(source.column.as_deref(), config.chat.as_ref());
        let (mut files, mut first, mut bytes, mut hollow) = (Vec::new(), vec![0], 0, Vec::new());
        let mut identities = Vec::new();
        for path in matches(source)? {
            let size = path.metadata().map_err(|error| unreadable(&path, &error))?.len();
            let written = written(&path, source.format)?;
            let units = written.map(|written| units(path.as_path().into(), size, written, source, &needed));
            match units.transpose()?.filter(|units| units.count() > 0) {
                Some(units) => {
                    first.push(first[first.len() - 1] + units.count());
                    files.push(units);
                    bytes += size;
                    identities
                        .push((written, identity(&path, size).map_err(|error| unreadable(&path, &error))?));
                }
                None => hollow.push(path),
            }
        }
        if files.is_empty() {
            let message = format!("{} is empty", hollow.first().cloned().unwrap_or_default().display());
            return Err(Diagnostic::error("step::data::empty", message)
                .help("remove the file or make the pattern leave it out"));
        }
        let identity = fnv1a(&format!("{:?}", (&source.column, &source.separator, identities)));
        let (name, weight, key) = (source.name.clone(), source.weight, [config.seed, fnv1a(&source.name)]);
        Ok(Source { name, weight, key, identity, files, first, bytes, hollow })
    }

    pub(super) fn files(&self) -> usize {
        self.files.len()
    }

    fn units(&self) -> u64 {
        self.first[self.files.len()]
    }

    /// The unit at `ordinal` of the pass `epoch`.
    fn unit(&self, epoch: u64, ordinal: u64) -> u64 {
        let [seed, name] = self.key;
        Permutation::new(self.units(), &[seed, name, epoch]).at(ordinal)
    }

    fn read(&self, unit: u64) -> Result<Documents, Diagnostic> {
        let at = self.first.partition_point(|&first| first <= unit) - 1;
        self.files[at].read(unit - self.first[at])
    }

    /// The documents at the given addresses, in their order.
    pub(super) fn fetch(&self, addresses: &[Address]) -> Result<Vec<Document>, Diagnostic> {
        let mut order: Vec<usize> = (0..addresses.len()).collect();
        order.sort_unstable_by_key(|&at| addresses[at]);
        let mut found: Vec<Option<Document>> = vec![None; addresses.len()];
        let mut open: Option<(u64, u64, Documents)> = None;
        for at in order {
            let Address { unit, record } = addresses[at];
            let (mut documents, next) = match open.take() {
                Some((same, next, documents)) if same == unit && next <= record => (documents, next),
                _ => (self.read(unit)?, 0),
            };
            found[at] = documents.nth((record - next) as usize).transpose()?;
            open = Some((unit, record + 1, documents));
        }
        let gone = || {
            let message = format!("source `{}` has fewer documents than when it was read first", self.name);
            Diagnostic::error("step::data::position", message).help("the files must stay as they were")
        };
        found.into_iter().map(|document| document.ok_or_else(gone)).collect()
    }
}

fn units(
    path: Arc<Path>,
    size: u64,
    written: Written,
    source: &SourceConfig,
    needed: &Needed,
) -> Result<Units, Diagnostic> {
    let separator = |json: bool| match json {
        true => b"\n".to_vec(),
        false => source.separator.as_deref().unwrap_or(SEPARATOR).as_bytes().to_vec(),
    };
    let lines = |path, coding, json| match coding {
        Coding::Plain => Units::Ranges { path, units: size.div_ceil(UNIT), separator: separator(json), json },
        _ => Units::Split { path, coding, separator: separator(json), json },
    };
    Ok(match written {
        Written::Text(coding) => lines(path, coding, false),
        Written::Jsonl(coding) => lines(path, coding, true),
        Written::Json(coding) => Units::Elements { path, coding },
        Written::Parquet => Units::Parquet(Parquet::open(&path, needed)?),
        Written::ArrowFile => Units::Arrow(Arrow::open(&path, needed, false)?),
        Written::ArrowStream => Units::Arrow(Arrow::open(&path, needed, true)?),
    })
}

/// How far a source has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Cursor {
    /// The pass over the source.
    pub epoch: u64,
    /// Where the group begins: the unit, by its place in the order of the pass, and documents of it that belong to earlier
    /// groups.
    pub unit: u64,
    pub record: u64,
    /// Documents of the group that have been handed out.
    pub taken: u64,
    /// Bytes of the next document that have been handed out.
    pub byte: u64,
}

impl Cursor {
    /// Behind the document whose turn it is.
    pub fn behind(self) -> Cursor {
        Cursor { taken: self.taken + 1, byte: 0, ..self }
    }

    /// Where the next pass begins.
    pub fn next_pass(self) -> Cursor {
        Cursor { epoch: self.epoch + 1, ..Cursor::default() }
    }
}

/// Hands out the documents of a source one after the other, for ever.
pub(super) struct Walk {
    source: Arc<Source>,
    cursor: Cursor,
    group: Vec<(Address, Option<Document>)>,
    order: Permutation,
    /// Where the next group begins, and the documents of its unit where that is open already.
    next: (u64, u64),
    open: Option<Documents>,
    /// Whether the group is the one of the cursor.
    loaded: bool,
}

/// A document, or the rest of one, whose turn has come.
pub(super) struct Turn {
    pub address: Address,
    pub document: Document,
    /// Bytes of it that have been handed out before.
    pub byte: u64,
}

impl Walk {
    pub(super) fn new(source: Arc<Source>, cursor: Cursor) -> Self {
        let order = Permutation::new(1, &[]);
        let next = (cursor.unit, cursor.record);
        Walk { source, cursor, group: Vec::new(), order, next, open: None, loaded: false }
    }

    pub(super) fn cursor(&self) -> Cursor {
        self.cursor
    }

    /// Passes over the source that have been made, the current one in part.
    pub(super) fn progress(&self) -> f64 {
        let units = self.source.units() as f64;
        let (from, to) = (self.cursor.unit as f64, self.next.0 as f64);
        let share = self.cursor.taken as f64 / self.group.len().max(1) as f64;
        self.cursor.epoch as f64 + (from + (to - from).max(0.0) * share) / units
    }

    /// The document whose turn it is.
    pub(super) fn turn(&mut self) -> Result<Turn, Diagnostic> {
        if !self.loaded {
            self.load()?;
        }
        // A file that has shrunk to nothing since leaves passes without a document.
        let mut empty = 0;
        while self.cursor.taken >= self.group.len() as u64 {
            let pass_ends = self.next.0 >= self.source.units();
            let (unit, record) = if pass_ends { (0, 0) } else { self.next };
            let epoch = self.cursor.epoch + u64::from(pass_ends);
            self.cursor = Cursor { epoch, unit, record, taken: 0, byte: 0 };
            self.load()?;
            empty += u64::from(pass_ends);
            if empty > 1 && self.group.is_empty() {
                let message = format!("source `{}` holds no document", self.source.name);
                return Err(Diagnostic::error("step::data::empty", message).help("look at its files"));
            }
        }
        let (address, document) = &mut self.group[self.order.at(self.cursor.taken) as usize];
        // Handed out for good unless it is long.
        let document = match document {
            Some(Document { content: Content::Range { .. }, .. }) => document.clone(),
            _ => document.take(),
        };
        let document = document.ok_or_else(|| {
            Diagnostic::error("step::data::order", "a document is asked for twice").help("please report this")
        })?;
        Ok(Turn { address: *address, document, byte: self.cursor.byte })
    }

    /// Moves on, `bytes` further in the document, or to the next one.
    pub(super) fn advance(&mut self, bytes: Option<u64>) {
        match bytes {
            Some(bytes) => self.cursor.byte += bytes,
            None => self.cursor = self.cursor.behind(),
        }
    }

    /// Gathers the group of the cursor.
    fn load(&mut self) -> Result<(), Diagnostic> {
        let Cursor { epoch, mut unit, mut record, .. } = self.cursor;
        let mut open = self.open.take().filter(|_| self.next == (unit, record));
        let mut bytes = 0;
        self.group.clear();
        let full = |bytes, documents| bytes >= GROUP || documents >= GROUP_DOCUMENTS;
        while !full(bytes, self.group.len()) && unit < self.source.units() {
            let number = self.source.unit(epoch, unit);
            let mut documents = match open.take() {
                Some(documents) => documents,
                None => {
                    let mut documents = self.source.read(number)?;
                    (0..record).try_for_each(|_| documents.next().transpose().map(drop))?;
                    documents
                }
            };
            let ended = loop {
                let Some(document) = documents.next().transpose()? else { break true };
                bytes += document.content.size();
                self.group.push((Address { unit: number, record }, Some(document)));
                record += 1;
                if full(bytes, self.group.len()) {
                    break false;
                }
            };
            if ended {
                (unit, record) = (unit + 1, 0);
            } else {
                open = Some(documents);
            }
        }
        (self.next, self.open, self.loaded) = ((unit, record), open, true);
        let Cursor { epoch, unit, record, .. } = self.cursor;
        let [seed, name] = self.source.key;
        let key = [seed, name, epoch, unit, record];
        self.order = Permutation::new(self.group.len().max(1) as u64, &key);
        Ok(())
    }
}

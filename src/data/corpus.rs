//! The documents of a source: where they lie in its files, and their text piece by piece.
//!
//! Opening a source reads its files once to find where documents begin (8 bytes of memory a document) and
//! keeps nothing of the text. A document is read when its turn comes, in pieces of bounded size.

use crate::diag::Diagnostic;
use memchr::memmem::Finder;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What divides a text file into documents unless a source says otherwise.
const SEPARATOR: &str = "\n\n\n";
/// Bytes read at a time while looking for documents.
const SCAN: usize = 1 << 20;
/// A text document longer than this is handed out in pieces that end after a line break, or after a space.
const PIECE: usize = 64 << 10;

/// How the documents of a file are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// By the extension of each file.
    Auto,
    /// Documents divided by a separator.
    Text,
    /// A JSON object a line, the text in one of its fields.
    Jsonl,
    /// Known, but not read here.
    Parquet,
}

/// Files of one kind and their share of the training data.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceConfig {
    /// The name the recipe gives it.
    pub name: String,
    /// A pattern with `*`, `?`, `[…]` and `**`.
    pub glob: PathBuf,
    pub format: Format,
    /// The field of a jsonl line that holds the text.
    pub column: String,
    /// The share of the tokens, relative to the weights of the other sources; above zero.
    pub weight: f64,
    /// What divides a text file into documents; three line breaks unless given. A file without it is one
    /// document.
    pub separator: Option<String>,
}

/// A source whose documents have been found.
pub(super) struct Source {
    pub name: String,
    pub weight: f64,
    column: Arc<str>,
    files: Vec<Documents>,
    /// Number of the first document of each file, and the total at the end.
    first: Vec<u64>,
}

/// The documents of one file.
struct Documents {
    path: Arc<Path>,
    format: Format,
    /// Where each document begins, and where one after the last would.
    starts: Vec<u64>,
    /// Bytes between two documents.
    separator: u64,
}

impl Source {
    /// Finds the files and their documents.
    pub(super) fn open(config: &SourceConfig) -> Result<Self, Diagnostic> {
        if !(config.weight > 0.0 && config.weight.is_finite()) {
            let message = format!("source `{}` has weight {}", config.name, config.weight);
            return Err(
                Diagnostic::error("step::data::weight", message).help("a weight is a number above zero")
            );
        }
        let mut files = Vec::new();
        let mut first = vec![0];
        for path in matches(config)? {
            let documents = Documents::open(path, config)?;
            first.push(first[first.len() - 1] + documents.starts.len() as u64 - 1);
            files.push(documents);
        }
        Ok(Source {
            name: config.name.clone(),
            weight: config.weight,
            column: config.column.as_str().into(),
            files,
            first,
        })
    }

    /// Documents of all files.
    pub(super) fn len(&self) -> u64 {
        self.first[self.files.len()]
    }

    /// Bytes of all files.
    pub(super) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.starts[file.starts.len() - 1] - file.separator).sum()
    }

    pub(super) fn files(&self) -> usize {
        self.files.len()
    }

    /// Opens the document with the given number, below [`len`](Self::len).
    pub(super) fn document(&self, number: u64) -> Result<Document, Diagnostic> {
        let at = self.first.partition_point(|&first| first <= number) - 1;
        let file = &self.files[at];
        let index = (number - self.first[at]) as usize;
        let (start, end) = (file.starts[index], file.starts[index + 1] - file.separator);
        let handle = File::open(&file.path).map_err(|error| unreadable(&file.path, &error))?;
        let (path, column) = (file.path.clone(), self.column.clone());
        Ok(Document { path, format: file.format, column, handle, next: start, end })
    }
}

/// The files that match the pattern, sorted by name.
fn matches(config: &SourceConfig) -> Result<Vec<PathBuf>, Diagnostic> {
    let shown = config.glob.display();
    let refuse = |what: String, help: &str| {
        let message = format!("source `{}`: {what}", config.name);
        Err(Diagnostic::error("step::data::no_files", message).help(help))
    };
    let Some(pattern) = config.glob.to_str() else {
        return refuse(format!("the path {shown} is not valid UTF-8"), "rename the files");
    };
    let paths = match glob::glob(pattern) {
        Ok(paths) => paths,
        Err(error) => {
            return refuse(
                format!("the pattern {shown} is wrong: {error}"),
                "patterns know `*`, `?`, `[a-z]` and `**`",
            );
        }
    };
    let mut files = Vec::new();
    for path in paths {
        let path = path.map_err(|error| unreadable(error.path(), error.error()))?;
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort_unstable();
    match files.is_empty() {
        false => Ok(files),
        true if config.glob.is_dir() => {
            refuse(format!("{shown} is a folder"), "name the files in it, as in `folder/*.jsonl`")
        }
        true => refuse(
            format!("no file matches {shown}"),
            "a path is relative to the recipe that writes it; correct it, or download the data first",
        ),
    }
}

impl Documents {
    fn open(path: PathBuf, config: &SourceConfig) -> Result<Self, Diagnostic> {
        let format = match config.format {
            Format::Auto => by_extension(&path)?,
            given => given,
        };
        let separator = match format {
            Format::Parquet => return Err(parquet(&path)),
            Format::Jsonl => "\n",
            Format::Text | Format::Auto => config.separator.as_deref().unwrap_or(SEPARATOR),
        };
        if separator.is_empty() {
            let message = format!("source `{}` has an empty separator", config.name);
            return Err(Diagnostic::error("step::data::separator", message)
                .help("leave `separator` out to divide at three line breaks"));
        }
        let starts = scan(&path, separator.as_bytes()).map_err(|error| unreadable(&path, &error))?;
        if starts.len() < 2 {
            return Err(Diagnostic::error("step::data::empty", format!("{} is empty", path.display()))
                .help("remove the file or make the pattern leave it out"));
        }
        Ok(Documents { path: path.into(), format, starts, separator: separator.len() as u64 })
    }
}

fn by_extension(path: &Path) -> Result<Format, Diagnostic> {
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
    match extension.as_str() {
        "txt" | "text" | "md" => Ok(Format::Text),
        "jsonl" | "ndjson" => Ok(Format::Jsonl),
        "parquet" => Ok(Format::Parquet),
        _ => {
            let message = format!("{}: the extension does not say what the file holds", path.display());
            Err(Diagnostic::error("step::data::format", message)
                .help("write `format = text` or `format = jsonl`; known: txt, text, md, jsonl, ndjson"))
        }
    }
}

fn parquet(path: &Path) -> Diagnostic {
    let message =
        format!("{}: the native engine reads text and jsonl in this version, not parquet", path.display());
    Diagnostic::error("step::data::parquet", message).help(
        "convert it, for instance with `duckdb -c \"copy (from 'in.parquet') to 'out.jsonl' (format json)\"`",
    )
}

/// Where documents begin; a last one ends at the end of the file, and a separator there ends it as well.
fn scan(path: &Path, separator: &[u8]) -> io::Result<Vec<u64>> {
    let mut file = File::open(path)?;
    let finder = Finder::new(separator);
    let mut starts = vec![0];
    let mut buffer = vec![0; SCAN + separator.len()];
    let (mut base, mut kept) = (0u64, 0);
    loop {
        let read = file.read(&mut buffer[kept..])?;
        let filled = kept + read;
        if read == 0 {
            // `filled` bytes are left that hold no separator.
            let (end, last) = (base + filled as u64, starts[starts.len() - 1]);
            if end > last {
                starts.push(end + separator.len() as u64);
            }
            return Ok(starts);
        }
        let mut from = 0;
        while let Some(at) = finder.find(&buffer[from..filled]) {
            from += at + separator.len();
            starts.push(base + from as u64);
        }
        // A separator may lie across the end of the buffer.
        let keep = (filled - from).min(separator.len() - 1);
        buffer.copy_within(filled - keep..filled, 0);
        base += (filled - keep) as u64;
        kept = keep;
    }
}

/// One document while its text is read.
pub(super) struct Document {
    path: Arc<Path>,
    format: Format,
    column: Arc<str>,
    handle: File,
    next: u64,
    end: u64,
}

impl Document {
    /// Puts the next piece of the text into `text`; false when there is none.
    pub(super) fn piece(&mut self, bytes: &mut Vec<u8>, text: &mut String) -> Result<bool, Diagnostic> {
        text.clear();
        if self.next >= self.end {
            return Ok(false);
        }
        let left = (self.end - self.next) as usize;
        let whole = self.format == Format::Jsonl || left <= PIECE;
        bytes.resize(if whole { left } else { PIECE }, 0);
        self.handle.read_exact_at(bytes, self.next).map_err(|error| unreadable(&self.path, &error))?;
        if !whole {
            let cut = memchr::memrchr(b'\n', bytes).or_else(|| memchr::memrchr(b' ', bytes));
            bytes.truncate(cut.map_or_else(|| boundary(bytes), |at| at + 1));
        }
        let valid = std::str::from_utf8(bytes).map_err(|error| {
            let at = self.next + error.valid_up_to() as u64;
            let byte = bytes[error.valid_up_to()];
            let message = format!("{}: byte 0x{byte:02x} is not valid UTF-8", self.place(at));
            Diagnostic::error("step::data::utf8", message)
                .help("convert the file, for instance with `iconv -t utf-8`")
        })?;
        match self.format {
            Format::Jsonl => self.field(valid, text)?,
            _ => text.push_str(valid),
        }
        self.next += bytes.len() as u64;
        Ok(true)
    }

    /// Takes the text out of a line of JSON. A blank line holds none.
    fn field(&self, line: &str, text: &mut String) -> Result<(), Diagnostic> {
        if line.trim().is_empty() {
            return Ok(());
        }
        let value: serde_json::Value = serde_json::from_str(line).map_err(|error| {
            let at = self.next + error.column().saturating_sub(1) as u64;
            // The position is given by path already: keep only what is wrong.
            let what = error.to_string();
            let what = what.split(" at line ").next().unwrap_or_default();
            Diagnostic::error("step::data::json", format!("{}: not JSON: {what}", self.place(at)))
                .help("a jsonl file holds one JSON object a line")
        })?;
        match value.get(&*self.column) {
            Some(serde_json::Value::String(found)) => text.push_str(found),
            Some(_) => {
                let message = format!("{}: field `{}` is not a string", self.place(self.next), self.column);
                return Err(Diagnostic::error("step::data::column", message)
                    .help("set `column` to the field that holds the text"));
            }
            None => {
                let names: Vec<_> =
                    value.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
                let message = format!("{}: no field `{}`", self.place(self.next), self.column);
                let help = match names.is_empty() {
                    true => "a line holds an object such as {\"text\": \"…\"}".to_owned(),
                    false => format!("set `column`: the fields of this line are {}", names.join(", ")),
                };
                return Err(Diagnostic::error("step::data::column", message).help(help));
            }
        }
        Ok(())
    }

    /// `path:line:byte` of an offset in the file, both counted from 1.
    fn place(&self, offset: u64) -> String {
        let (mut line, mut line_start, mut at) = (1, 0, 0);
        let mut buffer = vec![0; SCAN];
        while at < offset {
            let want = buffer.len().min((offset - at) as usize);
            let Ok(read @ 1..) = self.handle.read_at(&mut buffer[..want], at) else { break };
            for found in memchr::memchr_iter(b'\n', &buffer[..read]) {
                line += 1;
                line_start = at + found as u64 + 1;
            }
            at += read as u64;
        }
        format!("{}:{line}:{}", self.path.display(), offset - line_start + 1)
    }
}

/// The last position at which a character begins, so that a cut there splits none.
fn boundary(bytes: &[u8]) -> usize {
    let begins = |&at: &usize| bytes[at] & 0xc0 != 0x80;
    (bytes.len().saturating_sub(4)..bytes.len())
        .rev()
        .find(begins)
        .filter(|&at| at > 0)
        .unwrap_or(bytes.len())
}

fn unreadable(path: &Path, error: &io::Error) -> Diagnostic {
    Diagnostic::error("step::data::io", format!("cannot read {}: {error}", path.display()))
        .help("the file must exist, be readable and stay unchanged during the run")
}

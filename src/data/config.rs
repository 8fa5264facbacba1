//! What to read and how to make sequences of it: plain structs that the recipe fills.

use std::path::PathBuf;

/// How the documents of a file are written. Text, lines and arrays may be compressed with gzip or Zstandard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// By the extension of each file, and by what it begins with where that says more.
    Auto,
    /// Documents divided by a separator.
    Text,
    /// A JSON object a line.
    Jsonl,
    /// One JSON array of objects.
    Json,
    /// Apache Parquet, of which only the needed columns are read.
    Parquet,
    /// Arrow IPC as a file (Feather) or as a stream, and folders that `datasets` has saved.
    Arrow,
}

/// Files of one kind and their share of the training data.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceConfig {
    /// The name the recipe gives it.
    pub name: String,
    /// A pattern with `*`, `?`, `[…]` and `**`.
    pub glob: PathBuf,
    pub format: Format,
    /// The field or column that holds the text or the conversation; found by name unless given.
    pub column: Option<String>,
    /// The share of the tokens, relative to the weights of the other sources; above zero.
    pub weight: f64,
    /// What divides a text file into documents; three line breaks unless given. A file without it is one
    /// document.
    pub separator: Option<String>,
}

/// What happens to a document that is longer than a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Overlong {
    /// It is left out.
    Drop,
    /// It is cut at the length of a sequence.
    Truncate,
    /// It goes on in the next sequence, as does any document that does not end with its own.
    Split,
    /// The run stops.
    Error,
}

/// What happens to a document that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// It is left out and counted.
    Skip,
    /// The run stops.
    Stop,
}

/// What happens to documents that are not as they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Policy {
    pub overlong: Overlong,
    /// Not readable: bad UTF-8 or JSON, a field that is missing or of another type.
    pub invalid: Fault,
    /// Without a token.
    pub empty: Fault,
    /// Without a token to learn from.
    pub unsupervised: Fault,
}

/// Which answers of a conversation are learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answers {
    All,
    /// The last one only.
    Last,
    None,
}

/// How conversations become text, and what of them is learned.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ChatConfig {
    /// A file with a Jinja template; the tokenizer's own unless given.
    pub template: Option<PathBuf>,
    /// What `strftime_now` tells templates that ask for the date: `2026-01-31`.
    pub date: Option<String>,
    pub assistant: Answers,
    pub system: bool,
    pub user: bool,
    pub tool: bool,
}

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
    pub policy: Policy,
    /// Records are conversations; plain text without it.
    pub chat: Option<ChatConfig>,
    /// Threads that tokenise.
    pub workers: usize,
    /// Sequences kept ready beyond the ones asked for.
    pub ahead: u64,
}

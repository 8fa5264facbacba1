//! What is trained on.

use crate::recipe::forms::Named;
use crate::recipe::schema::Title;
use indexmap::IndexMap;
use std::path::PathBuf;

block! {
    /// What is trained on, and how it becomes sequences of tokens.
    pub struct Data("data") {
        /// Files of text; several are mixed by weight.
        sources("source"): IndexMap<String, Source> as Named<Source>,
        /// A tokenizer file, or a folder that holds `tokenizer.json`.
        tokenizer: PathBuf,
        /// Length of one sequence.
        sequence: u64 { unit("tokens"), at_least(1.0), at_most(16777216.0) },
        /// How documents fill sequences.
        pack: Pack = documents,
    }
}

block! {
    /// Files of text. The name serves to tell sources apart and to override one.
    pub struct Source("source", Title::Name) {
        /// Files, `*` and `**` allowed, relative to the file that writes it.
        path: PathBuf,
        /// The field or column that holds the text, in JSON lines and Parquet.
        column: String = "text",
        /// Share of this source among all, relative to the others.
        weight: f64 { more_than(0.0) } = 1,
        /// Format of the files.
        format: Format = auto,
        /// What divides a plain text file into documents; `none`: the data reader's own rule.
        separator: Option<String> = none,
    }
}

words! {
    /// Format of the files of a source.
    pub enum Format {
        /// By the end of the file's name.
        auto => Auto,
        /// Plain text.
        text => Text,
        /// A JSON object a line.
        jsonl => Jsonl,
        /// Apache Parquet.
        parquet => Parquet,
    }
}

words! {
    /// How documents fill sequences.
    pub enum Pack {
        /// Several documents a sequence; attention never crosses from one to the next.
        documents => Documents,
        /// Documents one behind the other, attention over the whole sequence.
        none => None,
    }
}

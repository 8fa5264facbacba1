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
        /// What happens to a document that is longer than a sequence. Unless it is `split`, documents stay whole and what
        /// they leave of a sequence is padding.
        overlong: Overlong = if train.stage == sft { drop } else { split },
        /// What happens to a document that cannot be read: bad UTF-8, damaged JSON, a field that is missing or no text.
        invalid: Fault = stop,
        /// What happens to a document without a token.
        empty: Fault = skip,
        /// What happens to a conversation of which nothing is learned.
        unsupervised: Fault = skip,
        /// How conversations become text, when `train.stage` is `sft`.
        chat: Chat,
    }
}

block! {
    /// How conversations become text, and what of them is learned.
    pub struct Chat("chat") {
        /// A file with a Jinja template; `none`: the tokenizer's own.
        template: Option<PathBuf> = none,
        /// The day that templates are told that ask for today's: `"2026-01-31"`.
        date: Option<String> = none,
        /// The answers that are learned, each with the token that ends it.
        assistant: Answers = all,
        /// What the system says is learned too.
        system: bool = false,
        /// What the user says is learned too.
        user: bool = false,
        /// What tools return is learned too.
        tool: bool = false,
    }
}

block! {
    /// Files of text. The name serves to tell sources apart and to override one.
    pub struct Source("source", Title::Name) {
        /// Files, `*` and `**` allowed, relative to the file that writes it.
        path: PathBuf,
        /// The field or column that holds the text or the conversation. `none`: `text`, or what conversations usually stand
        /// in: `messages`, `conversations`, `instruction` with `input` and `output`, `prompt` with `completion`.
        column: Option<String> = none,
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
        /// By the end of the file's name, then by what the file begins with.
        auto => Auto,
        /// Plain text; as jsonl and json also in `.gz` and `.zst`.
        text => Text,
        /// A JSON object a line.
        jsonl => Jsonl,
        /// A JSON array of objects.
        json => Json,
        /// Apache Parquet, of which only the needed columns are read.
        parquet => Parquet,
        /// Arrow IPC: Feather files, streams, and folders that `datasets` has saved.
        arrow => Arrow,
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

words! {
    /// What happens to a document that is longer than a sequence.
    pub enum Overlong {
        /// It is left out and counted.
        drop => Drop,
        /// It is cut at the length of a sequence.
        truncate => Truncate,
        /// It goes on in the next sequence, as does any document that does not end with its own: nothing is padding.
        split => Split,
        /// The run stops.
        error => Error,
    }
}

words! {
    /// What happens to a document that cannot be used.
    pub enum Fault {
        /// It is left out and counted.
        skip => Skip,
        /// The run stops.
        stop => Stop,
    }
}

words! {
    /// The answers of a conversation that are learned.
    pub enum Answers {
        /// Every one.
        all => All,
        /// The last one.
        last => Last,
        /// None.
        none => None,
    }
}

//! Raw files to token sequences, the same ones on every run.
//!
//! ```text
//! files ──units──▶ documents ──turn by turn──▶ tokens ──by weight──▶ parts ──packed──▶ sequences ──▶ ranks
//!      files, scan, array,    source, order     pipeline, encode,     packer    pack, pool    loader
//!      parquet, arrow                           tokenizer, chat
//! ```
//!
//! Text, jsonl, JSON, Parquet and Arrow files are divided into units that are read on their own (`source`), their documents
//! come in a seeded order that needs neither an index nor memory (`order`), are tokenised on threads in the background
//! (`pipeline`), drawn so that every source has its share of the tokens to within a document (`packer`) and packed into
//! sequences with labels, segments and positions (`pack`, `pool`). A thread prepares them ahead of the ranks (`loader`).
//!
//! Sequence `i` depends on the configuration and the files only, never on ranks, threads, time, or where a run started. Where
//! a sequence begins follows from the lengths of all documents before it, which only tokenising tells; so that nobody has to
//! do that again, a [`Position`] holds the state between two sequences: a cursor of five numbers for every source, and the
//! addresses of the documents that are drawn and not yet used. Where sources, files or policies are not what they were, it says
//! itself what goes on and what begins anew ([`Changed`]). A checkpoint keeps it; to go on there costs reading one group
//! of each source (8 MiB) and those documents, at step ten and at step ten million.

mod array;
mod arrow;
mod chat;
mod columns;
mod config;
mod encode;
mod files;
mod loader;
mod order;
mod pack;
mod packer;
mod parquet;
mod pipeline;
mod pool;
mod position;
mod record;
mod scan;
mod source;
#[cfg(test)]
mod tests;
mod tokenizer;

pub use config::{Answers, ChatConfig, Config, Fault, Format, Overlong, Policy, SourceConfig};
pub use loader::{Loader, Statistics};
pub use pack::Sequence;
pub use position::{Changed, Counts, Position};
pub use tokenizer::tokenizer_file;

//! Raw files to token sequences, the same ones on every run.
//!
//! Text and jsonl files become documents (`corpus`), documents come in a seeded order mixed by weight
//! (`order`), are tokenised (`tokenizer`) and cut into sequences with labels, segments and positions
//! (`pack`). A thread prepares them ahead of the ranks that read them (`loader`). Sequence `i` depends on
//! the configuration and the files only, never on who asks, when, or where a run started.

mod corpus;
mod loader;
mod order;
mod pack;
#[cfg(test)]
mod tests;
mod tokenizer;

pub use corpus::{Format, SourceConfig};
pub use loader::{Config, Loader, Statistics};
pub use pack::Sequence;

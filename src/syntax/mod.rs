//! Text to spanned tree.
//!
//! ```text
//! text ──scan, balance──▶ edits ──mend──▶ closed, balanced text ──step.pest──▶ pairs ──parser, expr──▶ tree::File
//! ```
//!
//! In: a file's text. Out: a tree of everything that could be read, and a diagnostic for every independent mistake.
//! - Parsing never fails and never panics; recursion is bounded by [`DEPTH_LIMIT`].
//! - Spans point into the text as the user wrote it, never into the mended one.
//! - [`mod@format`] lays a file out anew without changing its tree.
//! - A mistake is reported once: chunks on a line that mending had to guess at are dropped without a word.

mod balance;
mod cursor;
mod expr;
mod faults;
pub mod format;
mod items;
mod literal;
mod mend;
mod parser;
mod places;
mod scan;
pub mod tree;

pub use items::Parser;
pub use parser::{TOP_KINDS, parse, parse_assignment};

/// How deeply brackets and operators may stand inside one another on the way to any one value.
pub const DEPTH_LIMIT: usize = 256;

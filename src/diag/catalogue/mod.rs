//! Every code the program can report, each with the page that `stepc explain` prints.
//!
//! A code is listed in `pages` and its page stands in `docs/errors/<area>/<name>.md`:
//!
//! ```text
//! # What is wrong, in one line
//!
//! What it means and why it matters.
//!
//! ```step fails
//! what reports this code, and nothing else
//! ```
//!
//! ```step works
//! the same, mended
//! ```
//! ```
//!
//! What no recipe alone can bring about has a section `## When it happens` in place of the examples.

mod find;
mod page;
mod pages;

pub use find::{Found, find};
pub use page::{Area, Page, page, pages};
pub use pages::AREAS;

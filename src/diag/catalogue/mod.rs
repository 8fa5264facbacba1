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
mod pages;

pub use find::{Found, find};
pub use pages::AREAS;

/// The codes of one part of the program.
#[derive(Debug)]
pub struct Area {
    /// The word in the middle of its codes: `parallel`.
    pub name: &'static str,
    /// What its codes are about.
    pub about: &'static str,
    pub pages: &'static [Page],
}

/// One code and its page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    pub code: &'static str,
    /// Markdown.
    pub text: &'static str,
}

impl Page {
    /// The first line, without its mark.
    pub fn title(&self) -> &'static str {
        self.text.lines().next().unwrap_or_default().trim_start_matches("# ")
    }

    /// The last part of the code.
    pub fn name(&self) -> &'static str {
        self.code.rsplit("::").next().unwrap_or(self.code)
    }
}

/// Every page, area by area.
pub fn pages() -> impl Iterator<Item = &'static Page> {
    AREAS.iter().flat_map(|area| area.pages)
}

/// The page of a code.
pub fn page(code: &str) -> Option<&'static Page> {
    pages().find(|page| page.code == code)
}

//! Areas, pages, and how one is looked up.

use super::AREAS;

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

//! Colour, or none.

/// Whether text may carry colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    pub color: bool,
}

impl Style {
    /// A heading.
    pub fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// Something less important.
    pub fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    /// Something as it should be.
    pub fn good(self, text: &str) -> String {
        self.paint("32", text)
    }

    /// Something wrong.
    pub fn bad(self, text: &str) -> String {
        self.paint("31", text)
    }

    /// Text of a recipe.
    pub fn code(self, text: &str) -> String {
        self.paint("36", text)
    }

    /// Something to look at.
    pub fn warn(self, text: &str) -> String {
        self.paint("33", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

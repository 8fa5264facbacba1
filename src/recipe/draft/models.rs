//! The models of the embedded library.

use crate::recipe::library::LIBRARY;

/// A `model` item of the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LibraryModel {
    pub name: &'static str,
    /// The file to `use`.
    pub file: &'static str,
    /// The first sentence of the comment above it, or of its file.
    pub about: &'static str,
}

/// Every model of the library, file by file.
pub fn models() -> Vec<LibraryModel> {
    let mut found = Vec::new();
    for (file, text) in LIBRARY {
        let mut about = "";
        let mut in_comment = false;
        for line in text.lines() {
            let comment = line.strip_prefix("//").map(str::trim);
            if let (Some(comment), false) = (comment, in_comment) {
                about = comment.split_once(". ").map_or(comment, |(first, _)| first).trim_end_matches('.');
            }
            in_comment = comment.is_some();
            let mut words = line.split([' ', ':', '{']).filter(|word| !word.is_empty());
            if let (Some("model"), Some(name)) = (words.next(), words.next())
                && line.starts_with("model")
            {
                found.push(LibraryModel { name, file, about });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::models;

    #[test]
    fn models_are_found_with_what_is_said_of_them() {
        let found = models();
        let about = |name| found.iter().find(|model| model.name == name).map(|model| model.about);
        assert_eq!(about("llama31_8b"), Some("Llama 3.1: the same, stretched to 128Ki tokens"));
        assert!(about("step35_flash").is_some_and(|about| about.starts_with("Step-3.5-Flash")));
        assert!(found.iter().all(|model| !model.about.is_empty() && model.file.starts_with("models/")));
    }
}

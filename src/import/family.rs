//! What a table of a family may say, and how a configuration is read by it.

use super::keys::Keys;
use super::layers;
use super::page::{Page, number};
use serde_json::Value;

/// The configurations of one `model_type`.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    pub model_type: &'static str,
    /// What all of them have, as path and value.
    pub always: &'static [&'static [(&'static str, &'static str)]],
    /// What their keys say.
    pub keys: &'static [&'static [Key]],
    /// Which layers see a window only; none where all are alike.
    pub windows: Option<Pattern>,
    /// Which layers have experts; none where all are alike.
    pub sparse: Option<Pattern>,
}

/// For each of so many layers, yes or no; what cannot be read has been reported.
pub type Pattern = fn(&mut Reader<'_>, usize) -> Option<Vec<bool>>;

/// A key and what it does. Spellings of several generations stand beside one another, with `|` between them.
#[derive(Debug, Clone, Copy)]
pub struct Key(pub &'static str, pub Does);

/// Where the value of a key goes. Paths are those of [`Page`].
#[derive(Debug, Clone, Copy)]
pub enum Does {
    /// A whole number that must be there.
    Count(&'static str),
    /// A whole number, with the value where it is absent; without one, the language's own default holds.
    CountOr(&'static str, Option<u64>),
    /// A number, likewise.
    NumberOr(&'static str, Option<f64>),
    /// Yes or no, with the value where it is absent.
    Flag(&'static str, bool),
    /// Yes or no, where yes is this value of the field and no its default.
    Switch(&'static str, &'static str, bool),
    /// Words with their translations; the first is meant where the key is absent.
    Word(&'static str, &'static [(&'static str, &'static str)]),
    /// One of these values, as JSON; anything else would need what is said.
    Only(&'static [&'static str], &'static str),
    /// Says something only together with another key, which is read for both.
    Beside,
    /// What is not a single field.
    Read(fn(&mut Reader<'_>, &'static str) -> Option<()>),
}

/// A configuration being read.
pub struct Reader<'c> {
    pub keys: Keys<'c>,
    pub page: Page,
}

impl Reader<'_> {
    /// Fills the page; what is wrong is collected in `keys`.
    pub fn read(&mut self, family: &Family) -> Option<()> {
        for (path, value) in family.always.iter().copied().flatten() {
            self.page.set(path, *value);
        }
        // All keys are read, so that all that is wrong is told at once.
        let read: Vec<_> = family.keys.iter().copied().flatten().map(|key| self.key(key)).collect();
        read.into_iter().collect::<Option<()>>()?;
        let count = usize::try_from(self.keys.count("num_hidden_layers")?).ok()?;
        let mut pattern = |pattern: Option<Pattern>| match pattern {
            Some(pattern) => pattern(self, count),
            None => Some(vec![false; count]),
        };
        let (windows, sparse) = (pattern(family.windows), pattern(family.sparse));
        layers::write(&mut self.page, &windows?, &sparse?);
        Some(())
    }

    fn key(&mut self, Key(spellings, does): &'static Key) -> Option<()> {
        let key = self.keys.spelling(spellings)?;
        match *does {
            Does::Count(path) => {
                let count = self.keys.count(key)?;
                self.page.set(path, count.to_string());
            }
            Does::CountOr(path, otherwise) => {
                let count = self.keys.maybe_count(key)?.or(otherwise);
                count.into_iter().for_each(|count| self.page.set(path, count.to_string()));
            }
            Does::NumberOr(path, otherwise) => {
                let found = self.keys.maybe_number(key)?.or(otherwise);
                found.into_iter().for_each(|found| self.page.set(path, number(found)));
            }
            Does::Flag(path, otherwise) => {
                let flag = self.keys.flag_or(key, otherwise)?;
                self.page.set(path, flag.to_string());
            }
            Does::Switch(path, on, otherwise) => {
                if self.keys.flag_or(key, otherwise)? {
                    self.page.set(path, on);
                }
            }
            Does::Word(path, words) => {
                let found = self.keys.get(key);
                let word = match found {
                    None => words.first(),
                    Some(found) => words.iter().find(|(word, _)| found.as_str() == Some(word)),
                };
                let Some((_, value)) = word else {
                    let known: Vec<_> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
                    let help = format!("a recipe can express {} here", known.join(", "));
                    self.keys.unsupported(key, found.unwrap_or(&Value::Null), &help);
                    return None;
                };
                path.split(' ').for_each(|path| self.page.set(path, *value));
            }
            Does::Only(allowed, needs) => self.keys.only(key, allowed, needs),
            Does::Beside => drop(self.keys.get(key)),
            Does::Read(read) => read(self, key)?,
        }
        Some(())
    }
}

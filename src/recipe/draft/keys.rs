//! Reading `config.json` key by key: what is taken, what must have a certain value, and what is left over.

use crate::diag::Diagnostic;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::path::Path;

/// Keys that say nothing about the architecture.
const NEUTRAL: &[&str] = &[
    "_name_or_path",
    "architectures",
    "auto_map",
    "bos_token_id",
    "dtype",
    "eos_token_id",
    "max_position_embeddings",
    "max_seq_len",
    "model_type",
    "pad_token_id",
    "torch_dtype",
    "transformers_version",
    "use_cache",
];

/// An object of a configuration. Every key that is asked for counts as understood; what is wrong is collected.
pub struct Keys<'c> {
    file: &'c Path,
    /// What stands before its keys in messages: nothing, or `rope_scaling.`.
    prefix: String,
    object: &'c Map<String, Value>,
    seen: BTreeSet<&'c str>,
    pub problems: Vec<Diagnostic>,
}

impl<'c> Keys<'c> {
    /// The keys of a whole file.
    pub fn new(file: &'c Path, object: &'c Map<String, Value>) -> Self {
        Keys { file, prefix: String::new(), object, seen: BTreeSet::new(), problems: Vec::new() }
    }

    /// The value of a key; a null is as good as none.
    pub fn get(&mut self, key: &'c str) -> Option<&'c Value> {
        self.seen.insert(key);
        self.object.get(key).filter(|value| !value.is_null())
    }

    /// A whole number that must be there.
    pub fn count(&mut self, key: &'c str) -> Option<u64> {
        let found = self.get(key);
        let count = found.and_then(Value::as_u64);
        if count.is_none() {
            self.wrong(key, found, "a whole number");
        }
        count
    }

    /// A whole number, or what holds without it.
    pub fn count_or(&mut self, key: &'c str, otherwise: u64) -> Option<u64> {
        if self.get(key).is_none() { Some(otherwise) } else { self.count(key) }
    }

    /// A number that must be there.
    pub fn number(&mut self, key: &'c str) -> Option<f64> {
        let found = self.get(key);
        let number = found.and_then(Value::as_f64);
        if number.is_none() {
            self.wrong(key, found, "a number");
        }
        number
    }

    /// A number, or what holds without it.
    pub fn number_or(&mut self, key: &'c str, otherwise: f64) -> Option<f64> {
        if self.get(key).is_none() { Some(otherwise) } else { self.number(key) }
    }

    /// Yes or no, or what holds without it.
    pub fn flag_or(&mut self, key: &'c str, otherwise: bool) -> Option<bool> {
        let Some(found) = self.get(key) else { return Some(otherwise) };
        if found.as_bool().is_none() {
            self.wrong(key, Some(found), "true or false");
        }
        found.as_bool()
    }

    /// A list of numbers, one for each of at least `length` layers; a single number stands for all.
    pub fn each_layer(&mut self, key: &'c str, length: usize, otherwise: f64) -> Option<Vec<f64>> {
        let Some(found) = self.get(key) else { return Some(vec![otherwise; length]) };
        let list = match found {
            Value::Array(list) => list.iter().take(length).map(Value::as_f64).collect(),
            single => single.as_f64().map(|number| vec![number; length]),
        };
        let list = list.filter(|list| list.len() == length);
        if list.is_none() {
            self.wrong(key, Some(found), &format!("a number for each of {length} layers"));
        }
        list
    }

    /// An object inside this one; what is wrong in it is handed over by [`Keys::close`].
    pub fn inside(&mut self, key: &'c str) -> Option<Keys<'c>> {
        let found = self.get(key)?;
        let Some(object) = found.as_object() else {
            self.wrong(key, Some(found), "an object");
            return None;
        };
        let prefix = format!("{}{key}.", self.prefix);
        Some(Keys { prefix, ..Keys::new(self.file, object) })
    }

    /// Takes over what an inner object reported, or what is left over in it.
    pub fn close(&mut self, mut inner: Keys<'c>) {
        if inner.problems.is_empty() {
            inner.leftovers();
        }
        self.problems.append(&mut inner.problems);
    }

    /// A key that, where it stands, must have this value: the language has no other.
    pub fn only(&mut self, key: &'c str, allowed: &Value) {
        let found = self
            .get(key)
            .filter(|found| *found != allowed && found.as_f64() != allowed.as_f64().or(Some(f64::NAN)));
        if let Some(found) = found {
            self.unsupported(key, found, &format!("a recipe can only express `{allowed}` here"));
        }
    }

    /// Reports a value that the language cannot express.
    pub fn unsupported(&mut self, key: &str, found: &Value, help: &str) {
        let message = format!("{}: `{}{key}` is {}", self.file.display(), self.prefix, shown(found));
        self.problems.push(Diagnostic::error("step::new::unsupported", message).help(help));
    }

    /// Reports every key that nobody asked for.
    pub fn leftovers(&mut self) {
        let left = self.object.iter().filter(|(key, value)| {
            !self.seen.contains(key.as_str()) && !NEUTRAL.contains(&key.as_str()) && !value.is_null()
        });
        let left: Vec<_> = left.collect();
        for (key, value) in left {
            self.unsupported(
                key,
                value,
                "this key is not known for this kind of model; describe the architecture in a `model` of your own",
            );
        }
    }

    fn wrong(&mut self, key: &str, found: Option<&Value>, wanted: &str) {
        let file = self.file.display();
        let message = match found {
            Some(found) => format!("{file}: `{}{key}` is {}, not {wanted}", self.prefix, shown(found)),
            None => format!("{file}: `{}{key}` is missing: {wanted}", self.prefix),
        };
        let help = "give a folder as it was downloaded, with the `config.json` of its checkpoint";
        self.problems.push(Diagnostic::error("step::new::config", message).help(help));
    }
}

/// A value as JSON, not longer than a line.
fn shown(value: &Value) -> String {
    const MOST: usize = 60;
    let text = value.to_string();
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("`{}…`", &text[..end]),
        None => format!("`{text}`"),
    }
}

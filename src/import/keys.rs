//! Reading `config.json` key by key: what is taken, what must have a certain value, and what is left over.

use super::irrelevant::IRRELEVANT;
use crate::diag::Diagnostic;
use crate::diag::suggest::nearest;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::path::Path;

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

    /// The keys of what stands in a file under `key`.
    pub fn under(file: &'c Path, key: &str, object: &'c Map<String, Value>) -> Self {
        Keys { prefix: format!("{key}."), ..Keys::new(file, object) }
    }

    /// The value of a key; a null is as good as none.
    pub fn get(&mut self, key: &'c str) -> Option<&'c Value> {
        self.seen.insert(key);
        self.object.get(key).filter(|value| !value.is_null())
    }

    /// The spelling of a key that the file has, of those between `|`; the first where it has none. Several must agree.
    pub fn spelling(&mut self, spellings: &'static str) -> Option<&'static str> {
        let all = || spellings.split('|');
        let found = all().find(|key| self.holds(key)).or_else(|| all().next())?;
        for key in spellings.split('|') {
            self.seen.insert(key);
        }
        let other =
            all().find_map(|key| self.object.get(key).filter(|v| !v.is_null() && **v != self.object[found]));
        if let Some(other) = other {
            self.unsupported(spellings, other, &format!("`{found}` says otherwise"));
            return None;
        }
        Some(found)
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

    /// A whole number that may be absent.
    pub fn maybe_count(&mut self, key: &'c str) -> Option<Option<u64>> {
        if self.get(key).is_none() { Some(None) } else { self.count(key).map(Some) }
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

    /// A number that may be absent.
    pub fn maybe_number(&mut self, key: &'c str) -> Option<Option<f64>> {
        if self.get(key).is_none() { Some(None) } else { self.number(key).map(Some) }
    }

    /// A list of numbers that must be there.
    pub fn numbers(&mut self, key: &'c str) -> Option<Vec<f64>> {
        let found = self.get(key);
        let list = found.and_then(Value::as_array);
        let numbers = list.and_then(|list| list.iter().map(Value::as_f64).collect());
        if numbers.is_none() {
            self.wrong(key, found, "a list of numbers");
        }
        numbers
    }

    /// Yes or no, or what holds without it.
    pub fn flag_or(&mut self, key: &'c str, otherwise: bool) -> Option<bool> {
        let Some(found) = self.get(key) else { return Some(otherwise) };
        if found.as_bool().is_none() {
            self.wrong(key, Some(found), "true or false");
        }
        found.as_bool()
    }

    /// Whether a key is there and not null, without counting it as understood.
    pub fn holds(&self, key: &str) -> bool {
        self.object.get(key).is_some_and(|value| !value.is_null())
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

    /// A key that, where it stands, must have one of these values, written as JSON: anything else `needs` what is said.
    pub fn only(&mut self, key: &'c str, allowed: &[&str], needs: &str) {
        let Some(found) = self.get(key) else { return };
        let same = |text: &str| {
            serde_json::from_str::<Value>(text).is_ok_and(|value| {
                value == *found || value.as_f64().is_some_and(|number| found.as_f64() == Some(number))
            })
        };
        if !allowed.iter().any(|text| same(text)) {
            self.unsupported(key, found, &format!("a recipe has no words for {needs}"));
        }
    }

    /// Reports a value that the language cannot express.
    pub fn unsupported(&mut self, key: &str, found: &Value, help: &str) {
        let message = format!("{}: `{}{key}` is {}", self.file.display(), self.prefix, shown(found));
        self.problems.push(Diagnostic::error("step::import::unsupported", message).help(help));
    }

    /// Reports every key that nobody asked for and that is not known to be irrelevant.
    pub fn leftovers(&mut self) {
        let known = |key: &str| IRRELEVANT.iter().any(|(irrelevant, _)| *irrelevant == key);
        let left = self.object.iter();
        let left: Vec<_> = left
            .filter(|(key, value)| !self.seen.contains(key.as_str()) && !known(key) && !value.is_null())
            .collect();
        for (key, value) in left {
            let (file, prefix) = (self.file.display(), &self.prefix);
            let message = format!("{file}: `{prefix}{key}` = {} is not known", shown(value));
            let help = match nearest(key, self.seen.iter().copied()) {
                Some(near) => format!("known here is `{prefix}{near}`"),
                None => "what it changes in the model has to be known; describe the architecture in a `model` of your \
                         own and leave this key out of `config.json` if it changes nothing"
                    .to_owned(),
            };
            self.problems.push(Diagnostic::error("step::import::unknown_key", message).help(help));
        }
    }

    /// Reports a value that is not what it should be.
    pub fn wrong(&mut self, key: &str, found: Option<&Value>, wanted: &str) {
        let file = self.file.display();
        let message = match found {
            Some(found) => format!("{file}: `{}{key}` is {}, not {wanted}", self.prefix, shown(found)),
            None => format!("{file}: `{}{key}` is missing: {wanted}", self.prefix),
        };
        let help = "give a folder as it was downloaded, with the `config.json` of its checkpoint";
        self.problems.push(Diagnostic::error("step::import::value", message).help(help));
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

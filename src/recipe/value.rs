//! What an expression gives.

use super::units::{show_duration, show_size};
use crate::base::FileId;
use crate::diag::Diagnostic;
use std::fmt;
use std::path::PathBuf;

/// What an operation gives: a value, or what is wrong with its operands.
pub type Outcome = Result<Value, Box<Diagnostic>>;

/// A value of the language.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Int(i64),
    Float(f64),
    Bool(bool),
    /// Text and the file that wrote it, against which it is resolved where it is used as a path.
    Text(String, FileId),
    /// Text that has been used as a path.
    Path(PathBuf),
    /// Bytes.
    Size(i64),
    /// Seconds.
    Duration(f64),
    /// A share of one.
    Ratio(f64),
    /// A word, or a name that nothing was found for.
    Word(String),
    /// `start..end`, the end excluded.
    Range(i64, i64),
    List(Vec<Value>),
}

impl Value {
    /// What it is, with an article: `a size in bytes`.
    pub fn phrase(&self) -> &'static str {
        match self {
            Value::Int(_) => "a whole number",
            Value::Float(_) => "a number",
            Value::Bool(_) => "a truth value",
            Value::Text(..) => "text",
            Value::Path(_) => "a path",
            Value::Size(_) => "a size in bytes",
            Value::Duration(_) => "a duration",
            Value::Ratio(_) => "a ratio",
            Value::Word(_) => "a word",
            Value::Range(..) => "a range",
            Value::List(_) => "a list",
        }
    }

    /// The bytes of a size.
    pub fn bytes(&self) -> Option<i64> {
        match *self {
            Value::Size(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// As a number without a unit.
    pub fn number(&self) -> Option<f64> {
        match *self {
            Value::Int(n) => Some(n as f64),
            Value::Float(x) | Value::Ratio(x) => Some(x),
            _ => None,
        }
    }

    /// The number in it, whatever its unit; what bounds apply to.
    pub fn magnitude(&self) -> Option<f64> {
        match *self {
            Value::Size(n) => Some(n as f64),
            Value::Duration(x) => Some(x),
            _ => self.number(),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Int(n) => write!(f, "{n}"),
            Value::Float(x) if *x != 0.0 && (x.abs() < 1e-4 || x.abs() >= 1e9) => write!(f, "{x:e}"),
            Value::Float(x) => write!(f, "{x:?}"),
            Value::Bool(b) => write!(f, "{b}"),
            Value::Text(text, _) => write!(f, "{text:?}"),
            Value::Path(path) => write!(f, "{}", path.display()),
            Value::Size(bytes) => f.write_str(&show_size(*bytes)),
            Value::Duration(seconds) => f.write_str(&show_duration(*seconds)),
            Value::Ratio(share) => write!(f, "{}%", share * 100.0),
            Value::Word(word) => f.write_str(word),
            Value::Range(start, end) => write!(f, "{start}..{end}"),
            Value::List(values) => {
                f.write_str("[")?;
                for (index, value) in values.iter().enumerate() {
                    write!(f, "{}{value}", if index == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
        }
    }
}

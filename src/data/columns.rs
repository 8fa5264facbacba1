//! Which fields of a record are needed.

use super::config::ChatConfig;
use crate::diag::Diagnostic;

/// The ways in which records hold conversations, the first that fits is taken: fields that must be there, and fields that may.
pub(super) const CONVERSATIONS: [(&[&str], &[&str]); 4] = [
    (&["messages"], &["tools"]),
    (&["conversations"], &["system", "tools"]),
    (&["instruction", "output"], &["input", "system", "history"]),
    (&["prompt", "completion"], &["tools"]),
];

/// What is needed of every record of a source.
#[derive(Debug, Clone)]
pub(super) struct Needed {
    /// As the recipe has it.
    pub column: Option<String>,
    pub chat: bool,
}

impl Needed {
    pub(super) fn new(column: Option<&str>, chat: Option<&ChatConfig>) -> Self {
        Needed { column: column.map(str::to_owned), chat: chat.is_some() }
    }

    /// The field of plain text.
    pub(super) fn text(&self) -> &str {
        self.column.as_deref().unwrap_or("text")
    }

    /// The fields to take out of a record that has the fields `present`; `None` where what is needed is missing.
    pub(super) fn of<'p>(&self, present: &[&'p str]) -> Option<Vec<&'p str>> {
        let named = |name: &str| present.iter().copied().find(|field| *field == name);
        let optional = |names: &[&str]| names.iter().filter_map(|name| named(name)).collect::<Vec<_>>();
        match (&self.column, self.chat) {
            (Some(column), true) => {
                let mut fields = vec![named(column)?];
                fields.extend(optional(&["system", "tools"]));
                Some(fields)
            }
            (_, false) => Some(vec![named(self.text())?]),
            (None, true) => CONVERSATIONS.iter().find_map(|(must, may)| {
                let mut fields = must.iter().map(|name| named(name)).collect::<Option<Vec<_>>>()?;
                fields.extend(optional(may));
                Some(fields)
            }),
        }
    }

    /// A record at `place` lacks what is needed.
    pub(super) fn missing(&self, place: &str, present: &[&str]) -> Diagnostic {
        let what = match (&self.column, self.chat) {
            (None, true) => "no conversation".to_owned(),
            _ => format!("no field `{}`", self.text()),
        };
        let there = match present {
            [] => "there are no fields".to_owned(),
            fields => format!("the fields are {}", fields.join(", ")),
        };
        let known = match (&self.column, self.chat) {
            (None, true) => {
                "; known are `messages`, `conversations`, `instruction` with `output`, `prompt` with `completion`"
            }
            _ => "",
        };
        Diagnostic::error("step::data::column", format!("{place}: {what}"))
            .help(format!("set `column`: {there}{known}"))
    }

    /// A column of a file is of a type that holds neither text nor conversations.
    pub(super) fn wrong_type(&self, place: &str, column: &str, ty: &str) -> Diagnostic {
        Diagnostic::error("step::data::column", format!("{place}: column `{column}` is {ty}, not text"))
            .help("set `column` to the one that holds the text")
    }
}

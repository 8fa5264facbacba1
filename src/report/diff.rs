//! Two plans beside one another, compiled or estimated: only what differs, with its sign.

use super::quantity::{bytes, count, percent, seconds};
use super::style::Style;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;

/// How a number is written, and whether less of it is better.
#[derive(Clone, Copy)]
struct Form {
    write: fn(f64) -> String,
    less_is_better: Option<bool>,
}

const NUMBER: Form = Form { write: count, less_is_better: None };
const BYTES: Form = Form { write: |n| bytes(n as u64), less_is_better: Some(true) };
const ROOM: Form = Form { less_is_better: None, ..BYTES };
const SECONDS: Form = Form { write: seconds, less_is_better: Some(true) };
const SPEED: Form = Form { write: count, less_is_better: Some(false) };
const FRACTION: Form = Form { write: percent, less_is_better: Some(false) };

/// Words, then numbers, that stand at the same place in every summary.
const WORDS: [(&str, &str); 11] = [
    ("recipe", "/recipe"),
    ("profile", "/profile"),
    ("engine", "/engine"),
    ("basis", "/basis"),
    ("device", "/cluster/device"),
    ("recompute", "/recompute"),
    ("precision", "/precision"),
    ("offload", "/offload"),
    ("optimizer", "/optimizer"),
    ("loss chunk", "/loss_chunk"),
    ("reshard after forward", "/reshard_after_forward"),
];

/// What, where in a summary, and how it is written.
type Row = (&'static str, &'static str, Form);

/// Rows by heading. A place that holds an object or a list stands for all in it.
const NUMBERS: [(&str, &[Row]); 6] = [
    (
        "inputs",
        &[
            ("devices", "/cluster/devices", NUMBER),
            ("devices a node", "/cluster/devices_per_node", NUMBER),
            ("parameters", "/parameters/total", NUMBER),
            ("active a token", "/parameters/active", NUMBER),
            ("sequence", "/batch/sequence", NUMBER),
            ("global batch", "/batch/sequences", NUMBER),
            ("micro batch", "/batch/micro_batch", NUMBER),
            ("prefetch", "/prefetch", NUMBER),
            ("accumulation", "/batch/accumulation", NUMBER),
        ],
    ),
    ("mesh", &[("", "/mesh", NUMBER)]),
    (
        "memory",
        &[
            ("peak", "/memory/peak", BYTES),
            ("of a device", "/memory/device", ROOM),
            ("", "/memory/at_peak", BYTES),
        ],
    ),
    (
        "time",
        &[
            ("step", "/time/step", SECONDS),
            ("tokens/s a device", "/time/tokens_per_second_device", SPEED),
            ("MFU", "/time/mfu", FRACTION),
            ("exposed collectives", "/time/exposed", SECONDS),
            ("", "/time/spent", SECONDS),
        ],
    ),
    ("communication", &[("", "/traffic", BYTES)]),
    ("program", &[("instructions", "/program/instructions", NUMBER)]),
];

/// What differs in inputs, mesh, memory, time and communication, from the summary `a` to `b`. What only one of them knows is
/// left out, as an estimate has no program and no traffic of its own.
pub fn diff_page(a: &Value, b: &Value, style: Style) -> String {
    let mut page = Page { text: String::new(), style, heading: "inputs" };
    for (what, place) in WORDS {
        page.words(what, &word(a, place), &word(b, place));
    }
    for (heading, rows) in NUMBERS {
        page.heading = heading;
        for &(what, place, form) in rows {
            let (Some(from), Some(to)) = (a.pointer(place), b.pointer(place)) else { continue };
            let (from, to) = (numbers(what, from), numbers(what, to));
            let names = from.keys().chain(to.keys().filter(|name| !from.contains_key(*name)));
            for name in names {
                let of = |all: &BTreeMap<String, f64>| all.get(name).copied().unwrap_or(0.0);
                page.row(name, of(&from), of(&to), form);
            }
        }
    }
    if page.text.is_empty() {
        return "no difference\n".to_owned();
    }
    page.text
}

fn word(summary: &Value, place: &str) -> String {
    match summary.pointer(place) {
        Some(Value::String(text)) => text.clone(),
        None | Some(Value::Null) => "none".to_owned(),
        Some(other) => other.to_string(),
    }
}

/// A number by the name of its row; of an object or of the list of collectives, all of them by their own.
fn numbers(what: &str, value: &Value) -> BTreeMap<String, f64> {
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    match value {
        Value::Object(all) => all.iter().map(|(name, value)| (name.clone(), number(value))).collect(),
        Value::Array(all) => {
            let name = |row: &Value| format!("{} over {}", word(row, "/collective"), word(row, "/axis"));
            all.iter().map(|row| (name(row), number(&row["bytes"]))).collect()
        }
        value => BTreeMap::from([(what.to_owned(), number(value))]),
    }
}

struct Page {
    text: String,
    style: Style,
    /// Written in front of the next line, once.
    heading: &'static str,
}

impl Page {
    fn words(&mut self, what: &str, from: &str, to: &str) {
        if from != to {
            self.line(what, from, to, "");
        }
    }

    fn row(&mut self, what: &str, from: f64, to: f64, form: Form) {
        if from == to {
            return;
        }
        let sign = if to > from { "+" } else { "−" };
        let mut change = format!("{sign}{}", (form.write)((to - from).abs()));
        if from > 0.0 {
            let _ = write!(change, " ({sign}{:.1}%)", (to / from - 1.0).abs() * 100.0);
        }
        let painted = match form.less_is_better {
            None => change,
            Some(less) if less == (to < from) => self.style.good(&change),
            Some(_) => self.style.warn(&change),
        };
        self.line(what, &(form.write)(from), &(form.write)(to), &painted);
    }

    fn line(&mut self, what: &str, from: &str, to: &str, change: &str) {
        let heading = self.style.bold(&format!("{:<15}", std::mem::take(&mut self.heading)));
        let line = format!("{heading}{what:<24} {from:>12} → {to:<12} {change}");
        let _ = writeln!(self.text, "{}", line.trim_end());
    }
}

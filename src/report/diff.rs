//! Two plans beside one another: only what differs, with its sign.

use super::quantity::{bytes, count, seconds};
use super::style::Style;
use crate::plan::{Axis, Category, Plan};
use std::collections::BTreeSet;
use std::fmt::Write;

/// How a number is written, and whether less of it is better.
#[derive(Clone, Copy)]
struct Form {
    write: fn(f64) -> String,
    less_is_better: Option<bool>,
}

const NUMBER: Form = Form { write: count, less_is_better: None };
const BYTES: Form = Form { write: |n| bytes(n as u64), less_is_better: Some(true) };
const SECONDS: Form = Form { write: seconds, less_is_better: Some(true) };
const SPEED: Form = Form { write: count, less_is_better: Some(false) };
const FRACTION: Form = Form { write: super::quantity::percent, less_is_better: Some(false) };

/// What differs in inputs, mesh, memory, time and communication, from `a` to `b`.
pub fn diff_page(a: &Plan, b: &Plan, style: Style) -> String {
    let mut page = Page { text: String::new(), style, heading: "" };
    page.heading = "inputs";
    let words = |plan: &Plan| {
        let profile = plan.profile.clone().unwrap_or_else(|| "none".to_owned());
        let p = &plan.parallel.precision;
        [
            ("recipe", plan.recipe.clone()),
            ("profile", profile),
            ("device", plan.cluster.device.name.clone()),
            ("recompute", plan.parallel.recompute.to_string()),
            ("precision", format!("{}/{}/{}", p.params, p.reduce, p.optimizer)),
        ]
    };
    for ((what, from), (_, to)) in words(a).into_iter().zip(words(b)) {
        page.words(what, &from, &to);
    }
    for ((what, from), (_, to)) in inputs(a).into_iter().zip(inputs(b)) {
        page.row(what, from, to, NUMBER);
    }
    page.heading = "mesh";
    for axis in Axis::ALL {
        page.row(axis.word(), a.mesh.size(axis) as f64, b.mesh.size(axis) as f64, NUMBER);
    }
    memory(a, b, &mut page);
    page.heading = "time";
    page.row("step", a.time.step, b.time.step, SECONDS);
    page.row("tokens/s a device", a.time.tokens, b.time.tokens, SPEED);
    page.row("MFU", a.time.mfu, b.time.mfu, FRACTION);
    page.row("exposed collectives", a.time.exposed, b.time.exposed, SECONDS);
    for (bound, from) in &a.time.spent {
        page.row(bound.word(), *from, b.time.spent.get(bound).copied().unwrap_or(0.0), SECONDS);
    }
    communication(a, b, &mut page);
    page.heading = "program";
    let size = |plan: &Plan| plan.program.instrs.len() as f64;
    page.row("instructions", size(a), size(b), NUMBER);
    if page.text.is_empty() {
        return "no difference\n".to_owned();
    }
    page.text
}

fn inputs(plan: &Plan) -> [(&'static str, f64); 9] {
    [
        ("devices", plan.mesh.devices as f64),
        ("devices a node", plan.cluster.devices_per_node as f64),
        ("parameters", plan.counts.total as f64),
        ("active a token", plan.counts.active as f64),
        ("sequence", plan.data.sequence as f64),
        ("global batch", plan.train.global_batch as f64),
        ("micro batch", plan.train.micro_batch as f64),
        ("prefetch", plan.parallel.prefetch as f64),
        ("accumulation", plan.program.accumulation as f64),
    ]
}

fn memory(a: &Plan, b: &Plan, page: &mut Page) {
    page.heading = "memory";
    page.row("peak", a.memory.peak as f64, b.memory.peak as f64, BYTES);
    page.row("of a device", a.cluster.device.memory as f64, b.cluster.device.memory as f64, NUMBER_OF_BYTES);
    let categories: BTreeSet<Category> =
        a.memory.at_peak.keys().chain(b.memory.at_peak.keys()).copied().collect();
    for category in categories {
        let of = |plan: &Plan| plan.memory.at_peak.get(&category).copied().unwrap_or(0) as f64;
        page.row(category.word(), of(a), of(b), BYTES);
    }
    page.row("unused at the peak", a.memory.slack as f64, b.memory.slack as f64, BYTES);
}

const NUMBER_OF_BYTES: Form = Form { less_is_better: None, ..BYTES };

fn communication(a: &Plan, b: &Plan, page: &mut Page) {
    page.heading = "communication";
    let total = |plan: &Plan| plan.traffic.sent.values().sum::<u64>() as f64;
    page.row("sent by a rank", total(a), total(b), BYTES);
    let keys: BTreeSet<_> = a.traffic.sent.keys().chain(b.traffic.sent.keys()).collect();
    for key in keys {
        let of = |plan: &Plan| plan.traffic.sent.get(key).copied().unwrap_or(0) as f64;
        page.row(&format!("{} over {}", key.0, key.1.word()), of(a), of(b), BYTES);
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

//! The form of a plan as text: headings in the margin, rows with bars, and the lines that a plan and an estimate share.

use super::quantity::{bytes, count, percent, seconds};
use super::style::Style;
use crate::model::Counts;
use crate::plan::Category;
use crate::recipe::{Cluster, MtpUsage};
use std::fmt::Write;

/// Columns of a bar that fills the whole device.
const BAR: f64 = 40.0;

/// A page as it is written.
pub(super) struct Sheet {
    pub text: String,
    pub style: Style,
}

impl Sheet {
    /// A page of a recipe, its name and machine on top.
    pub fn new(recipe: &str, profile: Option<&str>, cluster: &Cluster, style: Style) -> Sheet {
        let title = match profile {
            Some(profile) => format!("{recipe} ({profile})"),
            None => recipe.to_owned(),
        };
        Sheet { text: format!("{} on {}\n\n", style.bold(&title), machine(cluster)), style }
    }

    /// A line with a heading in the margin, or below the one before it.
    pub fn line(&mut self, heading: &str, text: &str) {
        let heading = self.style.bold(&format!("{heading:<15}"));
        let _ = writeln!(self.text, "{heading}{text}");
    }

    /// An empty line.
    pub fn gap(&mut self) {
        self.text.push('\n');
    }

    /// A row of a number, its name and a bar.
    fn bar(&mut self, number: &str, name: &str, part: f64) {
        let bar = "█".repeat((part * BAR).round() as usize);
        self.line("", format!("{number:>9}  {name:<22} {bar}").trim_end());
    }

    /// How large the model is, and what of it a rank holds.
    pub fn parameters(&mut self, c: &Counts, mtp: Option<MtpUsage>, held: f64) {
        let [total, active] = [c.total, c.active].map(|n| count(n as f64));
        self.line("parameters", &format!("{total} total, {active} active a token, {} tensors", c.tensors));
        if let Some(usage) = mtp {
            let usage = match usage {
                MtpUsage::Kept => "kept as they are",
                MtpUsage::Dropped => "left out",
                MtpUsage::Trained => "trained with the model",
            };
            let (mtp, tensors) = (count(c.mtp as f64), c.mtp_tensors);
            self.line("", &format!("{mtp} more for multi-token prediction ({tensors} tensors), {usage}"));
        }
        self.line("", &format!("{} held by a rank", count(held)));
    }

    /// What a step takes.
    pub fn batch(&mut self, [batch, sequence, micro, times]: [u64; 4]) {
        let tokens = count((batch * sequence) as f64);
        self.line("batch", &format!("{batch} sequences × {sequence} = {tokens} tokens a step"));
        let batches = if times == 1 { "batch" } else { "batches" };
        self.line("", &format!("{times} micro {batches} of {micro} a device"));
    }

    /// Bytes at the peak by category, the largest first; together they are `peak`.
    pub fn memory(&mut self, peak: u64, device: u64, categories: impl Iterator<Item = (Category, u64)>) {
        self.gap();
        self.line("memory", &fit(peak, device, self.style));
        let mut rows: Vec<_> = categories.collect();
        rows.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        for (category, n) in rows {
            self.bar(&bytes(n), category.word(), n as f64 / device.max(peak) as f64);
        }
    }

    /// How long a step is, and what it spends its time on.
    pub fn time(&mut self, [step, tokens, mfu]: [f64; 3], spent: impl Iterator<Item = (&'static str, f64)>) {
        self.gap();
        let speed = format!("{} tokens/s a device, {} of the bf16 peak (MFU)", count(tokens), percent(mfu));
        self.line("time", &format!("{} a step: {speed}", seconds(step)));
        for (word, spent) in spent {
            let part = if step > 0.0 { spent / step } else { 0.0 };
            self.bar(&percent(part), word, part);
        }
    }

    /// What bounds the step, and what of communication is seen.
    pub fn waits(&mut self, bound: &str, communication: f64, exposed: f64) {
        let (all, seen) = (seconds(communication), seconds(exposed));
        self.line(
            "",
            &format!("bound by {bound}; collectives take {all}, {seen} of it with nothing to hide behind"),
        );
    }
}

/// Nodes, devices and their kind.
pub(super) fn machine(c: &Cluster) -> String {
    let each = format!("{} {}", c.devices_per_node, c.device.name);
    match c.nodes {
        1 => format!("{each} ({})", c.name),
        nodes => format!("{nodes} nodes × {each} = {} devices ({})", c.devices(), c.name),
    }
}

/// A peak beside what a device has.
pub(super) fn fit(peak: u64, has: u64, style: Style) -> String {
    let text = format!("{} of {} a device", bytes(peak), bytes(has));
    if peak <= has {
        style.good(&text)
    } else {
        style.warn(&format!("{text}: does not fit by {}", bytes(peak - has)))
    }
}

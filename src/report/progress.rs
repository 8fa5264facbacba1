//! A run as it goes: a line a step where output is piped; on a terminal a bar, and a line now and then.

use super::quantity::{bytes, count, duration};
use super::style::Style;
use crate::checkpoint::Saved;
use crate::plan::Contents;
use crate::runtime::StepReport;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{Write, stdout};
use std::ops::Range;
use std::time::Instant;

/// Shows the steps of a run.
pub struct Progress {
    /// Behind the steps of the run that is gone on with, up to the last one.
    steps: Range<u64>,
    style: Style,
    /// Bytes a rank uses.
    memory: u64,
    started: Instant,
    bar: Option<ProgressBar>,
    /// Every how many steps a line stays on the terminal.
    every: u64,
}

impl Progress {
    /// `terminal` says whether a person watches.
    pub fn new(steps: Range<u64>, memory: u64, style: Style, terminal: bool) -> Progress {
        let bar = terminal.then(|| {
            let bar = ProgressBar::with_draw_target(Some(steps.end), ProgressDrawTarget::stdout());
            let template = if style.color {
                "{bar:32.green/dim} {pos}/{len}  {msg}"
            } else {
                "{bar:32} {pos}/{len}  {msg}"
            };
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style.progress_chars("━╸─"));
            }
            bar
        });
        let every = (steps.end.saturating_sub(steps.start) / 20).max(1);
        Progress { steps, style, memory, started: Instant::now(), bar, every }
    }

    /// Shows a finished step.
    pub fn step(&self, report: &StepReport) {
        let line = self.line(report);
        let Some(bar) = &self.bar else {
            // A reader that has gone away does not end the training.
            let _ = writeln!(stdout(), "{line}");
            return;
        };
        if report.step == self.steps.start + 1 || report.step.is_multiple_of(self.every) || report.last {
            bar.println(&line);
        }
        bar.set_message(self.left(report));
        bar.set_position(report.step);
        if report.last {
            bar.finish_and_clear();
        }
    }

    /// Says that a checkpoint is complete.
    pub fn saved(&self, saved: &Saved) {
        let line = self.style.dim(&checkpoint_line(saved));
        match &self.bar {
            Some(bar) => bar.println(line),
            None => drop(writeln!(stdout(), "{line}")),
        }
    }

    /// Takes the bar away, whatever happened.
    pub fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn line(&self, report: &StepReport) -> String {
        let width = self.steps.end.to_string().len();
        let rate = count(report.tokens as f64 / report.seconds);
        let step = self.style.dim(&format!("step {:>width$}/{}", report.step, self.steps.end));
        let loss = self.style.bold(&format!("loss {:.4}", report.loss));
        let ahead = match report.mtp_loss {
            0.0 => String::new(),
            loss => format!("  mtp loss {loss:.4}"),
        };
        format!(
            "{step}  {loss}{ahead}  norm {:.3}  lr {:.2e}  {rate} tokens/s  {} a rank  {}",
            report.grad_norm,
            report.learning_rate,
            bytes(self.memory),
            self.left(report),
        )
    }

    fn left(&self, report: &StepReport) -> String {
        let each = self.started.elapsed().as_secs_f64() / (report.step - self.steps.start) as f64;
        format!("{} left", duration(each * (self.steps.end - report.step) as f64))
    }
}

/// A checkpoint in a line: where it is, how large it is, how long it took beside the training.
pub fn checkpoint_line(saved: &Saved) -> String {
    let what = match saved.contents {
        Contents::State => "checkpoint",
        Contents::Weights => "weights",
    };
    let (size, took) = (bytes(saved.bytes), duration(saved.seconds));
    format!("{what} of step {}: {size} in {took}, {}", saved.step, saved.path.display())
}

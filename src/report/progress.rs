//! A run as it goes: a line a step where output is piped; on a terminal a bar, and a line now and then.

use super::quantity::{bytes, count, duration};
use super::style::Style;
use crate::runtime::StepReport;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{Write, stdout};
use std::time::Instant;

/// Shows the steps of a run.
pub struct Progress {
    steps: u64,
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
    pub fn new(steps: u64, memory: u64, style: Style, terminal: bool) -> Progress {
        let bar = terminal.then(|| {
            let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stdout());
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
        Progress { steps, style, memory, started: Instant::now(), bar, every: (steps / 20).max(1) }
    }

    /// Shows a finished step.
    pub fn step(&self, report: &StepReport) {
        let line = self.line(report);
        let Some(bar) = &self.bar else {
            // A reader that has gone away does not end the training.
            let _ = writeln!(stdout(), "{line}");
            return;
        };
        if report.step == 1 || report.step.is_multiple_of(self.every) || report.last {
            bar.println(&line);
        }
        bar.set_message(self.left(report));
        bar.set_position(report.step);
        if report.last {
            bar.finish_and_clear();
        }
    }

    /// Takes the bar away, whatever happened.
    pub fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn line(&self, report: &StepReport) -> String {
        let width = self.steps.to_string().len();
        let rate = count(report.tokens as f64 / report.seconds);
        let step = self.style.dim(&format!("step {:>width$}/{}", report.step, self.steps));
        let loss = self.style.bold(&format!("loss {:.4}", report.loss));
        format!(
            "{step}  {loss}  norm {:.3}  lr {:.2e}  {rate} tokens/s  {} a rank  {}",
            report.grad_norm,
            report.learning_rate,
            bytes(self.memory),
            self.left(report),
        )
    }

    fn left(&self, report: &StepReport) -> String {
        let each = self.started.elapsed().as_secs_f64() / report.step as f64;
        format!("{} left", duration(each * (self.steps - report.step) as f64))
    }
}

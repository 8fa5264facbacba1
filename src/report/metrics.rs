//! `metrics.jsonl`: a line a step for other programs.

use crate::diag::Diagnostic;
use crate::runtime::StepReport;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A line of the file.
#[derive(Serialize)]
struct Line {
    step: u64,
    loss: f64,
    #[serde(skip_serializing_if = "is_zero")]
    aux_loss: f64,
    #[serde(skip_serializing_if = "is_zero")]
    mtp_loss: f64,
    grad_norm: f64,
    learning_rate: f64,
    tokens: u64,
    supervised: u64,
    seconds: f64,
    tokens_per_second: f64,
}

/// What tells a line of an earlier run.
#[derive(Deserialize)]
struct Done {
    step: u64,
}

/// Whether the model has no such loss.
fn is_zero(loss: &f64) -> bool {
    *loss == 0.0
}

/// The open file of a run.
pub struct Metrics {
    path: PathBuf,
    file: File,
}

impl Metrics {
    /// Makes `folder` where it is missing and starts `metrics.jsonl` in it. The file of an earlier run is kept under the
    /// next free name `metrics.N.jsonl`.
    ///
    /// # Errors
    /// A folder that cannot be made or written.
    pub fn create(folder: &Path) -> Result<Metrics, Diagnostic> {
        let failed = unwritable(folder);
        fs::create_dir_all(folder).map_err(&failed)?;
        let path = folder.join("metrics.jsonl");
        if path.exists() {
            let free = (1..).map(|n| folder.join(format!("metrics.{n}.jsonl"))).find(|p| !p.exists());
            if let Some(kept) = free {
                fs::rename(&path, kept).map_err(&failed)?;
            }
        }
        let file = File::create(&path).map_err(failed)?;
        Ok(Metrics { path, file })
    }

    /// Goes on with the file in `folder` behind the line of step `step`: what is behind it, the beginning of a line that a
    /// run was ended in among it, is done again.
    ///
    /// # Errors
    /// As [`Metrics::create`].
    pub fn resume(folder: &Path, step: u64) -> Result<Metrics, Diagnostic> {
        let path = folder.join("metrics.jsonl");
        let Ok(text) = fs::read_to_string(&path) else { return Metrics::create(folder) };
        let done = |line: &&str| serde_json::from_str::<Done>(line).is_ok_and(|line| line.step <= step);
        let kept: String = text.lines().filter(done).flat_map(|line| [line, "\n"]).collect();
        let beside = folder.join("metrics.jsonl.unfinished");
        let opened = fs::write(&beside, kept)
            .and_then(|()| fs::rename(&beside, &path))
            .and_then(|()| File::options().append(true).open(&path));
        Ok(Metrics { file: opened.map_err(unwritable(folder))?, path })
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the line of a step.
    ///
    /// # Errors
    /// A full disk and the like.
    pub fn write(&mut self, report: &StepReport) -> Result<(), Diagnostic> {
        let line = Line {
            step: report.step,
            loss: report.loss,
            aux_loss: report.aux_loss,
            mtp_loss: report.mtp_loss,
            grad_norm: report.grad_norm,
            learning_rate: report.learning_rate,
            tokens: report.tokens,
            supervised: report.supervised,
            seconds: report.seconds,
            tokens_per_second: report.tokens as f64 / report.seconds,
        };
        let written = serde_json::to_string(&line).map_err(std::io::Error::from);
        // In one piece: a run that is ended leaves whole lines.
        written.and_then(|text| self.file.write_all(format!("{text}\n").as_bytes())).map_err(|error| {
            let message = format!("cannot write {}: {error}", self.path.display());
            Diagnostic::error("step::runtime::metrics", message).help("make room on the disk and run again")
        })
    }
}

fn unwritable(folder: &Path) -> impl Fn(std::io::Error) -> Diagnostic {
    move |error| {
        let message = format!("cannot write to the output folder {}: {error}", folder.display());
        Diagnostic::error("step::output::unwritable", message)
            .help("choose another folder: `checkpoint { dir = … }` in the recipe, or `--output DIR`")
    }
}

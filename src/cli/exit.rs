//! Exit codes, and what leads to them.

use crate::diag::Diagnostic;

/// Everything asked for was done.
pub const DONE: u8 = 0;
/// It failed while running, or a check found something to change.
pub const FAILED: u8 = 1;
/// The input is wrong; nothing was written.
pub const BAD_INPUT: u8 = 2;
/// Interrupted by the user, between two steps.
pub const INTERRUPTED: u8 = 130;

/// Why a command did not do what was asked for.
pub enum Failure {
    /// Wrong input: reported through the session's sink or here.
    Input(Vec<Diagnostic>),
    /// Something failed while running.
    Running(Diagnostic),
    /// A check found files that would change; they have been named.
    WouldChange,
    Interrupted,
}

impl From<Diagnostic> for Failure {
    /// What only shows while running is a failure; everything else could have been written differently, a learning rate or
    /// weights under which the loss is no number among it.
    fn from(diagnostic: Diagnostic) -> Self {
        let running = [
            "step::runtime::",
            "step::comm::",
            "step::weights::write",
            "step::checkpoint::write",
            "step::export::differs",
        ]
        .iter()
        .any(|area| diagnostic.code.starts_with(area));
        let running = running && diagnostic.code != "step::runtime::not_finite";
        if running { Failure::Running(diagnostic) } else { Failure::Input(vec![diagnostic]) }
    }
}

//! A plan as a file: a line with the checksum of the rest, then RON, one instruction a line.

use super::compile::Plan;
use super::verify::verify;
use crate::base::hash::fnv1a;
use crate::diag::Diagnostic;
use std::path::Path;

/// What the first line says before the checksum; a comment to RON.
const HEAD: &str = "// stepc plan, checksum ";

/// The text of a plan.
///
/// # Errors
/// Only where a number cannot be written, which no compiled plan contains.
pub fn write(plan: &Plan) -> Result<String, Diagnostic> {
    let pretty = ron::ser::PrettyConfig::new().depth_limit(3).indentor("  ").struct_names(false);
    let body = ron::ser::to_string_pretty(plan, pretty)
        .map_err(|error| Diagnostic::error("step::plan::unwritable", error.to_string()))?;
    Ok(format!("{HEAD}{:016x}\n{body}", checksum(&body)))
}

/// Reads the text of a plan and proves that it can be run.
///
/// A program is only as good as its least number, and no rule can tell a wrong one from one that was meant: a file that was
/// changed or cut off is refused as a whole.
///
/// # Errors
/// A text that is no plan, with its line; one that is not as it was written; a rule that the plan breaks.
pub fn read(path: &Path, text: &str) -> Result<Plan, Diagnostic> {
    const AGAIN: &str = "a plan is written by `stepc plan RECIPE --output FILE`; compile the recipe again";
    let unreadable = |place: String| Diagnostic::error("step::plan::unreadable", place).help(AGAIN);
    let Some((head, body)) = text.strip_prefix(HEAD).and_then(|rest| rest.split_once('\n')) else {
        return Err(unreadable(format!("{}: not a plan", path.display())));
    };
    if u64::from_str_radix(head.trim_end(), 16) != Ok(checksum(body)) {
        let message = format!("{} is not as it was written: its checksum differs", path.display());
        return Err(Diagnostic::error("step::plan::invalid", message).help(AGAIN));
    }
    let plan: Plan = ron::from_str(body).map_err(|error| {
        // The head is the first line of the file.
        let line = error.span.start.line + 1;
        unreadable(format!("{}:{line}:{}: {}", path.display(), error.span.start.col, error.code))
    })?;
    verify(&plan)?;
    Ok(plan)
}

/// Of the text without the blank space at its end: against accidents and careless edits.
fn checksum(text: &str) -> u64 {
    fnv1a(text.trim_end())
}

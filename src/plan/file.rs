//! A plan as a file: RON, one instruction a line.

use super::compile::Plan;
use super::verify::verify;
use crate::diag::Diagnostic;
use std::path::Path;

/// The text of a plan.
///
/// # Errors
/// Only where a number cannot be written, which no compiled plan contains.
pub fn write(plan: &Plan) -> Result<String, Diagnostic> {
    let pretty = ron::ser::PrettyConfig::new().depth_limit(3).indentor("  ").struct_names(false);
    ron::ser::to_string_pretty(plan, pretty)
        .map_err(|error| Diagnostic::error("step::plan::unwritable", error.to_string()))
}

/// Reads the text of a plan and proves that it can be run.
///
/// # Errors
/// A diagnostic with the line where the text is no plan, or the rule that the plan breaks.
pub fn read(path: &Path, text: &str) -> Result<Plan, Diagnostic> {
    let plan: Plan = ron::from_str(text).map_err(|error| {
        let place = format!("{}:{}", path.display(), error.span.start);
        Diagnostic::error("step::plan::unreadable", format!("{place}: {}", error.code))
            .help("a plan is written by `stepc plan RECIPE --output FILE`; compile the recipe again")
    })?;
    verify(&plan)?;
    Ok(plan)
}

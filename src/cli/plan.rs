//! `stepc plan`

use super::args::PlanArgs;
use super::exit::Failure;
use super::session::Session;
use crate::diag::Diagnostic;
use crate::plan::{self, Plan};
use crate::report::plan_page;
use std::path::Path;

/// Compiles the recipe, shows the plan and writes it where asked for.
pub fn plan(session: &mut Session, args: &PlanArgs) -> Result<(), Failure> {
    let loaded = session.load(&args.recipe)?;
    let (plan, _) = session.compile(&loaded, args.recipe.profile.as_deref())?;
    session.print(&plan_page(&plan, session.style()));
    if let Some(path) = &args.output {
        write(&plan, path)?;
        session.print(&format!("\nwritten to {}\n", path.display()));
    }
    Ok(())
}

/// Writes to a temporary name first, so that a file that is there is either whole or the new one.
fn write(plan: &Plan, path: &Path) -> Result<(), Diagnostic> {
    let text = plan::write(plan)?;
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".part");
    let written = std::fs::write(&temporary, text).and_then(|()| std::fs::rename(&temporary, path));
    written.map_err(|error| {
        // The half-written file, if there is one, is ours to take away again.
        let _ = std::fs::remove_file(&temporary);
        let message = format!("cannot write the plan to {}: {error}", path.display());
        Diagnostic::error("step::output::unwritable", message).help("choose another file with `--output`")
    })
}

//! `stepc plan`

use super::args::{Form, PlanArgs, RecipeArgs};
use super::exit::Failure;
use super::replace::replace;
use super::session::Session;
use super::target::read_plan;
use crate::diag::Diagnostic;
use crate::plan::{self, Plan, Savings};
use crate::recipe::{Recipe, Resolved};
use crate::report::{diff_page, html_page, plan_page, savings_section, summary};
use std::path::Path;

/// Compiles the recipe, shows the plan and writes it where asked for.
pub fn plan(session: &mut Session, args: &PlanArgs) -> Result<(), Failure> {
    let (plan, resolved) = read(session, &args.recipe)?;
    if let Some(resolved) = &resolved {
        session.advise(&plan, resolved);
    }
    let style = session.style();
    match (&args.diff, args.form) {
        (Some(base), _) => {
            let base = RecipeArgs { file: base.clone(), recipe: None, profile: None, set: Vec::new() };
            let (base, _) = read(session, &base)?;
            session.print(&diff_page(&base, &plan, style));
        }
        (None, Some(Form::Json)) => session.print(&format!("{:#}\n", summary(&plan))),
        (None, Some(Form::Ron)) => session.print(&format!("{}\n", plan::write(&plan)?)),
        (None, None) => {
            session.print(&plan_page(&plan, style));
            if let Some(Resolved { recipe, .. }) = resolved.as_ref().filter(|r| divides_experts(&r.recipe)) {
                session.print(&savings_section(&Savings::of(recipe, &plan), style));
            }
        }
    }
    let quiet = args.form.is_some();
    let files = [
        (&args.output, args.output.as_ref().map(|_| plan::write(&plan)).transpose()?, "--output"),
        (&args.html, args.html.as_ref().map(|_| html_page(&plan)), "--html"),
    ];
    for (path, text, option) in files {
        let (Some(path), Some(text)) = (path, text) else { continue };
        write(&text, path, option)?;
        if !quiet {
            session.print(&format!("\nwritten to {}\n", path.display()));
        }
    }
    Ok(())
}

/// A plan from its file, or a recipe compiled.
fn read(session: &mut Session, args: &RecipeArgs) -> Result<(Plan, Option<Resolved>), Failure> {
    if args.file.extension().is_some_and(|extension| extension == "ron") {
        return Ok((read_plan(&args.file)?, None));
    }
    let loaded = session.load(args)?;
    let (plan, resolved) = session.plan(&loaded, args.profile.as_deref())?;
    Ok((plan, Some(resolved)))
}

fn divides_experts(recipe: &Recipe) -> bool {
    recipe.parallel.ep > 1
}

/// Writes to a temporary name first, so that a file that is there is either whole or the new one.
fn write(text: &str, path: &Path, option: &str) -> Result<(), Diagnostic> {
    replace(path, text.as_bytes()).map_err(|error| {
        let message = format!("cannot write to {}: {error}", path.display());
        Diagnostic::error("step::output::unwritable", message)
            .help(format!("choose another file with `{option}`"))
    })
}

//! `stepc plan`

use super::args::{Form, PlanArgs, RecipeArgs};
use super::exit::Failure;
use super::replace::replace;
use super::session::Session;
use super::target::read_plan;
use crate::diag::Diagnostic;
use crate::plan;
use crate::plan::estimate::Engine;
use crate::recipe::Resolved;
use crate::report::{Shown, diff_page, savings_section};
use std::path::Path;

/// Compiles or estimates the recipe, shows the plan and writes it where asked for.
pub fn plan(session: &mut Session, args: &PlanArgs) -> Result<(), Failure> {
    let engine = args.engine.into();
    let (shown, resolved) = read(session, &args.recipe, engine)?;
    let text = args.output.as_ref().map(|_| program(&shown, resolved.as_ref())).transpose()?;
    let alone = resolved.as_ref().filter(|_| args.diff.is_none());
    let savings = alone.map(|resolved| shown.savings(resolved));
    let style = session.style();
    match (&args.diff, args.form) {
        (Some(base), _) => {
            let base = RecipeArgs { file: base.clone(), recipe: None, profile: None, set: Vec::new() };
            let (base, _) = read(session, &base, args.diff_engine.map_or(engine, Engine::from))?;
            session.print(&diff_page(&base.summary(None), &shown.summary(None), style));
        }
        (None, Some(Form::Json)) => session.print(&format!("{:#}\n", shown.summary(savings.as_ref()))),
        (None, Some(Form::Ron)) => session.print(&format!("{}\n", program(&shown, resolved.as_ref())?)),
        (None, None) => {
            session.print(&shown.page(style));
            if let Some(savings) = savings.as_ref().filter(|savings| savings.ep > 1) {
                session.print(&savings_section(savings, style));
            }
        }
    }
    let files = [
        (&args.output, text, "--output"),
        (&args.html, args.html.as_ref().map(|_| shown.html(savings.as_ref())), "--html"),
    ];
    for (path, text, option) in files {
        let (Some(path), Some(text)) = (path, text) else { continue };
        write(&text, path, option)?;
        if args.form.is_none() {
            session.print(&format!("\nwritten to {}\n", path.display()));
        }
    }
    Ok(())
}

/// A plan from its file, or a recipe compiled or estimated.
fn read(
    session: &mut Session,
    args: &RecipeArgs,
    engine: Engine,
) -> Result<(Shown, Option<Resolved>), Failure> {
    if args.file.extension().is_some_and(|extension| extension == "ron") {
        return Ok((Shown::Program(Box::new(read_plan(&args.file)?)), None));
    }
    let loaded = session.load(args)?;
    let (shown, resolved) = session.shown(&loaded, args.profile.as_deref(), engine)?;
    Ok((shown, Some(resolved)))
}

/// The text of a plan that `stepc run` takes.
fn program(shown: &Shown, resolved: Option<&Resolved>) -> Result<String, Diagnostic> {
    let forecast = match shown {
        Shown::Program(plan) => return plan::write(plan),
        Shown::Estimate(forecast) => forecast,
    };
    let (message, help) = match forecast.engine {
        Engine::Native => (
            "the native engine does not run all of this recipe, so there is no program of it".to_owned(),
            "leave these fields at their defaults, or print the estimate with `--as json`",
        ),
        engine => (
            format!("{} runs programs of its own: there is none to write", engine.title()),
            "leave `--engine` out, or print the estimate with `--as json`",
        ),
    };
    let mut problem = Diagnostic::error("step::plan::estimated", message).help(help);
    for demand in &forecast.demands {
        let place = resolved.and_then(|resolved| resolved.origins.nearest(&demand.field));
        problem = problem.label(place, format!("asks for `{}`", demand.value));
    }
    Err(problem)
}

/// Writes to a temporary name first, so that a file that is there is either whole or the new one.
fn write(text: &str, path: &Path, option: &str) -> Result<(), Diagnostic> {
    replace(path, text.as_bytes()).map_err(|error| {
        let message = format!("cannot write to {}: {error}", path.display());
        Diagnostic::error("step::output::unwritable", message)
            .help(format!("choose another file with `{option}`"))
    })
}

//! What is to be run: a plan from a file, or a recipe compiled for the machine at hand.

use super::args::{RecipeArgs, RunArgs};
use super::exit::Failure;
use super::session::Session;
use crate::base::Host;
use crate::base::host::OsHost;
use crate::diag::Diagnostic;
use crate::plan::{self, Plan, Task};
use crate::recipe::{DeviceKind, Loaded, Origins, Resolved};
use crate::report::{headline, plan_page};
use std::path::Path;

/// Compiles the recipe as it stands; where its machine is not here, says so and compiles its profile for the CPU.
///
/// `--set` is meant for what runs: where it does not fit the recipe's own machine, that machine's plan is shown without.
pub fn compile(session: &mut Session, args: &RunArgs) -> Result<(Plan, Origins), Failure> {
    let loaded = session.load(&args.recipe)?;
    let asked = args.recipe.profile.as_deref();
    let profile = loaded.profile_for(DeviceKind::Cpu);
    let own = match (asked, profile) {
        (None, Some(_)) if !args.recipe.set.is_empty() => as_written(session, args, &loaded)?,
        _ => session.compile(&loaded, asked)?,
    };
    let (plan, origins) = own;
    let style = session.style();
    session.print(&format!("{}\n", plan_page(&plan, style)));
    if plan.cluster.device.kind == DeviceKind::Cpu {
        return Ok((plan, origins));
    }
    let target = format!("no {} on this machine", plan.cluster.device.name);
    let Some(profile) = profile.filter(|_| asked.is_none()) else {
        let message = format!("{target}, and the recipe has no profile for cpu");
        let diagnostic = Diagnostic::error("step::run::no_target", message)
            .label(loaded.head(), "written for another machine only")
            .help("add `profile laptop for cpu { cluster cpu { devices = 2 } … }` with a size that fits a laptop, or run it on its cluster");
        return Err(diagnostic.into());
    };
    let (plan, origins) = session.compile(&loaded, Some(profile))?;
    let instead = format!("{target}: running its profile `{profile}` on the CPU engine");
    session.print(&format!("{}\n{}\n", style.warn(&instead), headline(&plan, style)));
    Ok((plan, origins))
}

/// The plan with `--set`, or without where only that fits.
fn as_written(session: &mut Session, args: &RunArgs, loaded: &Loaded) -> Result<(Plan, Origins), Failure> {
    let before = std::mem::take(&mut session.sink);
    let compiled = session.compile(loaded, None);
    if compiled.is_ok() {
        session.sink.extend(before.finish());
        return compiled;
    }
    session.sink = before;
    let RecipeArgs { file, recipe, profile, .. } = &args.recipe;
    let bare =
        RecipeArgs { file: file.clone(), recipe: recipe.clone(), profile: profile.clone(), set: Vec::new() };
    let loaded = session.load(&bare)?;
    session.compile(&loaded, None)
}

/// Reads a compiled plan.
pub fn read_plan(path: &Path) -> Result<Plan, Diagnostic> {
    let text = OsHost.read_text(path).map_err(|error| {
        Diagnostic::error(
            "step::plan::unreadable",
            format!("cannot read the plan {}: {error}", path.display()),
        )
        .help("write one with `stepc plan RECIPE --output FILE`")
    })?;
    plan::read(path, &text)
}

impl Session {
    /// Resolves and compiles a recipe for training.
    pub fn plan(&mut self, loaded: &Loaded, profile: Option<&str>) -> Result<(Plan, Resolved), Failure> {
        let resolved = self.resolve(loaded, profile)?;
        let plan = plan::compile(&resolved.recipe, resolved.profile.as_deref(), Task::Train);
        Ok((plan, resolved))
    }

    /// Reports what is legal and costs more than it seems.
    pub fn advise(&mut self, plan: &Plan, resolved: &Resolved) {
        let Resolved { recipe, origins, .. } = resolved;
        plan::rules::check(recipe, origins, &mut self.sink);
        plan::rules::fits(recipe, plan, origins, &mut self.sink);
    }

    /// Resolves and compiles a recipe that is going to run.
    pub fn compile(&mut self, loaded: &Loaded, profile: Option<&str>) -> Result<(Plan, Origins), Failure> {
        let (plan, resolved) = self.plan(loaded, profile)?;
        self.advise(&plan, &resolved);
        Ok((plan, resolved.origins))
    }
}

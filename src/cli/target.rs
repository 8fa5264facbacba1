//! What is to be run: a plan from a file, or a recipe compiled for the machine at hand.

use super::args::{RecipeArgs, RunArgs};
use super::exit::Failure;
use super::session::Session;
use crate::base::Host;
use crate::base::host::OsHost;
use crate::diag::Diagnostic;
use crate::plan::estimate::Engine;
use crate::plan::{self, Plan};
use crate::recipe::{Cluster, DeviceKind, Loaded, Origins, Resolved};
use crate::report::{Shown, headline};
use crate::runtime::Npus;
use std::path::Path;

/// Compiles the recipe as it stands; where its machine is not here, says so and compiles its profile for the CPU.
///
/// `--set` is meant for what runs: where it does not fit the recipe's own machine, that machine's plan is shown without.
pub fn compile(session: &mut Session, args: &RunArgs, npus: &Npus) -> Result<(Plan, Origins), Failure> {
    let loaded = session.load(&args.recipe)?;
    let asked = args.recipe.profile.as_deref();
    let profile = loaded.profile_for(DeviceKind::Cpu);
    let own = match (asked, profile) {
        (None, Some(_)) if !args.recipe.set.is_empty() => as_written(session, args, &loaded)?,
        _ => session.shown(&loaded, asked, Engine::Native)?,
    };
    let (shown, resolved) = own;
    let style = session.style();
    session.print(&format!("{}\n", shown.page(style)));
    let Err(target) = here(&resolved.recipe.cluster, npus) else {
        return Ok((shown.into_plan(&resolved), resolved.origins));
    };
    let Some(profile) = profile.filter(|_| asked.is_none()) else {
        let message = format!("{target}, and the recipe has no profile for cpu");
        let diagnostic = Diagnostic::error("step::run::no_target", message)
            .label(loaded.head(), "written for another machine only")
            .help("add `profile laptop for cpu { cluster cpu { devices = 2 } … }` with a size that fits a laptop, or run it on its cluster");
        return Err(diagnostic.into());
    };
    let (shown, resolved) = session.shown(&loaded, Some(profile), Engine::Native)?;
    let plan = shown.into_plan(&resolved);
    let instead = format!("{target}: running its profile `{profile}` on the CPU engine");
    session.print(&format!("{}\n{}\n", style.warn(&instead), headline(&plan, style)));
    Ok((plan, resolved.origins))
}

/// Whether this machine has the devices of a cluster; if not, what is missing.
pub fn here(cluster: &Cluster, npus: &Npus) -> Result<(), String> {
    let (device, wanted) = (&cluster.device, cluster.devices());
    let there = if device.kind == DeviceKind::Npu { npus.count() } else { 0 };
    match device.kind {
        DeviceKind::Cpu => Ok(()),
        DeviceKind::Npu if there >= wanted => Ok(()),
        DeviceKind::Npu if there > 0 => {
            Err(format!("{wanted} {} are wanted and this machine has {there} NPUs", device.name))
        }
        _ => Err(format!("no {} on this machine", device.name)),
    }
}

/// The plan with `--set`, or without where only that fits.
fn as_written(session: &mut Session, args: &RunArgs, loaded: &Loaded) -> Result<(Shown, Resolved), Failure> {
    let before = std::mem::take(&mut session.sink);
    let compiled = session.shown(loaded, None, Engine::Native);
    if compiled.is_ok() {
        session.sink.extend(before.finish());
        return compiled;
    }
    session.sink = before;
    let RecipeArgs { file, recipe, profile, .. } = &args.recipe;
    let bare =
        RecipeArgs { file: file.clone(), recipe: recipe.clone(), profile: profile.clone(), set: Vec::new() };
    let loaded = session.load(&bare)?;
    session.shown(&loaded, None, Engine::Native)
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

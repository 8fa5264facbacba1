//! `stepc check`

use super::args::CheckArgs;
use super::exit::Failure;
use super::inputs::{audit, place};
use super::session::Session;
use crate::base::host::OsHost;
use crate::diag::Diagnostic;
use crate::model::Model;
use crate::plan;
use crate::recipe::{DeviceKind, Resolved, Weights};
use crate::report::why_page;

/// Checks the recipe as it stands and under each of its profiles, and the files of the one that this machine can run; or
/// shows why a value is what it is.
pub fn check(session: &mut Session, args: &CheckArgs) -> Result<(), Failure> {
    let loaded = session.load(&args.recipe)?;
    let profile = args.recipe.profile.as_deref();
    if let Some(path) = &args.why {
        if let Some(settings) = loaded.why(profile, path, &mut session.sink) {
            let page = why_page(&settings, &session.sources, profile, session.style());
            session.print(&page);
        }
        return Ok(());
    }
    let resolved: Vec<Resolved> = match profile {
        Some(profile) => loaded.resolve(Some(profile), &mut session.sink).into_iter().collect(),
        None => loaded.check_all(&mut session.sink),
    };
    for Resolved { recipe, origins, .. } in &resolved {
        plan::rules::check(recipe, origins, &mut session.sink);
    }
    // As `stepc run` chooses: the recipe itself where it is for this machine, else its first profile that is.
    let own = resolved.iter().find(|resolved| resolved.recipe.cluster.device.kind == DeviceKind::Cpu);
    if let Some(own) = own {
        own.check_paths(&OsHost, &mut session.sink);
        let warnings = weights(own)?;
        warnings.into_iter().for_each(|warning| session.sink.push(warning));
    }
    Ok(())
}

/// A checkpoint that is there is held against the model: every parameter is in it, every tensor is used. Gives warnings.
fn weights(resolved: &Resolved) -> Result<Vec<Diagnostic>, Failure> {
    let Weights::Folder(path) = &resolved.recipe.model.weights else { return Ok(Vec::new()) };
    if !path.exists() {
        return Ok(Vec::new());
    }
    let model = Model::build(&resolved.recipe.model, resolved.recipe.parallel.precision.params);
    let placed = |problem| place(problem, Some(&resolved.origins));
    let (_, audit) = audit(path, &model.params, &model.aside).map_err(placed)?;
    Ok(audit.warnings.into_iter().map(placed).collect())
}

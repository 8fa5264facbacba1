//! `stepc check`

use super::args::CheckArgs;
use super::exit::Failure;
use super::session::Session;
use crate::report::why_page;

/// Checks the recipe as it stands and under each of its profiles, or shows why a value is what it is.
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
    match profile {
        Some(profile) => drop(loaded.resolve(Some(profile), &mut session.sink)),
        None => loaded.check_all(&mut session.sink),
    }
    Ok(())
}

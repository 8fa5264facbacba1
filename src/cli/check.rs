//! `stepc check`

use super::args::CheckArgs;
use super::exit::Failure;
use super::session::Session;
use crate::base::host::OsHost;
use crate::check::{check_weights, for_this_machine};
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
    let resolved = crate::check::check(&OsHost, &loaded, profile, &mut session.sink);
    if let Some(own) = for_this_machine(&resolved) {
        session.sink.extend(check_weights(own));
    }
    Ok(())
}

//! `stepc check`

use super::args::RecipeArgs;
use super::exit::Failure;
use super::session::Session;

/// Checks the recipe as it stands and under each of its profiles.
pub fn check(session: &mut Session, args: &RecipeArgs) -> Result<(), Failure> {
    let loaded = session.load(args)?;
    match &args.profile {
        Some(profile) => drop(loaded.resolve(Some(profile), &mut session.sink)),
        None => loaded.check_all(&mut session.sink),
    }
    Ok(())
}

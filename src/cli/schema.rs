//! `stepc schema`

use super::args::SchemaArgs;
use super::exit::Failure;
use super::session::Session;
use crate::report::{json_schema, reference};

/// Prints the declarations of the language for programs or for people.
pub fn schema(session: &Session, args: &SchemaArgs) -> Result<(), Failure> {
    let text = if args.markdown { reference() } else { format!("{:#}\n", json_schema()) };
    session.print(&text);
    Ok(())
}

//! `stepc completions`

use super::args::{Arguments, CompletionsArgs};
use super::exit::Failure;
use super::session::Session;
use clap::CommandFactory;

/// Prints the script of a shell, made from the same declaration that reads the arguments.
pub fn completions(session: &Session, args: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Arguments::command(), env!("CARGO_PKG_NAME"), &mut script);
    session.print(&String::from_utf8_lossy(&script));
    Ok(())
}

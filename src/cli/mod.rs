//! The command line: arguments in, views out, one exit code.

mod args;
mod check;
mod completions;
mod data;
mod exit;
mod explain;
mod export;
mod fmt;
mod import;
mod inputs;
mod lsp;
mod new;
mod plan;
mod replace;
mod resume;
mod run;
mod schema;
mod session;
mod target;
mod train;
mod tune;

use args::{Arguments, Command, ImportFrom};
use clap::Parser;
use std::process::ExitCode;

/// Runs the program on the arguments of the process.
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are no errors; a reader that has gone away is none either.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { exit::BAD_INPUT } else { exit::DONE });
        }
    };
    let mut session = session::Session::new(&arguments);
    let result = match &arguments.command {
        Command::Check(args) => check::check(&mut session, args),
        Command::Plan(args) => plan::plan(&mut session, args),
        Command::Tune(args) => tune::tune(&mut session, args),
        Command::Run(args) => run::run(&mut session, args),
        Command::Data(args) => data::data(&mut session, args),
        Command::Fmt(args) => fmt::fmt(&mut session, args),
        Command::New(args) => new::new(&mut session, args),
        Command::Import { from: ImportFrom::Hf(args) } => import::hf(&mut session, args),
        Command::Export(args) => export::export(&mut session, args),
        Command::Explain(args) => explain::explain(&session, args),
        Command::Schema(args) => schema::schema(&session, args),
        Command::Lsp(args) => return lsp::lsp(args),
        Command::Completions(args) => completions::completions(&session, args),
    };
    session.end(result)
}

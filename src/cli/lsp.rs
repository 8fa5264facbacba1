//! `stepc lsp`

use super::args::LspArgs;
use super::exit;
use crate::base::host::OsHost;
use crate::lsp::{Ended, serve, stdio};
use std::process::ExitCode;
use std::sync::Arc;

/// Serves the editor that started this program, until it says goodbye or is gone.
pub fn lsp(_: &LspArgs) -> ExitCode {
    let (connection, writer) = stdio();
    let ended = serve(connection, Arc::new(OsHost));
    match ended {
        Ended::Properly => {
            // What has been said is to arrive.
            let _ = writer.join();
            ExitCode::from(exit::DONE)
        }
        Ended::Abruptly => ExitCode::from(exit::FAILED),
    }
}

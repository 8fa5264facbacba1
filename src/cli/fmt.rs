//! `stepc fmt`

use super::args::FmtArgs;
use super::exit::Failure;
use super::replace::replace;
use super::session::Session;
use crate::base::Host;
use crate::base::host::{FILE_LIMIT, OsHost, text};
use crate::diag::Diagnostic;
use crate::syntax::format::format;
use std::io::{self, ErrorKind, Read, stdin};
use std::path::Path;

const STDIN: &str = "-";

/// A file that reads differently once it is laid out.
struct Change<'a> {
    path: &'a Path,
    text: String,
}

/// Lays the files out. All are read before any is written, and none is where one has syntax errors.
pub fn fmt(session: &mut Session, args: &FmtArgs) -> Result<(), Failure> {
    let mut changes = Vec::new();
    let mut pages = Vec::new();
    for path in &args.files {
        let Some((old, new)) = formatted(session, path) else { continue };
        if !args.check && (args.stdout || path == Path::new(STDIN)) {
            pages.push(new);
        } else if old != new {
            changes.push(Change { path, text: new });
        }
    }
    if session.sink.has_errors() {
        return Err(Failure::Input(Vec::new()));
    }
    pages.iter().for_each(|page| session.print(page));
    if args.check {
        let names = changes.iter().map(|change| format!("{}\n", shown(change.path)));
        session.print(&names.collect::<String>());
        return if changes.is_empty() { Ok(()) } else { Err(Failure::WouldChange) };
    }
    for change in &changes {
        replace(change.path, change.text.as_bytes()).map_err(|error| unwritable(change.path, &error))?;
    }
    Ok(())
}

/// The text of a file as it is and as it should be; `None` where it cannot be read, which is reported.
fn formatted(session: &mut Session, path: &Path) -> Option<(String, String)> {
    let read = if path == Path::new(STDIN) { read_stdin() } else { OsHost.read_text(path) };
    let old = match read {
        Ok(text) => text,
        Err(error) => {
            let reason = match error.kind() {
                ErrorKind::NotFound => "there is no such file".to_owned(),
                ErrorKind::PermissionDenied => "permission denied".to_owned(),
                _ => error.to_string(),
            };
            let message = format!("cannot read `{}`: {reason}", shown(path));
            let problem = Diagnostic::error("step::recipe::unreadable", message);
            session.sink.push(problem.help("give the path of a `.step` file"));
            return None;
        }
    };
    let id = session.sources.add(shown(path), old.as_str());
    let new = format(id, &old, &mut session.sink)?;
    Some((old, new))
}

fn read_stdin() -> io::Result<String> {
    let mut bytes = Vec::new();
    stdin().lock().take(FILE_LIMIT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_LIMIT {
        let message = format!("is larger than {} MiB", FILE_LIMIT >> 20);
        return Err(io::Error::new(ErrorKind::FileTooLarge, message));
    }
    text(bytes)
}

fn shown(path: &Path) -> String {
    if path == Path::new(STDIN) { "<stdin>".to_owned() } else { path.display().to_string() }
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    let message = format!("cannot write `{}`: {error}", path.display());
    let problem = Diagnostic::error("step::fmt::unwritable", message);
    Failure::Running(problem.help("the file is as it was; `--stdout` writes to standard output instead"))
}

//! `stepc fmt`

use super::args::FmtArgs;
use super::exit::Failure;
use super::session::Session;
use crate::base::Host;
use crate::base::host::{FILE_LIMIT, OsHost, text};
use crate::diag::Diagnostic;
use crate::syntax::format::format;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write, stdin};
use std::path::{Path, PathBuf};

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

/// Puts new contents in place of a file in one step: a reader sees the old file or the new one. Permissions stay, and a link
/// stays a link.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let path = fs::canonicalize(path)?;
    let permissions = fs::metadata(&path)?.permissions();
    if permissions.readonly() {
        return Err(io::Error::new(ErrorKind::PermissionDenied, "it is read-only"));
    }
    let (temporary, mut file) = create_beside(&path)?;
    let written = file
        .write_all(bytes)
        .and_then(|()| file.set_permissions(permissions))
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&temporary, &path));
    if written.is_err() {
        // What went wrong before matters more than a file left over.
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// A new file in the same folder, under a name that nobody uses.
fn create_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    let mut attempt = 0u32;
    loop {
        let mut name = OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(format!(".{}-{attempt}.tmp", std::process::id()));
        let temporary = path.with_file_name(name);
        match OpenOptions::new().write(true).create_new(true).open(&temporary) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => attempt += 1,
            opened => return opened.map(|file| (temporary, file)),
        }
    }
}

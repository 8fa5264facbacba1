//! Writing a file in one step: a reader sees the old file or the new one, never a part.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Puts `bytes` in place of a file, or makes it. Permissions stay, and a link stays a link.
///
/// # Errors
/// A file that is read-only or a folder that cannot be written; nothing has changed then.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (path, permissions) = match fs::canonicalize(path) {
        Ok(path) => {
            let permissions = fs::metadata(&path)?.permissions();
            if permissions.readonly() {
                return Err(io::Error::new(ErrorKind::PermissionDenied, "it is read-only"));
            }
            (path, Some(permissions))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => (path.to_owned(), None),
        Err(error) => return Err(error),
    };
    let (temporary, mut file) = create_beside(&path)?;
    let written = file
        .write_all(bytes)
        .and_then(|()| permissions.map_or(Ok(()), |permissions| file.set_permissions(permissions)))
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

//! The library as files, for editors that can only open files.

use crate::recipe::library::LIBRARY;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::{env, fs, io};

/// The file that holds what the library has at `inside`. `None` where none can be written.
pub fn file(inside: &str) -> Option<PathBuf> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = cache()?.join(concat!("stepc/library-", env!("CARGO_PKG_VERSION")));
        write(&folder).ok().map(|()| folder)
    });
    folder.as_ref().map(|folder| folder.join(inside))
}

fn cache() -> Option<PathBuf> {
    let named = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    named("XDG_CACHE_HOME")
        .or_else(|| named("HOME").map(|home| home.join(".cache")))
        .or_else(|| named("LOCALAPPDATA"))
}

/// Writes what is not there yet, or is another version's.
fn write(folder: &Path) -> io::Result<()> {
    for (inside, text) in LIBRARY {
        let path = folder.join(inside);
        if fs::read(&path).is_ok_and(|old| old == text.as_bytes()) {
            continue;
        }
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::write(&path, text)?;
    }
    Ok(())
}

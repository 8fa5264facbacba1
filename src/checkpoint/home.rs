//! The folder of a run: which checkpoints it holds, and that one run at a time writes there.

use crate::diag::Diagnostic;
use crate::plan::Contents;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// What the names of folders end in that are being written or removed.
const UNFINISHED: &str = ".unfinished";

/// A complete checkpoint of a folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    pub step: u64,
    pub contents: Contents,
    pub path: PathBuf,
}

/// Every complete checkpoint in the folder of a run, by step.
pub fn list(home: &Path) -> Vec<Listed> {
    let entries = fs::read_dir(home).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries
        .filter_map(|entry| {
            let name = entry.file_name();
            let (kind, step) = name.to_str()?.split_once('-')?;
            let contents = [Contents::State, Contents::Weights].into_iter().find(|c| word(*c) == kind)?;
            let step = step.bytes().all(|byte| byte.is_ascii_digit()).then(|| step.parse().ok())??;
            entry.path().is_dir().then(|| Listed { step, contents, path: entry.path() })
        })
        .collect();
    found.sort_unstable();
    found
}

/// The newest complete checkpoint of `home` that a run can go on from.
pub fn newest(home: &Path) -> Option<Listed> {
    list(home).into_iter().rfind(|listed| listed.contents == Contents::State)
}

/// The name of a checkpoint's folder.
pub(super) fn name(step: u64, contents: Contents) -> String {
    format!("{}-{step:06}", word(contents))
}

fn word(contents: Contents) -> &'static str {
    match contents {
        Contents::State => "step",
        Contents::Weights => "weights",
    }
}

/// The folder of a run, held by this process as long as this value lives.
#[derive(Debug)]
pub struct Home {
    path: PathBuf,
    _lock: File,
}

impl Home {
    /// Makes the folder where it is missing, and makes sure that no other run writes there.
    ///
    /// # Errors
    /// A folder that cannot be made or written, or that another run is writing to.
    pub fn open(path: &Path) -> Result<Home, Diagnostic> {
        let failed = |error: io::Error| {
            let message = format!("cannot write to the output folder {}: {error}", path.display());
            Diagnostic::error("step::output::unwritable", message)
                .help("choose another folder: `checkpoint { dir = … }` in the recipe, or `--output DIR`")
        };
        fs::create_dir_all(path).map_err(failed)?;
        let lock = File::open(path).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(Home { path: path.to_owned(), _lock: lock }),
            Err(TryLockError::WouldBlock) => {
                let message = format!("another run is writing to {}", path.display());
                Err(Diagnostic::error("step::checkpoint::busy", message)
                    .help("wait for it to end, or choose another folder: `--output DIR`"))
            }
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes what an earlier run had not finished when it ended, and names it.
    ///
    /// # Errors
    /// What cannot be removed.
    pub fn sweep(&self) -> Result<Vec<String>, Diagnostic> {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.retain(|name| name.ends_with(UNFINISHED) && self.path.join(name).is_dir());
        names.sort_unstable();
        for name in &names {
            let path = self.path.join(name);
            fs::remove_dir_all(&path).map_err(|error| {
                let message = format!("cannot remove {}: {error}", path.display());
                Diagnostic::error("step::output::unwritable", message)
                    .help("it was left by a run that was ended; remove it by hand")
            })?;
        }
        Ok(names)
    }

    /// Where something of this name is put together.
    pub(super) fn unfinished(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}{UNFINISHED}"))
    }

    /// Gives a folder that is complete and on disk its name. One of that name makes room.
    pub(super) fn publish(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.path.join(name);
        if path.exists() {
            self.remove(&path)?;
        }
        fs::rename(self.unfinished(name), &path)?;
        sync(&self.path)?;
        Ok(path)
    }

    /// Removes a complete checkpoint: first its name, so that no part of it is ever taken for the whole.
    pub(super) fn remove(&self, path: &Path) -> io::Result<()> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".removed{UNFINISHED}"));
        let aside = self.path.join(name);
        fs::rename(path, &aside)?;
        fs::remove_dir_all(aside)
    }

    /// Removes the oldest checkpoints of a kind beyond the newest `keep`.
    pub(super) fn prune(&self, contents: Contents, keep: u64) -> io::Result<()> {
        let mut kept = list(&self.path);
        kept.retain(|listed| listed.contents == contents);
        let beyond = kept.len().saturating_sub(keep as usize);
        kept[..beyond].iter().try_for_each(|listed| self.remove(&listed.path))
    }
}

/// Makes the names in a folder durable.
pub(super) fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

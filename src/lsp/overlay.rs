//! The world as an editor has it: open files over those on disk.

use super::document::Document;
use crate::base::Host;
use crate::base::host::normal;
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Open files by path, over what is on disk.
pub struct Overlay {
    pub open: BTreeMap<PathBuf, Document>,
    pub disk: Arc<dyn Host>,
}

impl Host for Overlay {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        match self.open.get(&normal(path)) {
            Some(document) => Ok(document.text.as_bytes().to_vec()),
            None => self.disk.read(path),
        }
    }

    fn read_text(&self, path: &Path) -> io::Result<String> {
        match self.open.get(&normal(path)) {
            Some(document) => Ok(document.text.to_string()),
            None => self.disk.read_text(path),
        }
    }

    fn exists(&self, path: &Path) -> bool {
        self.open.contains_key(&normal(path)) || self.disk.exists(path)
    }

    fn list(&self, folder: &Path) -> Vec<String> {
        self.disk.list(folder)
    }
}

/// Notes every path that is asked for: when one of them changes, so may the answer.
pub struct Noting<'h> {
    host: &'h dyn Host,
    asked: Mutex<HashSet<PathBuf>>,
}

impl<'h> Noting<'h> {
    pub fn new(host: &'h dyn Host) -> Self {
        Noting { host, asked: Mutex::default() }
    }

    pub fn asked(self) -> HashSet<PathBuf> {
        self.asked.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, path: &Path) {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).insert(normal(path));
    }
}

impl Host for Noting<'_> {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.note(path);
        self.host.read(path)
    }

    fn read_text(&self, path: &Path) -> io::Result<String> {
        self.note(path);
        self.host.read_text(path)
    }

    fn exists(&self, path: &Path) -> bool {
        self.note(path);
        self.host.exists(path)
    }

    fn list(&self, folder: &Path) -> Vec<String> {
        self.host.list(folder)
    }
}

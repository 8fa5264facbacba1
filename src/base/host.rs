//! The world outside: everything the compiler reads goes through a [`Host`], so that the command line, the editor and the
//! tests differ only in which one they hand over.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::{Component, Path, PathBuf};

/// The largest file that is read whole, in bytes: 64 MiB.
pub const FILE_LIMIT: u64 = 64 << 20;

/// Where files come from.
pub trait Host: Send + Sync {
    /// The bytes of a file. Fails, and never blocks, on what is not a regular file or is larger than [`FILE_LIMIT`].
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Whether `path` names a file or a folder.
    fn exists(&self, path: &Path) -> bool;

    /// The names in a folder, sorted; none where it cannot be read. For advice only.
    fn list(&self, _folder: &Path) -> Vec<String> {
        Vec::new()
    }

    /// A file as UTF-8 text; [`ErrorKind::InvalidData`] where it is not.
    fn read_text(&self, path: &Path) -> io::Result<String> {
        text(self.read(path)?)
    }
}

/// Bytes as UTF-8 text; [`ErrorKind::InvalidData`], naming what they are or the first byte in the way, where they are not.
pub fn text(bytes: Vec<u8>) -> io::Result<String> {
    let invalid = |message: String| io::Error::new(ErrorKind::InvalidData, message);
    if let Some(kind) = binary(&bytes) {
        return Err(invalid(format!("is {kind}, not a text")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let (at, bytes) = (error.utf8_error().valid_up_to(), error.as_bytes());
        let before = String::from_utf8_lossy(&bytes[..at]);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
        let byte = bytes.get(at).copied().unwrap_or_default();
        invalid(format!(
            "not UTF-8 text: byte 0x{byte:02x} at line {line}, column {column} begins no character"
        ))
    })
}

/// What a file that is no text is, told by its first bytes.
fn binary(bytes: &[u8]) -> Option<&'static str> {
    const KINDS: &[(&[u8], &str)] = &[
        (b"PK\x03\x04", "a zip archive"),
        (b"\x1f\x8b", "a gzip archive"),
        (b"PAR1", "a Parquet file"),
        (b"GGUF", "a GGUF file"),
        (b"\xff\xfe", "UTF-16"),
        (b"\xfe\xff", "UTF-16"),
    ];
    let known = KINDS.iter().find(|(start, _)| bytes.starts_with(start)).map(|(_, kind)| *kind);
    // A safetensors file begins with the length of its JSON header.
    let header = bytes.first_chunk().map(|length| u64::from_le_bytes(*length));
    let safetensors = header.is_some_and(|length| length < bytes.len() as u64) && bytes.get(8) == Some(&b'{');
    known.or(safetensors.then_some("a safetensors file"))
}

/// The file system of this machine.
#[derive(Debug, Default, Clone, Copy)]
pub struct OsHost;

impl Host for OsHost {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        // Asked before opening: opening a pipe without a writer would wait for ever.
        let kind = fs::metadata(path)?;
        if kind.is_dir() {
            return Err(io::Error::new(ErrorKind::IsADirectory, "is a folder, not a file"));
        }
        if !kind.is_file() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "is not a regular file"));
        }
        if kind.len() > FILE_LIMIT {
            return Err(too_large());
        }
        let mut bytes = Vec::with_capacity(kind.len() as usize);
        // The file may grow meanwhile, and some report no length at all.
        fs::File::open(path)?.take(FILE_LIMIT + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > FILE_LIMIT { Err(too_large()) } else { Ok(bytes) }
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn list(&self, folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut names: Vec<_> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort_unstable();
        names
    }
}

fn too_large() -> io::Error {
    io::Error::new(ErrorKind::FileTooLarge, format!("is larger than {} MiB", FILE_LIMIT >> 20))
}

/// Files held in memory, over another host for every path they do not name: tests and unsaved editor buffers.
#[derive(Default)]
pub struct MemoryHost {
    files: BTreeMap<PathBuf, Vec<u8>>,
    below: Option<Box<dyn Host>>,
}

impl MemoryHost {
    /// No files, and nothing below them.
    pub fn new() -> Self {
        Self::default()
    }

    /// No files of its own yet; paths it does not hold are asked of `below`.
    pub fn over(below: impl Host + 'static) -> Self {
        MemoryHost { files: BTreeMap::new(), below: Some(Box::new(below)) }
    }

    /// Adds or replaces a file.
    pub fn insert(&mut self, path: impl AsRef<Path>, bytes: impl Into<Vec<u8>>) {
        self.files.insert(normal(path.as_ref()), bytes.into());
    }

    /// [`MemoryHost::insert`] in a chain.
    pub fn with(mut self, path: impl AsRef<Path>, bytes: impl Into<Vec<u8>>) -> Self {
        self.insert(path, bytes);
        self
    }
}

impl Host for MemoryHost {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        match (self.files.get(&normal(path)), &self.below) {
            (Some(bytes), _) => Ok(bytes.clone()),
            (None, Some(below)) => below.read(path),
            (None, None) => Err(io::Error::new(ErrorKind::NotFound, "no such file")),
        }
    }

    fn exists(&self, path: &Path) -> bool {
        let path = normal(path);
        self.files.keys().any(|file| file.starts_with(&path))
            || self.below.as_ref().is_some_and(|below| below.exists(&path))
    }

    fn list(&self, folder: &Path) -> Vec<String> {
        let folder = normal(folder);
        let own = self.files.keys().filter_map(|file| file.strip_prefix(&folder).ok()?.components().next());
        let own = own.map(|name| name.as_os_str().to_string_lossy().into_owned());
        let below = self.below.as_ref().map_or_else(Vec::new, |below| below.list(&folder));
        let mut names: Vec<_> = own.chain(below).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// `path` without `.` and, where the text allows it, without `..`.
pub fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(out.components().next_back(), Some(Component::Normal(_))) => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_and_missing_files_are_errors() {
        let folder = OsHost.read(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap_err();
        assert_eq!(folder.kind(), ErrorKind::IsADirectory);
        assert_eq!(OsHost.read(Path::new("no/such/file")).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[cfg(unix)]
    #[test]
    fn devices_are_refused() {
        let error = OsHost.read(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn memory_wins_over_what_is_below() {
        let below = MemoryHost::new().with("a.step", "below").with("b.step", "b");
        let host = MemoryHost::over(below).with("./x/../a.step", "above");
        assert_eq!(host.read_text(Path::new("a.step")).unwrap(), "above");
        assert_eq!(host.read_text(Path::new("b.step")).unwrap(), "b");
        assert!(host.exists(Path::new("b.step")) && !host.exists(Path::new("c.step")));
        assert_eq!(host.list(Path::new("")), ["a.step", "b.step"]);
    }

    #[test]
    fn text_must_be_utf8() {
        let host = MemoryHost::new().with("a", [b'a', 0xff]);
        assert_eq!(host.read_text(Path::new("a")).unwrap_err().kind(), ErrorKind::InvalidData);
    }
}

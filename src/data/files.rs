//! The files of a source: which ones match, and how each is written.

use super::config::{Format, SourceConfig};
use super::record::unreadable;
use crate::diag::Diagnostic;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::Xxh3;

/// How the bytes of a file are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    Plain,
    Gzip,
    Zstd,
}

/// How a file is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    Text(Coding),
    Jsonl(Coding),
    Json(Coding),
    Parquet,
    ArrowFile,
    ArrowStream,
}

/// What `datasets` leaves in a folder it has saved.
const SAVED: &str = "state.json";
/// The first bytes that tell a file's kind.
const HEAD: usize = 64;
/// Bytes at either end by which a file is known again.
const END: u64 = 4 << 10;

/// The files that match the pattern, sorted by name; a folder saved by `datasets` stands for its data files.
pub(super) fn matches(config: &SourceConfig) -> Result<Vec<PathBuf>, Diagnostic> {
    let shown = config.glob.display();
    let refuse = |what: String, help: &str| {
        let message = format!("source `{}`: {what}", config.name);
        Err(Diagnostic::error("step::data::no_files", message).help(help))
    };
    let Some(pattern) = config.glob.to_str() else {
        return refuse(format!("the path {shown} is not valid UTF-8"), "rename the files");
    };
    let paths = match glob::glob(pattern) {
        Ok(paths) => paths,
        Err(error) => {
            return refuse(
                format!("the pattern {shown} is wrong: {error}"),
                "patterns know `*`, `?`, `[a-z]` and `**`",
            );
        }
    };
    let mut files = Vec::new();
    for path in paths {
        let path = path.map_err(|error| unreadable(error.path(), error.error()))?;
        if path.is_file() {
            files.push(path);
        } else if path.join(SAVED).is_file() {
            files.extend(saved(&path)?);
        } else if path.join("dataset_dict.json").is_file() {
            return refuse(
                format!("{} holds several splits", path.display()),
                "name one of them, as in `folder/train`",
            );
        }
    }
    files.sort_unstable();
    match files.is_empty() {
        false => Ok(files),
        true if config.glob.is_dir() => {
            refuse(format!("{shown} is a folder"), "name the files in it, as in `folder/*.jsonl`")
        }
        true => refuse(
            format!("no file matches {shown}"),
            "a path is relative to the recipe that writes it; correct it, or download the data first",
        ),
    }
}

/// The data files of a folder that `datasets` has saved, by its own list.
fn saved(folder: &Path) -> Result<Vec<PathBuf>, Diagnostic> {
    let state = folder.join(SAVED);
    let bytes = std::fs::read(&state).map_err(|error| unreadable(&state, &error))?;
    let state: serde_json::Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let names = state["_data_files"].as_array().into_iter().flatten();
    Ok(names.filter_map(|file| file["filename"].as_str()).map(|name| folder.join(name)).collect())
}

/// How `path` is written; `None` for a file of no bytes.
pub(super) fn written(path: &Path, format: Format) -> Result<Option<Written>, Diagnostic> {
    let head = head(path).map_err(|error| unreadable(path, &error))?;
    if head.is_empty() {
        return Ok(None);
    }
    if head.starts_with(b"version https://git-lfs") {
        let message = format!("{} is a Git LFS pointer, not the data", path.display());
        return Err(Diagnostic::error("step::data::format", message).help("run `git lfs pull` in its folder"));
    }
    let coding = match head[..] {
        [0x1f, 0x8b, ..] => Coding::Gzip,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Coding::Zstd,
        _ => Coding::Plain,
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let name = name.trim_end_matches(".gz").trim_end_matches(".zst");
    let format = match (format, name.rsplit_once('.').map_or("", |(_, end)| end)) {
        (Format::Auto, "txt" | "text" | "md") => Format::Text,
        (Format::Auto, "jsonl" | "ndjson") => Format::Jsonl,
        (Format::Auto, "json") => Format::Json,
        (Format::Auto, "parquet" | "pq") => Format::Parquet,
        (Format::Auto, "arrow" | "feather") => Format::Arrow,
        (Format::Auto, _) if head.starts_with(b"PAR1") => Format::Parquet,
        (Format::Auto, _) if head.starts_with(b"ARROW1") => Format::Arrow,
        (Format::Auto, _) => {
            let message = format!("{}: neither name nor content say what the file holds", path.display());
            return Err(Diagnostic::error("step::data::format", message)
                .help("write `format = text`, `jsonl`, `json`, `parquet` or `arrow` in the source"));
        }
        (given, _) => given,
    };
    let begins = |magic: &[u8], written| match head.starts_with(magic) {
        true => Ok(Some(written)),
        false => {
            let message = format!("{} does not begin as such a file does", path.display());
            Err(Diagnostic::error("step::data::format", message)
                .help("the download is not complete or is an error page; or set `format`"))
        }
    };
    match format {
        Format::Parquet => begins(b"PAR1", Written::Parquet),
        Format::Arrow if head.starts_with(b"ARROW1") => Ok(Some(Written::ArrowFile)),
        Format::Arrow => begins(&[0xff; 4], Written::ArrowStream),
        Format::Jsonl => Ok(Some(Written::Jsonl(coding))),
        // Many a `.json` holds an object a line.
        Format::Json => {
            let first = first_byte(path, coding).map_err(|error| unreadable(path, &error))?;
            Ok(Some(if first == Some(b'[') { Written::Json(coding) } else { Written::Jsonl(coding) }))
        }
        Format::Text | Format::Auto => Ok(Some(Written::Text(coding))),
    }
}

/// What a file of `size` bytes is known by, wherever it lies and whatever its name: the size and both its ends.
pub(super) fn identity(path: &Path, size: u64) -> io::Result<u64> {
    let (mut file, mut hash, mut ends) = (File::open(path)?, Xxh3::new(), Vec::new());
    file.by_ref().take(END).read_to_end(&mut ends)?;
    file.seek(SeekFrom::Start(size.saturating_sub(END)))?;
    file.take(END).read_to_end(&mut ends)?;
    hash.update(&size.to_le_bytes());
    hash.update(&ends);
    Ok(hash.digest())
}

fn head(path: &Path) -> io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(HEAD);
    File::open(path)?.take(HEAD as u64).read_to_end(&mut head)?;
    Ok(head)
}

/// The first byte that is no white space.
fn first_byte(path: &Path, coding: Coding) -> io::Result<Option<u8>> {
    let mut head = Vec::with_capacity(HEAD);
    decoded(path, coding)?.take(HEAD as u64).read_to_end(&mut head)?;
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&head);
    Ok(head.iter().copied().find(|byte| !byte.is_ascii_whitespace()))
}

/// The bytes of a file, unpacked.
pub(super) fn decoded(path: &Path, coding: Coding) -> io::Result<Box<dyn Read + Send>> {
    let file = File::open(path)?;
    Ok(match coding {
        Coding::Plain => Box::new(file),
        Coding::Gzip => {
            Box::new(flate2::read::MultiGzDecoder::new(io::BufReader::with_capacity(1 << 16, file)))
        }
        Coding::Zstd => Box::new(zstd::Decoder::new(file)?),
    })
}

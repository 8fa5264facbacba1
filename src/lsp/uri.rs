//! URIs and paths.

use lsp_types::Uri;
use std::path::{Path, PathBuf};

/// The scheme of the files that are inside the program: `step-library:/models/step35.step`.
pub const LIBRARY: &str = "step-library";

/// How the sources call a file of the library.
pub const EMBEDDED: &str = "<library>/";

/// The path that a `file` URI names, without `.` and `..`; `None` for any other scheme or another machine.
pub fn to_path(uri: &Uri) -> Option<PathBuf> {
    let (scheme, rest) = uri.0.split_once(':')?;
    if !scheme.eq_ignore_ascii_case("file") {
        return None;
    }
    let path = match rest.strip_prefix("//") {
        Some(rest) => {
            let slash = rest.find('/')?;
            let host = &rest[..slash];
            (host.is_empty() || host.eq_ignore_ascii_case("localhost")).then_some(&rest[slash..])?
        }
        None => rest.starts_with('/').then_some(rest)?,
    };
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let bytes = decode(path);
    #[cfg(unix)]
    let path = PathBuf::from(<std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(bytes));
    #[cfg(not(unix))]
    let path = PathBuf::from(String::from_utf8(bytes).ok()?.trim_start_matches('/'));
    Some(crate::base::host::normal(&path))
}

/// The URI of a file on disk.
pub fn from_path(path: &Path) -> Uri {
    let text = encode(path);
    Uri(format!("file://{}{text}", if text.starts_with('/') { "" } else { "/" }))
}

/// The URI of a file that is part of the program: of the library, or `errors/CODE.md`.
pub fn from_library(inside: &str) -> Uri {
    Uri(format!("{LIBRARY}:/{inside}"))
}

/// Where inside the library the sources' `path` is; `None` for a file on disk.
pub fn embedded(path: &Path) -> Option<&str> {
    path.to_str()?.strip_prefix(EMBEDDED)
}

/// The path inside the library that a URI names.
pub fn to_library(uri: &Uri) -> Option<String> {
    let inside = uri.0.strip_prefix(LIBRARY)?.strip_prefix(':')?;
    String::from_utf8(decode(inside.trim_start_matches('/'))).ok()
}

fn decode(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let hex = |at: usize| bytes.get(at).and_then(|byte| (*byte as char).to_digit(16));
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match (bytes[at], hex(at + 1), hex(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high << 4 | low) as u8);
                at += 3;
            }
            (byte, ..) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    out
}

fn encode(path: &Path) -> String {
    let mut out = String::new();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                out.push(*byte as char)
            }
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

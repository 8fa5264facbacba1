//! The header of a safetensors file: 8 bytes of length, a JSON object that names the tensors, then their
//! data.
//!
//! Format: <https://github.com/huggingface/safetensors#format>. Everything the header claims is checked
//! against the size of the file, so that later reads stay inside it.

use crate::base::DType;
use crate::diag::Diagnostic;
use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The longest header the format allows.
const LONGEST: u64 = 100_000_000;

/// How the elements of a stored tensor are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// A type this program reads and writes.
    Known(DType),
    /// E4M3 without infinities, with a scale a block: see [`float8`](super::float8).
    Float8,
    /// 4-bit floats, with a scale a group in a tensor of its own: see the module `mxfp4`.
    Mxfp4,
    /// Another type of the format: its name and the bytes of an element.
    Other(&'static str, u64),
}

impl Encoding {
    /// The name in the file.
    pub fn word(self) -> &'static str {
        match self {
            Encoding::Known(DType::F32) => "F32",
            Encoding::Known(DType::Bf16) => "BF16",
            Encoding::Known(DType::F16) => "F16",
            Encoding::Known(DType::I32) => "I32",
            Encoding::Float8 => "F8_E4M3",
            Encoding::Mxfp4 => "MXFP4",
            Encoding::Other(word, _) => word,
        }
    }

    /// Bytes of one element; of two of 4 bits.
    pub fn size(self) -> u64 {
        match self {
            Encoding::Known(dtype) => dtype.size(),
            Encoding::Float8 | Encoding::Mxfp4 => 1,
            Encoding::Other(_, size) => size,
        }
    }

    fn parse(word: &str) -> Option<Self> {
        const ALL: [Encoding; 17] = [
            Encoding::Known(DType::F32),
            Encoding::Known(DType::Bf16),
            Encoding::Known(DType::F16),
            Encoding::Known(DType::I32),
            Encoding::Other("BOOL", 1),
            Encoding::Other("U8", 1),
            Encoding::Other("I8", 1),
            Encoding::Float8,
            Encoding::Other("F8_E5M2", 1),
            Encoding::Other("I16", 2),
            Encoding::Other("U16", 2),
            Encoding::Other("U32", 4),
            Encoding::Other("I64", 8),
            Encoding::Other("U64", 8),
            Encoding::Other("F64", 8),
            Encoding::Other("C64", 8),
            Encoding::Other("F8_E8M0", 1),
        ];
        ALL.into_iter().find(|encoding| encoding.word() == word)
    }
}

/// One tensor of a file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub name: String,
    pub encoding: Encoding,
    pub shape: Vec<u64>,
    /// Bytes of the file.
    pub range: Range<u64>,
}

/// Reads the header of `file` and checks it; the entries come in the order of their data.
pub(super) fn read(path: &Path, file: &File) -> Result<Vec<Entry>, Diagnostic> {
    let refuse = |what: String, help: &str| {
        Diagnostic::error("step::weights::file", format!("{}: {what}", path.display())).help(help)
    };
    const AGAIN: &str = "the file is incomplete or damaged: download it again";
    let failed = |error: std::io::Error| refuse(format!("cannot be read: {error}"), AGAIN);

    let size = file.metadata().map_err(failed)?.len();
    let mut start = [0; 48];
    let known = start.len().min(size as usize);
    file.read_exact_at(&mut start[..known], 0).map_err(failed)?;
    if let Some((what, help)) = other_format(&start[..known]) {
        return Err(refuse(format!("this is {what}, not a safetensors file"), help));
    }
    let Some(length) = start[..known].first_chunk().map(|bytes| u64::from_le_bytes(*bytes)) else {
        return Err(refuse(format!("{size} bytes are too few for a safetensors file"), AGAIN));
    };
    if length > LONGEST || length > size - 8 {
        let what = format!("the header claims {length} bytes in a file of {size}");
        return Err(refuse(what, "this is not a safetensors file, or only the beginning of one"));
    }
    let mut text = vec![0; length as usize];
    file.read_exact_at(&mut text, 8).map_err(failed)?;
    let Listing(listed) = serde_json::from_slice(&text)
        .map_err(|error| refuse(format!("the header is not what the format asks for: {error}"), AGAIN))?;

    let data = 8 + length;
    let mut entries = Vec::with_capacity(listed.len());
    for (name, tensor) in listed {
        let refuse = |what: String| refuse(format!("tensor `{name}`: {what}"), AGAIN);
        let encoding = Encoding::parse(&tensor.dtype)
            .ok_or_else(|| refuse(format!("unknown element type `{}`", tensor.dtype)))?;
        let [begin, end] = tensor.data_offsets;
        let elements = tensor.shape.iter().try_fold(1u64, |product, &size| product.checked_mul(size));
        let bytes = elements.and_then(|elements| elements.checked_mul(encoding.size()));
        let range = data.checked_add(begin).zip(data.checked_add(end)).map(|(begin, end)| begin..end);
        let (Some(range), true) = (range, bytes.is_some() && end.checked_sub(begin) == bytes) else {
            let (shape, word) = (&tensor.shape, encoding.word());
            return Err(refuse(format!(
                "bytes {begin}..{end} do not hold a {word} tensor of shape {shape:?}"
            )));
        };
        entries.push(Entry { name, encoding, shape: tensor.shape, range });
    }

    let held = size - data;
    let last = entries.iter().map(|entry| entry.range.end).max().unwrap_or(data);
    if let Some(cut) =
        entries.iter().filter(|entry| entry.range.end > size).min_by_key(|entry| entry.range.start)
    {
        let (name, end) = (&cut.name, cut.range.end - data);
        let what = format!(
            "tensor `{name}`: its data ends at byte {end}, the file holds {held} bytes of data: {} bytes of {last} are missing",
            last - size
        );
        return Err(refuse(what, AGAIN));
    }

    let mut names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    names.sort_unstable();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(refuse(format!("tensor `{}` is listed twice", pair[0]), AGAIN));
    }
    entries.sort_by_key(|entry| (entry.range.start, entry.range.end));
    let mut at = data;
    for entry in &entries {
        if entry.range.start != at {
            let kind =
                if entry.range.start < at { "overlaps the one before it" } else { "leaves a hole before it" };
            return Err(refuse(format!("the data of tensor `{}` {kind}", entry.name), AGAIN));
        }
        at = entry.range.end;
    }
    if at != size {
        return Err(refuse(format!("{} bytes follow the data of the last tensor", size - at), AGAIN));
    }
    Ok(entries)
}

/// What a file is that begins like this, when it is one of the usual mistakes, and what to do.
fn other_format(start: &[u8]) -> Option<(&'static str, &'static str)> {
    const CONVERT: &str = "convert the checkpoint to safetensors, for instance with `save_pretrained`";
    const KNOWN: [(&[u8], &str, &str); 7] = [
        (b"version https://git-lfs", "a Git LFS pointer", "run `git lfs pull` in its folder"),
        (b"<!DOCTYPE", "a web page", "the download saved an error page: fetch the file itself"),
        (b"<!doctype", "a web page", "the download saved an error page: fetch the file itself"),
        (b"<html", "a web page", "the download saved an error page: fetch the file itself"),
        (b"PK\x03\x04", "a zip archive such as PyTorch writes", CONVERT),
        (b"\x80\x02", "a Python pickle", CONVERT),
        (b"GGUF", "a GGUF file", CONVERT),
    ];
    // A header of 0x…0280 bytes begins like a pickle: the brace behind the length tells them apart.
    let safetensors = start.get(8) == Some(&b'{');
    KNOWN
        .into_iter()
        .find(|(magic, ..)| start.starts_with(magic) && !safetensors)
        .map(|(_, what, help)| (what, help))
}

/// A tensor as the header writes it.
#[derive(Deserialize)]
struct Listed {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

/// The tensors of a header, duplicates included, without the metadata.
struct Listing(Vec<(String, Listed)>);

impl<'de> Deserialize<'de> for Listing {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Tensors;
        impl<'de> Visitor<'de> for Tensors {
            type Value = Listing;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Listing, A::Error> {
                let mut listed = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    if name == "__metadata__" {
                        map.next_value::<IgnoredAny>()?;
                    } else {
                        listed.push((name, map.next_value()?));
                    }
                }
                Ok(Listing(listed))
            }
        }
        deserializer.deserialize_map(Tensors)
    }
}

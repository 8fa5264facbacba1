//! The files of an exported folder: how tensors are divided over them, what stands beside them, and how all of it gets its
//! name at once.

use super::{Export, Target, unwritable};
use crate::base::DType;
use crate::checkpoint::home::sync;
use crate::data::tokenizer_file;
use crate::diag::Diagnostic;
use crate::weights::Output;
use serde_json::{Map, Value, json};
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// Files beside the weights that belong to a model; besides, its own code and templates.
const BESIDE: &[&str] = &[
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "chat_template.json",
    "preprocessor_config.json",
];
const ENDINGS: &[&str] = &["py", "jinja", "tiktoken"];

/// Divides tensors over files of at most `most` bytes each, in order: the files' names and which tensors they hold.
pub(super) fn shards(outputs: &[&Output], most: u64) -> Vec<(String, Range<usize>)> {
    let mut ends = Vec::new();
    let mut bytes = 0;
    for (at, output) in outputs.iter().enumerate() {
        let size = output.elements() * output.dtype.size();
        if bytes > 0 && bytes + size > most {
            ends.push(at);
            bytes = 0;
        }
        bytes += size;
    }
    ends.push(outputs.len());
    let count = ends.len();
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let ranges = starts.zip(&ends).enumerate().map(|(at, (start, end))| {
        let name = match count {
            1 => SINGLE.to_owned(),
            _ => format!("model-{:05}-of-{count:05}.safetensors", at + 1),
        };
        (name, start..*end)
    });
    ranges.collect()
}

/// Writes which tensor is in which file.
pub(super) fn index(
    folder: &Path,
    shards: &[(String, Range<usize>)],
    outputs: &[&Output],
) -> Result<(), Diagnostic> {
    let total: u64 = outputs.iter().map(|output| output.elements() * output.dtype.size()).sum();
    let places = shards.iter().flat_map(|(file, range)| {
        outputs[range.clone()].iter().map(move |output| (output.name.clone(), json!(file)))
    });
    let map: Map<String, Value> = places.collect();
    let index = json!({ "metadata": { "total_size": total }, "weight_map": map });
    let path = folder.join(INDEX);
    durably(&path, format!("{index:#}\n").as_bytes()).map_err(unwritable(&path))
}

/// Copies what stands beside the weights where training began, or else the tokenizer.
pub(super) fn beside(export: &Export, quantized: bool, folder: &Path) -> Result<Vec<String>, Diagnostic> {
    let mut copied = Vec::new();
    let mut copy = |from: &Path, name: &str| {
        let to = folder.join(name);
        let bytes = fs::read(from).map_err(unwritable(&to))?;
        let bytes = if name == "config.json" { config(bytes, export.dtype, quantized) } else { bytes };
        durably(&to, &bytes).map_err(unwritable(&to))?;
        copied.push(name.to_owned());
        Ok::<_, Diagnostic>(())
    };
    if let Some(source) = export.source.filter(|source| source.is_dir()) {
        let entries = fs::read_dir(source).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        let belongs = |name: &str| {
            let ending = Path::new(name).extension().and_then(|ending| ending.to_str());
            BESIDE.contains(&name) || ending.is_some_and(|ending| ENDINGS.contains(&ending))
        };
        names.retain(|name| belongs(name) && source.join(name).is_file());
        names.iter().try_for_each(|name| copy(&source.join(name), name))?;
    } else if let Some(tokenizer) = export.tokenizer {
        let tokenizer = tokenizer_file(tokenizer);
        if tokenizer.is_file() {
            copy(&tokenizer, "tokenizer.json")?;
        }
    }
    Ok(copied)
}

/// `config.json` with the type that the weights have now, and without a quantization that they no longer have.
fn config(bytes: Vec<u8>, dtype: Option<DType>, quantized: bool) -> Vec<u8> {
    let word = dtype.map(|dtype| match dtype {
        DType::Bf16 => "bfloat16",
        DType::F16 => "float16",
        _ => "float32",
    });
    if word.is_none() && !quantized {
        return bytes;
    }
    let Ok(Value::Object(mut config)) = serde_json::from_slice(&bytes) else { return bytes };
    if let Some(word) = word {
        let types = config.iter_mut().filter(|(key, _)| ["torch_dtype", "dtype"].contains(&key.as_str()));
        types.for_each(|(_, value)| *value = json!(word));
    }
    if quantized {
        config.remove("quantization_config");
    }
    format!("{:#}\n", Value::Object(config)).into_bytes()
}

fn durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    io::Write::write_all(&mut file, bytes)?;
    file.sync_all()
}

/// A folder that is being put together, removed unless it is finished.
pub(super) struct Making<'a> {
    target: Target<'a>,
    path: PathBuf,
}

impl<'a> Making<'a> {
    /// Begins a folder beside its place.
    ///
    /// # Errors
    /// A target that holds something already, a place that cannot be written.
    pub fn begin(target: Target<'a>) -> Result<Making<'a>, Diagnostic> {
        let path = match target {
            Target::Run(folder) => folder.join("export.unfinished"),
            Target::New(folder) => {
                let mut entries = fs::read_dir(folder).into_iter().flatten();
                if folder.is_file() || entries.next().is_some() {
                    let message = format!("{} is there already and holds something", folder.display());
                    return Err(Diagnostic::error("step::output::exists", message)
                        .help("name a folder that does not exist: nothing is ever overwritten"));
                }
                let mut name = folder.file_name().unwrap_or_default().to_owned();
                name.push(format!(".{}.unfinished", std::process::id()));
                folder.with_file_name(name)
            }
        };
        let making = Making { target, path };
        fs::create_dir_all(&making.path).map_err(unwritable(&making.path))?;
        Ok(making)
    }

    /// Where it is put together.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives everything its place: `files` hold the weights, `copied` stand beside them.
    pub fn finish(self, files: &[String], copied: &[String]) -> Result<(), Diagnostic> {
        let finished = match self.target {
            Target::New(folder) => sync(&self.path).and_then(|()| {
                fs::rename(&self.path, folder)?;
                let above = folder.parent().filter(|above| !above.as_os_str().is_empty());
                sync(above.unwrap_or(Path::new(".")))
            }),
            Target::Run(folder) => self.replace(folder, files, copied),
        };
        finished.map_err(unwritable(&self.path))
    }

    /// An index that names files of another export must never stand: it goes first and comes last.
    fn replace(&self, folder: &Path, files: &[String], copied: &[String]) -> io::Result<()> {
        let _ = fs::remove_file(folder.join(INDEX));
        for name in files.iter().chain(copied) {
            fs::rename(self.path.join(name), folder.join(name))?;
        }
        for entry in fs::read_dir(folder)?.flatten() {
            let name = entry.file_name().into_string().unwrap_or_default();
            let weights = name.starts_with("model") && name.ends_with(".safetensors");
            if weights && !files.contains(&name) {
                fs::remove_file(entry.path())?;
            }
        }
        if files.len() > 1 {
            fs::rename(self.path.join(INDEX), folder.join(INDEX))?;
        }
        sync(folder)
    }
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        // After `finish` there is nothing worth keeping under this name.
        let _ = fs::remove_dir_all(&self.path);
    }
}

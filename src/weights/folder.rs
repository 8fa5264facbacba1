//! A checkpoint of Hugging Face: one file, or shards with an index, and where each tensor lies in them.

use super::header::{self, Encoding};
use super::mxfp4;
use crate::base::DType;
use crate::diag::Diagnostic;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// Where a tensor lies.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorInfo {
    /// Its file, as an index into the checkpoint's files.
    pub(super) file: usize,
    pub encoding: Encoding,
    pub shape: Vec<u64>,
    /// Bytes of the file.
    pub range: Range<u64>,
}

/// An audited checkpoint whose tensors can be read, by several threads at once.
#[derive(Debug, Default)]
pub struct Folder {
    pub(super) files: Vec<(PathBuf, File)>,
    tensors: BTreeMap<String, TensorInfo>,
    /// The scales of tensors of 4-bit floats, by the name of the tensor.
    pub(super) scales: BTreeMap<String, TensorInfo>,
}

/// The part of an index that matters.
#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl Folder {
    /// Opens a checkpoint: a folder that holds `model.safetensors`, an index of shards or shards without one
    /// (`model-*.safetensors`), or one file. The headers of all files are read and checked, the data is not.
    ///
    /// # Errors
    /// Missing, truncated and foreign files; an index and files that disagree.
    pub fn open(path: &Path) -> Result<Self, Diagnostic> {
        let mut folder = Folder::default();
        if !path.is_dir() {
            folder.add(path.to_owned())?;
        } else if path.join(INDEX).is_file() {
            folder.add_shards(path)?;
        } else if path.join(SINGLE).is_file() {
            folder.add(path.join(SINGLE))?;
        } else {
            let shards = files(path).into_iter().filter(|name| name.starts_with("model-"));
            let shards: Vec<PathBuf> = shards.map(|name| path.join(name)).collect();
            if shards.is_empty() {
                return Err(no_checkpoint(path));
            }
            shards.into_iter().try_for_each(|shard| folder.add(shard))?;
        }
        folder.join_blocks();
        Ok(folder)
    }

    /// The name of the file that a tensor lies in.
    pub fn file_of(&self, name: &str) -> Option<String> {
        let (path, _) = &self.files[self.tensor(name)?.file];
        path.file_name().map(|file| file.to_string_lossy().into_owned())
    }

    /// Where the tensor of this name lies.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.get(name)
    }

    /// The type that holds a tensor's elements, where they are of one that can be read: floats of 8 and 4 bits with their
    /// scales are bf16.
    pub fn dtype(&self, name: &str) -> Option<DType> {
        match self.tensors.get(name)?.encoding {
            Encoding::Known(dtype) => Some(dtype),
            Encoding::Float8 | Encoding::Mxfp4 => Some(DType::Bf16),
            Encoding::Other(..) => None,
        }
    }

    /// Whether the elements of a tensor are floats of 8 or 4 bits.
    pub fn quantized(&self, name: &str) -> bool {
        self.tensors.get(name).is_some_and(|t| matches!(t.encoding, Encoding::Float8 | Encoding::Mxfp4))
    }

    /// The names of all tensors, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// Bytes of all tensors.
    pub fn bytes(&self) -> u64 {
        self.tensors
            .values()
            .chain(self.scales.values())
            .map(|tensor| tensor.range.end - tensor.range.start)
            .sum()
    }

    /// Adds the tensors of a file.
    fn add(&mut self, path: PathBuf) -> Result<(), Diagnostic> {
        let file = File::open(&path).map_err(|error| {
            Diagnostic::error("step::weights::open", format!("cannot open {}: {error}", path.display())).help(
                "`weights` names a Hugging Face folder or a safetensors file; download the checkpoint first",
            )
        })?;
        for entry in header::read(&path, &file)? {
            let at = self.files.len();
            let info =
                TensorInfo { file: at, encoding: entry.encoding, shape: entry.shape, range: entry.range };
            if let Some(other) = self.tensors.insert(entry.name.clone(), info) {
                let (first, second) = (self.files[other.file].0.display(), path.display());
                let message = format!("tensor `{}` is both in {first} and in {second}", entry.name);
                return Err(Diagnostic::error("step::weights::index", message)
                    .help("remove the files that do not belong to this checkpoint"));
            }
        }
        self.files.push((path, file));
        Ok(())
    }

    /// Makes one tensor of blocks of 4-bit floats and their scales, under the name and of the shape that they had.
    fn join_blocks(&mut self) {
        let names = self.tensors.keys().filter_map(|blocks| mxfp4::name(blocks));
        let names: Vec<String> =
            names.filter(|name| !self.tensors.contains_key(*name)).map(str::to_owned).collect();
        for name in names {
            let [blocks, scales] = [mxfp4::blocks_name(&name), mxfp4::scale_name(&name)];
            let bytes = |name: &str| {
                self.tensors.get(name).filter(|tensor| tensor.encoding == Encoding::Other("U8", 1))
            };
            let shape =
                bytes(&blocks).zip(bytes(&scales)).and_then(|(b, s)| mxfp4::shape(&b.shape, &s.shape));
            let Some(shape) = shape else { continue };
            if let Some((blocks, scales)) = self.tensors.remove(&blocks).zip(self.tensors.remove(&scales)) {
                self.tensors.insert(name.clone(), TensorInfo { encoding: Encoding::Mxfp4, shape, ..blocks });
                self.scales.insert(name, scales);
            }
        }
    }

    /// Adds all shards of an index and holds the two against each other.
    fn add_shards(&mut self, folder: &Path) -> Result<(), Diagnostic> {
        let path = folder.join(INDEX);
        let refuse = |what: String| {
            Diagnostic::error("step::weights::index", format!("{}: {what}", path.display()))
                .help("the index and the shards must be of the same download: fetch the folder again")
        };
        let text = fs::read(&path).map_err(|error| refuse(format!("cannot be read: {error}")))?;
        let Index { weight_map } = serde_json::from_slice(&text)
            .map_err(|error| refuse(format!("not an index of shards: {error}")))?;
        let mut shards = BTreeSet::new();
        for (tensor, shard) in &weight_map {
            let mut parts = Path::new(shard).components();
            if !matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None)) {
                return Err(refuse(format!(
                    "tensor `{tensor}` is said to be in `{shard}`, outside the folder"
                )));
            }
            shards.insert(shard.as_str());
        }
        let missing: Vec<&str> =
            shards.iter().copied().filter(|shard| !folder.join(shard).is_file()).collect();
        if let [first, ..] = missing[..] {
            let (count, all) = (missing.len(), shards.len());
            let problem = refuse(format!("{count} of {all} shards are missing, the first is {first}"));
            return Err(match stale(folder, &weight_map) {
                Some(others) => problem.help(format!(
                    "the index is of another download: {others} other files beside it hold all its tensors; delete the \
                     index, the files are then read without it"
                )),
                None => problem,
            });
        }
        for shard in shards {
            self.add(folder.join(shard))?;
        }
        let in_file = |tensor: &str, shard: &str| {
            self.tensors.get(tensor).is_some_and(|info| self.files[info.file].0 == folder.join(shard))
        };
        if let Some((tensor, shard)) = weight_map.iter().find(|(tensor, shard)| !in_file(tensor, shard)) {
            return Err(refuse(format!("tensor `{tensor}` is not in {shard}")));
        }
        if let Some((tensor, info)) =
            self.tensors.iter().find(|(tensor, _)| !weight_map.contains_key(*tensor))
        {
            let shard = self.files[info.file].0.display();
            return Err(refuse(format!("tensor `{tensor}` of {shard} is not listed")));
        }
        Ok(())
    }
}

/// The names of the safetensors files in a folder, sorted.
fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".safetensors")).collect();
    names.sort_unstable();
    names
}

/// How many files beside an index hold all its tensors although it does not name them.
fn stale(folder: &Path, listed: &BTreeMap<String, String>) -> Option<usize> {
    let named: BTreeSet<&String> = listed.values().collect();
    let others: Vec<String> = files(folder).into_iter().filter(|name| !named.contains(name)).collect();
    let mut held = Folder::default();
    others.iter().try_for_each(|name| held.add(folder.join(name))).ok()?;
    listed.keys().all(|name| held.tensor(name).is_some()).then_some(others.len())
}

/// What a folder holds instead of a checkpoint, and what to do.
fn no_checkpoint(path: &Path) -> Diagnostic {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    let ends = |end: &str| names.iter().find(|name| name.ends_with(end));
    let help = if let Some(name) = ends(".safetensors") {
        format!("it holds {name}: name that file, or add `{INDEX}`")
    } else if let Some(name) = ends(".bin").or_else(|| ends(".pt")).or_else(|| ends(".pth")) {
        format!("it holds {name}: convert the checkpoint to safetensors, for instance with `save_pretrained`")
    } else {
        "name the folder of a Hugging Face model, and download it first".to_owned()
    };
    let message = format!("{} holds neither `{SINGLE}` nor `{INDEX}`", path.display());
    Diagnostic::error("step::weights::open", message).help(help)
}

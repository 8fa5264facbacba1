//! Writes parameters as a Hugging Face folder: the tensors, names and types of the checkpoint that the recipe describes.
//!
//! The folder is put together under another name, read again and compared with what it was made from, and only then given
//! its name.

mod files;

use crate::base::DType;
use crate::diag::Diagnostic;
use crate::model::{Copied, ParamId, Parameter, Part};
use crate::weights::{self, Folder, Output};
use half::{bf16, f16};
use indexmap::IndexMap;
use std::collections::HashSet;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Elements that pass through memory at a time.
const CHUNK: u64 = 1 << 18;

/// Parameters by their elements.
pub trait Elements {
    /// Whether it has elements of a parameter.
    fn holds(&self, param: ParamId) -> bool;

    /// Reads `elements` of a flattened parameter into `out`.
    ///
    /// # Errors
    /// What keeps them from being read.
    fn elements(&self, param: ParamId, elements: Range<u64>, out: &mut [f32]) -> Result<(), Diagnostic>;
}

/// What is exported, and how.
pub struct Export<'a> {
    pub params: &'a [Parameter],
    /// Copies of parameters that the source may have.
    pub copies: &'a [Copied],
    pub elements: &'a dyn Elements,
    /// The Hugging Face folder that training began from: types are taken from it, and so are tensors that were not trained
    /// and the files beside the weights.
    pub source: Option<&'a Path>,
    /// The tokenizer, for a model that began from scratch.
    pub tokenizer: Option<&'a Path>,
    /// The type of all trained tensors; their own without it.
    pub dtype: Option<DType>,
    /// Bytes of a file at most; a tensor larger than that has one of its own.
    pub shard: u64,
}

/// Where it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target<'a> {
    /// A folder that does not exist or is empty.
    New(&'a Path),
    /// The folder of a run, in which the weights of an earlier export are replaced.
    Run(&'a Path),
}

/// What has been written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    pub tensors: usize,
    pub bytes: u64,
    /// The weights' files, by name.
    pub files: Vec<String>,
    /// Tensors that were not trained and come from where training began, and those of multi-token prediction that are left
    /// out: dropped, or not trained from scratch.
    pub kept: usize,
    pub left_out: usize,
    /// Tensors that were floats of 8 or 4 bits where training began and no longer are.
    pub widened: usize,
    /// Other files copied from there.
    pub copied: Vec<String>,
}

/// One tensor of the folder and where its elements come from.
struct Tensor {
    output: Output,
    from: From,
}

enum From {
    /// Parameters that share the tensor, each with those of its elements that lie in it.
    Trained(Vec<(ParamId, Range<u64>)>),
    Source,
}

/// Writes, reads again, compares, and gives the folder its name.
///
/// # Errors
/// A target that holds something, a source that cannot be read, a failed write, a tensor that is not the same when it is read
/// again. Nothing is left behind then.
pub fn export(export: &Export, target: Target) -> Result<Exported, Diagnostic> {
    let source = export.source.map(Folder::open).transpose()?;
    let (tensors, left_out) = tensors(export, source.as_ref())?;
    let making = files::Making::begin(target)?;
    let outputs: Vec<&Output> = tensors.iter().map(|tensor| &tensor.output).collect();
    let shards = files::shards(&outputs, export.shard);
    for (name, range) in &shards {
        let outputs: Vec<Output> = tensors[range.clone()].iter().map(|t| t.output.clone()).collect();
        let mut next = tensors[range.clone()].iter();
        weights::write(&making.path().join(name), &outputs, |output, writer| {
            let tensor = next.next().ok_or_else(|| io::Error::other("more tensors than were listed"))?;
            chunks(output.elements(), tensor.at_once(export), |elements, chunk| {
                tensor.read(export, source.as_ref(), elements, chunk).map_err(failed)?;
                writer.write(chunk)
            })
        })?;
    }
    if let [_, _, ..] = shards[..] {
        files::index(making.path(), &shards, &outputs)?;
    }
    let quantized = |tensor: &&Tensor| source.as_ref().is_some_and(|s| s.quantized(&tensor.output.name));
    let widened = tensors.iter().filter(quantized).count();
    let copied = files::beside(export, widened > 0, making.path())?;
    same(export, source.as_ref(), &tensors, making.path())?;
    let files: Vec<String> = shards.into_iter().map(|(name, _)| name).collect();
    making.finish(&files, &copied)?;
    Ok(Exported {
        tensors: tensors.len(),
        bytes: tensors.iter().map(|t| t.output.elements() * t.output.dtype.size()).sum(),
        left_out,
        widened,
        kept: tensors.iter().filter(|tensor| matches!(tensor.from, From::Source)).count(),
        files,
        copied,
    })
}

/// Every tensor of the folder: the trained ones, and those of the source that no training touches; and how many there are
/// nowhere.
fn tensors(export: &Export, source: Option<&Folder>) -> Result<(Vec<Tensor>, usize), Diagnostic> {
    let mut tensors: IndexMap<String, Tensor> = IndexMap::new();
    let (mut missing, mut dropped) = (0, HashSet::new());
    for (param, parameter) in (0..).map(ParamId).zip(export.params) {
        let trained = export.elements.holds(param);
        if parameter.part == Part::Dropped {
            dropped.extend(parameter.tensors().map(|tensor| tensor.name));
            continue;
        }
        for tensor in parameter.tensors() {
            let part = (param, tensor.elements);
            if let Some(Tensor { from: From::Trained(parts), .. }) = tensors.get_mut(&tensor.name) {
                parts.push(part);
                continue;
            }
            let own = source.and_then(|source| source.dtype(&tensor.name)).unwrap_or(tensor.dtype);
            // What the optimizer never touches keeps its type: a rounded bias would choose other experts.
            let dtype = export.dtype.filter(|_| parameter.trainable).unwrap_or(own);
            let from = match (trained, source) {
                (true, _) => From::Trained(vec![part]),
                (false, Some(source)) if source.tensor(&tensor.name).is_some() => From::Source,
                _ => {
                    missing += 1;
                    continue;
                }
            };
            let output = Output { name: tensor.name.clone(), dtype, shape: tensor.shape };
            tensors.insert(tensor.name, Tensor { output, from });
        }
    }
    if missing > 0 && source.is_some() {
        let message =
            format!("{missing} tensors of the model are neither trained nor in the folder it began from");
        return Err(Diagnostic::error("step::export::lost", message)
            .help("restore the folder that `model.weights` names"));
    }
    let left_out = missing + dropped.len();
    if let Some(source) = source {
        for copied in export.copies.iter().filter(|copied| source.tensor(&copied.name).is_some()) {
            match copied.part {
                Part::Kept => {}
                Part::Dropped => drop(dropped.insert(copied.name.clone())),
                Part::Embedding | Part::Body | Part::Experts | Part::Head => {
                    tensors.insert(copied.name.clone(), copy(copied, &tensors)?);
                }
            }
        }
        let gone: HashSet<String> =
            tensors.keys().chain(&dropped).map(|name| weights::scale_name(name)).collect();
        let left =
            |name: &&str| !tensors.contains_key(*name) && !dropped.contains(*name) && !gone.contains(*name);
        for name in source.names().filter(left).collect::<Vec<_>>() {
            let Some((info, dtype)) = source.tensor(name).zip(source.dtype(name)) else {
                let message = format!("`{name}` of the folder that training began from would be lost");
                return Err(Diagnostic::error("step::export::lost", message)
                    .help("no parameter is made of this tensor, and its type is not one that is written"));
            };
            let output = Output { name: name.to_owned(), dtype, shape: info.shape.clone() };
            tensors.insert(name.to_owned(), Tensor { output, from: From::Source });
        }
    }
    Ok((tensors.into_values().collect(), left_out))
}

/// What a copy of a trained parameter holds.
fn copy(copied: &Copied, tensors: &IndexMap<String, Tensor>) -> Result<Tensor, Diagnostic> {
    match tensors.get(&copied.of) {
        Some(Tensor { output, from: From::Trained(parts) }) => Ok(Tensor {
            output: Output { name: copied.name.clone(), ..output.clone() },
            from: From::Trained(parts.clone()),
        }),
        _ => {
            let message = format!("`{}` is a copy of `{}`, which is not there", copied.name, copied.of);
            Err(Diagnostic::error("step::export::lost", message)
                .help("correct the `names` of the recipe's model"))
        }
    }
}

impl Tensor {
    /// Whether its elements lie in another order than those of a parameter.
    fn shared(&self, export: &Export) -> bool {
        let From::Trained(parts) = &self.from else { return false };
        parts.iter().any(|(param, _)| export.params[param.0 as usize].slice.is_some())
    }

    /// Elements at a time: of those that do not lie as in a parameter a whole matrix, of stacked experts one.
    fn at_once(&self, export: &Export) -> u64 {
        match (self.shared(export), &self.output.shape[..]) {
            (false, _) => CHUNK,
            (true, [_, rows, columns]) => rows * columns,
            (true, _) => self.output.elements(),
        }
    }

    /// Elements as they are before they are rounded to the type of the tensor.
    fn read(
        &self,
        export: &Export,
        source: Option<&Folder>,
        elements: Range<u64>,
        out: &mut [f32],
    ) -> Result<(), Diagnostic> {
        match (&self.from, source) {
            (From::Trained(parts), _) => match (&parts[..], self.shared(export)) {
                ([(param, part)], false) => {
                    let elements = part.start + elements.start..part.start + elements.end;
                    export.elements.elements(*param, elements, out)
                }
                (parts, _) => parts.iter().try_for_each(|(param, part)| {
                    // As many of the parameter's elements lie in every block, the whole tensor or an expert of it.
                    let blocks = self.output.elements() / (elements.end - elements.start);
                    let (block, each) =
                        (elements.start * blocks / self.output.elements(), (part.end - part.start) / blocks);
                    let first = part.start + block * each;
                    let mut values = vec![0.0; each as usize];
                    export.elements.elements(*param, first..first + each, &mut values)?;
                    let lines = export.params[param.0 as usize].lines(first..first + each);
                    let pairs = lines.flat_map(|(_, line)| line.pairs());
                    let [start, first] = [elements.start, first].map(|at| at as usize);
                    pairs.for_each(|(at, own)| out[at - start] = values[own - first]);
                    Ok(())
                }),
            },
            (From::Source, Some(source)) => {
                source.read_elements(&self.output.name, elements, out).map(|_| ())
            }
            (From::Source, None) => Ok(()),
        }
    }
}

/// Reads the folder again: the same tensors of the same shape and type, and every element what it should be.
fn same(export: &Export, source: Option<&Folder>, tensors: &[Tensor], path: &Path) -> Result<(), Diagnostic> {
    let differs = |what: String| {
        let message = format!("read again, the exported {what}");
        Diagnostic::error("step::export::differs", message)
            .help("the disk does not give back what was written to it: check it, and export again")
    };
    let written = Folder::open(path)?;
    let expected: HashSet<&str> = tensors.iter().map(|tensor| tensor.output.name.as_str()).collect();
    if !written.names().collect::<HashSet<_>>().eq(&expected) {
        return Err(differs("folder has other tensors".into()));
    }
    let mut again = Vec::new();
    for tensor in tensors {
        let output = &tensor.output;
        let shape = written.tensor(&output.name).map(|info| &info.shape);
        if shape != Some(&output.shape) || written.dtype(&output.name) != Some(output.dtype) {
            return Err(differs(format!("tensor `{}` has another shape or type", output.name)));
        }
        let at_once = tensor.at_once(export);
        again.resize(again.len().max(at_once.min(output.elements()) as usize), 0.0);
        let compared = chunks(output.elements(), at_once, |elements, chunk| {
            let again = &mut again[..chunk.len()];
            tensor.read(export, source, elements.clone(), chunk).map_err(failed)?;
            written.read_elements(&output.name, elements, again).map_err(failed)?;
            let equal = chunk.iter().zip(&*again).all(|(a, b)| rounded(*a, output.dtype) == b.to_bits());
            if equal { Ok(()) } else { Err(io::Error::other("differs")) }
        });
        compared.map_err(|error| differs(format!("tensor `{}` differs: {error}", output.name)))?;
    }
    Ok(())
}

/// The bits of a number that has gone through a type.
fn rounded(value: f32, dtype: DType) -> u32 {
    match dtype {
        DType::Bf16 => bf16::from_f32(value).to_f32().to_bits(),
        DType::F16 => f16::from_f32(value).to_f32().to_bits(),
        _ => value.to_bits(),
    }
}

/// Calls `each` with ranges of `at_once` elements that make up `0..elements` and room for each of them.
fn chunks(
    elements: u64,
    at_once: u64,
    mut each: impl FnMut(Range<u64>, &mut [f32]) -> io::Result<()>,
) -> io::Result<()> {
    let mut chunk = vec![0.0; at_once.min(elements) as usize];
    let mut start = 0;
    while start < elements {
        let end = elements.min(start + at_once);
        each(start..end, &mut chunk[..(end - start) as usize])?;
        start = end;
    }
    Ok(())
}

fn failed(problem: Diagnostic) -> io::Error {
    io::Error::other(problem.message)
}

/// A problem of the folder that is written.
fn unwritable(path: &Path) -> impl Fn(io::Error) -> Diagnostic {
    let path: PathBuf = path.to_owned();
    move |error| {
        let message = format!("cannot write {}: {error}", path.display());
        Diagnostic::error("step::weights::write", message)
            .help("the folder must exist, be writable and have room for the files")
    }
}

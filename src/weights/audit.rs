//! What a model needs against what a checkpoint holds: nothing may be missing and nothing left over unnoticed.

use super::float8;
use super::folder::Folder;
use super::group::{Group, grouped};
use super::header::Encoding;
use crate::base::DType;
use crate::diag::Diagnostic;
use crate::diag::suggest::nearest;
use glob::Pattern;
use std::collections::BTreeSet;

/// Groups of names listed in a message before it only counts.
const LISTED: usize = 5;

/// What a model asks of a checkpoint.
#[derive(Debug, Default)]
pub struct Needs {
    /// Tensors that must be there: name, shape, and whether its numbers must not have been rounded to 16 bits.
    pub tensors: Vec<(String, Vec<u64>, bool)>,
    /// Tensors that may be there and belong to the model, unless they are ignored.
    pub kept: Vec<String>,
    /// Patterns of names that are left alone, and why.
    pub ignored: Vec<(String, String)>,
}

/// What was found beside the tensors that are needed.
#[derive(Debug, Default, PartialEq)]
pub struct Audit {
    /// Names of [`Needs::kept`] that are there, with their scales.
    pub kept: Vec<String>,
    /// For each pattern: how many tensors it leaves alone, and why.
    pub ignored: Vec<(usize, String)>,
    pub warnings: Vec<Diagnostic>,
}

impl Folder {
    /// Holds the headers against what is needed: every tensor that is needed is here, has its shape and can be read, and
    /// every tensor here is needed, kept or ignored.
    ///
    /// # Errors
    /// All problems in one diagnostic: the code is that of the first kind found, in the order missing, shape, element
    /// type, left over.
    pub fn audit(&self, needs: &Needs) -> Result<Audit, Diagnostic> {
        let mut found = Found::default();
        let mut used = BTreeSet::new();
        for (name, shape, exact) in &needs.tensors {
            if used.insert(name.as_str()) {
                found.hold(self, name, shape, *exact);
            }
        }
        let kept: BTreeSet<&str> = needs.kept.iter().map(String::as_str).collect();
        let scales = |names: &BTreeSet<&str>| -> BTreeSet<String> {
            let float8 = |name: &&&str| self.tensor(name).is_some_and(|t| t.encoding == Encoding::Float8);
            names.iter().filter(float8).map(|name| float8::scale_name(name)).collect()
        };
        let (own_scales, kept_scales) = (scales(&used), scales(&kept));
        let patterns: Vec<Option<Pattern>> =
            needs.ignored.iter().map(|(pattern, _)| Pattern::new(&bare(pattern)).ok()).collect();
        let mut audit = Audit::default();
        let mut ignored = vec![0; patterns.len()];
        for name in self.names() {
            if used.contains(name) || own_scales.contains(name) {
                continue;
            }
            let matches = |p: &Option<Pattern>| p.as_ref().is_some_and(|p| p.matches(name));
            match patterns.iter().position(matches) {
                Some(at) => ignored[at] += 1,
                None if kept.contains(name) || kept_scales.contains(name) => audit.kept.push(name.to_owned()),
                None => found.unused.push(name.to_owned()),
            }
        }
        found.error(self)?;
        let counts = ignored.into_iter().zip(&needs.ignored).filter(|(count, _)| *count > 0);
        audit.ignored = counts.map(|(count, (_, reason))| (count, reason.clone())).collect();
        audit.warnings =
            found.rounded.first().map(|name| rounded(name, found.rounded.len())).into_iter().collect();
        Ok(audit)
    }
}

/// Brackets are common in no name and would be sets of characters: only `*` and `?` stand for others.
fn bare(pattern: &str) -> String {
    pattern.replace('[', "[[]")
}

#[derive(Default)]
struct Found {
    missing: Vec<String>,
    /// Names of another shape, and both shapes.
    shapes: Vec<(String, Vec<u64>, Vec<u64>)>,
    types: Vec<String>,
    unused: Vec<String>,
    rounded: Vec<String>,
}

impl Found {
    /// Holds one tensor against what is needed.
    fn hold(&mut self, folder: &Folder, name: &str, shape: &[u64], exact: bool) {
        let Some(tensor) = folder.tensor(name) else {
            self.missing.push(name.to_owned());
            return;
        };
        // A row may be kept as a matrix of one row.
        let row = |shape: &[u64]| shape.iter().position(|n| *n != 1).unwrap_or(shape.len());
        if tensor.shape[row(&tensor.shape)..] != shape[row(shape)..] {
            self.shapes.push((name.to_owned(), tensor.shape.clone(), shape.to_vec()));
            return;
        }
        match tensor.encoding {
            Encoding::Known(DType::Bf16 | DType::F16) if exact => self.rounded.push(name.to_owned()),
            Encoding::Known(DType::F32 | DType::Bf16 | DType::F16) | Encoding::Mxfp4 => {}
            Encoding::Float8 => self.hold_scale(folder, name, shape),
            Encoding::Known(_) | Encoding::Other(..) => self.types.push(name.to_owned()),
        }
    }

    /// The scales of a tensor of 8-bit floats.
    fn hold_scale(&mut self, folder: &Folder, name: &str, shape: &[u64]) {
        let scale = float8::scale_name(name);
        let Some(wanted) = float8::scale_shape(shape) else {
            self.types.push(name.to_owned());
            return;
        };
        match folder.tensor(&scale) {
            None => self.missing.push(scale),
            Some(tensor) if tensor.shape != wanted => self.shapes.push((scale, tensor.shape.clone(), wanted)),
            Some(tensor) if tensor.encoding != Encoding::Known(DType::F32) => self.types.push(scale),
            Some(_) => {}
        }
    }

    fn error(&self, folder: &Folder) -> Result<(), Diagnostic> {
        let unused = grouped(&self.unused);
        let place = |name: &str| folder.file_of(name).unwrap_or_default();
        let missing = |group: &Group| {
            let similar = nearest(&group.pattern, unused.iter().map(|group| group.pattern.as_str()));
            similar.map_or_else(String::new, |similar| format!(" (similar: `{similar}`)"))
        };
        let shape = |group: &Group| {
            let (name, own, wanted) = &self.shapes[group.first];
            format!(" is {own:?} in {}, the model needs {wanted:?}", place(name))
        };
        let encoding = |group: &Group| {
            let name = &self.types[group.first];
            let word = folder.tensor(name).map_or("", |tensor| tensor.encoding.word());
            format!(" is {word} in {}", place(name))
        };
        let left = |group: &Group| format!(" in {}", place(&self.unused[group.first]));
        let byte = |(name, ..): &(String, Vec<u64>, Vec<u64>)| {
            folder.tensor(name).is_some_and(|tensor| matches!(tensor.encoding, Encoding::Other(_, 1)))
        };
        let bytes = self.shapes.iter().all(byte);
        let names: Vec<String> = self.shapes.iter().map(|(name, ..)| name.clone()).collect();
        let kinds = [
            (
                "step::weights::missing",
                "missing from the checkpoint",
                list(&self.missing, missing),
                missing_help(&self.missing, &self.unused),
            ),
            (
                "step::weights::shape",
                "of another shape",
                list(&names, shape),
                shape_help(&self.shapes, bytes),
            ),
            (
                "step::weights::dtype",
                "of a type that is not read",
                list(&self.types, encoding),
                "convert the checkpoint to f32, bf16 or f16",
            ),
            (
                "step::weights::unused",
                "used by nothing in the model",
                list(&self.unused, left),
                "the model lacks a part that the checkpoint has, `names` does not name it, or it is to be left alone: \
                 `names { ignore NAME { tensors = \"…*\", reason = \"…\" } }`",
            ),
        ];
        let found: Vec<_> = kinds
            .iter()
            .filter_map(|(code, what, list, help)| {
                let (count, names) = list.as_ref()?;
                let subject =
                    if *count == 1 { "1 tensor is".to_owned() } else { format!("{count} tensors are") };
                Some((*code, format!("{subject} {what}: {names}"), *help))
            })
            .collect();
        let Some((code, _, help)) = found.first() else { return Ok(()) };
        let message = found.iter().map(|(_, message, _)| message.as_str()).collect::<Vec<_>>().join("; ");
        Err(Diagnostic::error(code, message).help(*help))
    }
}

/// How many names there are, and their groups with what `about` says of each, shortened; `None` without any.
fn list(names: &[String], about: impl Fn(&Group) -> String) -> Option<(usize, String)> {
    let groups = grouped(names);
    let shown = groups.iter().take(LISTED).map(|group| format!("`{}`{}", group.pattern, about(group)));
    let more = if groups.len() > LISTED { ", …" } else { "" };
    (!names.is_empty()).then(|| (names.len(), shown.collect::<Vec<_>>().join(", ") + more))
}

/// What to do about missing tensors, by what is there instead.
fn missing_help(missing: &[String], unused: &[String]) -> &'static str {
    let without_number = |name: &str| {
        let mut parts: Vec<&str> = name.split('.').collect();
        let expert = parts.iter().rposition(|part| part.parse::<u64>().is_ok());
        expert.map(|at| parts.remove(at));
        parts.join(".")
    };
    let same = |one: &String, apart: &String| {
        let whole = without_number(apart);
        apart.contains("experts")
            && whole.strip_suffix(".weight").unwrap_or(&whole) == one.trim_end_matches(".weight")
    };
    let any = |ones: &[String], aparts: &[String]| {
        let apart = aparts.first();
        apart.is_some_and(|apart| ones.iter().any(|one| same(one, apart)))
    };
    if missing.iter().any(|name| name.ends_with(&float8::scale_name(""))) {
        "8-bit floats are read with a scale for each block of 128×128 elements: take the checkpoint that has them, or \
         convert it to bf16"
    } else if unused.iter().any(|name| name.ends_with("_blocks")) {
        "4-bit blocks (MXFP4) are read as `NAME_blocks [experts, rows, groups, 16]` with `NAME_scales [experts, rows, groups]`, \
         both of type U8: take the checkpoint that has them so, or convert it to bf16"
    } else if any(unused, missing) {
        "the checkpoint holds all experts of a layer in one tensor: write `names { moe { layout = stacked } }` and \
         their names without `{e}`"
    } else if any(missing, unused) {
        "the checkpoint holds a tensor for each expert: write `names { moe { layout = per_expert } }` and `{e}` in \
         their names"
    } else if unused.iter().any(|name| name.contains("gate_up_proj")) {
        "gate and up share a tensor: give `gate` and `up` the same name in `names`"
    } else if unused.iter().any(|name| name.contains("qkv_proj")) {
        "queries, keys and values share a tensor: give `q`, `k` and `v` the same name in `names`"
    } else {
        "correct `names` in the model, or take the checkpoint of this model"
    }
}

/// What to do about shapes, by how they differ, and by whether their elements are bytes.
fn shape_help(shapes: &[(String, Vec<u64>, Vec<u64>)], bytes: bool) -> &'static str {
    let all = |differ: fn(&[u64], &[u64]) -> bool| {
        !shapes.is_empty() && shapes.iter().all(|(_, own, wanted)| differ(own, wanted))
    };
    if all(|own, wanted| own.len() == 3 && wanted.len() == 3 && [own[0], own[2], own[1]] == *wanted) {
        "the experts' matrices lie the other way round: write `names { moe { layout = transposed } }`, or `stacked` \
         where that is written"
    } else if all(|own, wanted| {
        let pairs = || own.iter().zip(wanted).rev();
        own.len() == wanted.len()
            && pairs().next().is_some_and(|(own, wanted)| own * 2 == *wanted)
            && pairs().skip(1).all(|(own, wanted)| own == wanted)
    }) && bytes
    {
        "each is half as wide: two 4-bit numbers lie in a byte; convert the checkpoint to bf16"
    } else {
        "correct the sizes of the model, or take the checkpoint of this model"
    }
}

fn rounded(name: &str, count: usize) -> Diagnostic {
    let others = if count > 1 { format!(" and {} more", count - 1) } else { String::new() };
    let message =
        format!("`{name}`{others} has been rounded to 16 bits in the checkpoint, the model keeps it in f32");
    Diagnostic::warning("step::weights::rounded", message).help(
        "steps smaller than a part in 256 are lost in such a file; take one with f32 values if there is one",
    )
}

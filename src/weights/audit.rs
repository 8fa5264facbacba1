//! What a model needs against what a checkpoint holds: nothing may be missing and nothing left over
//! unnoticed.

use super::folder::Folder;
use super::header::Encoding;
use crate::base::DType;
use crate::diag::Diagnostic;
use crate::diag::suggest::nearest;
use std::collections::HashSet;

/// Names listed in a message before it only counts.
const LISTED: usize = 5;

impl Folder {
    /// Checks that every tensor of `wanted`, by name and shape, is here and can be read, and that every
    /// tensor here is wanted or among `kept`, the names that are known and deliberately left alone.
    ///
    /// # Errors
    /// All problems in one diagnostic: the code is that of the first kind found, in the order missing, shape,
    /// element type, left over.
    pub fn audit(
        &self,
        wanted: impl IntoIterator<Item = (String, Vec<u64>)>,
        kept: impl IntoIterator<Item = String>,
    ) -> Result<(), Diagnostic> {
        let mut used: HashSet<String> = kept.into_iter().collect();
        let (mut missing, mut shapes, mut types) = (Vec::new(), Vec::new(), Vec::new());
        for (name, shape) in wanted {
            match self.tensor(&name) {
                None => missing.push(name.clone()),
                Some(tensor) if tensor.shape != shape => {
                    shapes.push(format!("`{name}` is {:?}, the model needs {shape:?}", tensor.shape));
                }
                Some(tensor) => match tensor.encoding {
                    Encoding::Known(DType::F32 | DType::Bf16 | DType::F16) => {}
                    other => types.push(format!("`{name}` is {}", other.word())),
                },
            }
            used.insert(name);
        }
        let unused: Vec<&str> = self.names().filter(|name| !used.contains(*name)).collect();
        let missing: Vec<String> = missing
            .iter()
            .enumerate()
            .map(|(at, name)| {
                // Searching is worth it only for names that are shown.
                let similar = if at < LISTED { nearest(name, unused.iter().copied()) } else { None };
                similar
                    .map_or_else(|| format!("`{name}`"), |similar| format!("`{name}` (similar: `{similar}`)"))
            })
            .collect();
        let unused: Vec<String> = unused.iter().map(|name| format!("`{name}`")).collect();

        let kinds = [
            (
                "step::weights::missing",
                "missing from the checkpoint",
                missing,
                "correct `names` in the model, or take the checkpoint of this model",
            ),
            (
                "step::weights::shape",
                "of another shape",
                shapes,
                "correct the sizes of the model, or take the checkpoint of this model",
            ),
            (
                "step::weights::dtype",
                "of a type that is not read",
                types,
                "convert the checkpoint to f32, bf16 or f16",
            ),
            (
                "step::weights::unused",
                "used by nothing in the model",
                unused,
                "the model lacks a part that the checkpoint has, or `names` does not name it",
            ),
        ];
        let found: Vec<_> = kinds.iter().filter(|(_, _, names, _)| !names.is_empty()).collect();
        let Some((code, _, _, help)) = found.first() else { return Ok(()) };
        let parts = found.iter().map(|(_, what, names, _)| list(what, names));
        let message = parts.collect::<Vec<_>>().join("; ");
        Err(Diagnostic::error(code, message).help(*help))
    }
}

/// `3 tensors are …: a, b, c`, shortened.
fn list(what: &str, names: &[String]) -> String {
    let subject =
        if names.len() == 1 { "1 tensor is".to_owned() } else { format!("{} tensors are", names.len()) };
    let shown = names[..names.len().min(LISTED)].join(", ");
    let more = if names.len() > LISTED { ", …" } else { "" };
    format!("{subject} {what}: {shown}{more}")
}

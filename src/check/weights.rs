//! A checkpoint held against the model that is to be filled from it.

use super::place;
use crate::diag::Diagnostic;
use crate::model::{Aside, Copied, Model, Parameter};
use crate::recipe::{Resolved, Weights};
use crate::weights::{Audit, Folder, Needs};
use std::path::Path;

/// A checkpoint that is there is held against the model: every parameter is in it, every tensor is used.
pub fn check_weights(resolved: &Resolved) -> Vec<Diagnostic> {
    let Weights::Folder(path) = &resolved.recipe.model.weights else { return Vec::new() };
    if !path.exists() {
        return Vec::new();
    }
    let model = Model::build(&resolved.recipe.model, resolved.recipe.parallel.precision.params);
    let found = match audit(path, &model.params, &model.aside) {
        Ok((_, audit)) => audit.warnings,
        Err(problem) => vec![problem],
    };
    found.into_iter().map(|problem| place(problem, Some(&resolved.origins))).collect()
}

/// Opens the checkpoint at `path` for a model of these parameters: every parameter is there, every tensor is used.
pub fn audit(path: &Path, params: &[Parameter], aside: &Aside) -> Result<(Folder, Audit), Diagnostic> {
    let folder = Folder::open(path)?;
    let (kept, needed): (Vec<_>, Vec<_>) = params.iter().partition(|p| !p.in_training());
    let tensors = needed.into_iter().flat_map(|p| p.tensors().map(|t| (t.name, t.shape, !p.trainable)));
    let kept = kept.into_iter().flat_map(Parameter::tensors).map(|tensor| tensor.name);
    let ignored = aside.ignored.iter().map(|ignored| (ignored.tensors.clone(), ignored.reason.clone()));
    let needs = Needs {
        tensors: tensors.collect(),
        kept: kept.chain(aside.copies.iter().map(|copied| copied.name.clone())).collect(),
        ignored: ignored.collect(),
    };
    let audit = folder.audit(&needs)?;
    for Copied { name, of, part } in &aside.copies {
        if part.in_training() && audit.kept.contains(name) && !folder.same(of, name)? {
            let message = format!("`{name}` is not `{of}`, although the model says that the two are one");
            return Err(Diagnostic::error("step::weights::tied", message).help(format!(
                "train both (`tie_embeddings = false`, or `head = own` in `mtp`), or leave it alone: \
                 `names {{ ignore copy {{ tensors = {name:?}, reason = \"…\" }} }}`"
            )));
        }
    }
    Ok((folder, audit))
}

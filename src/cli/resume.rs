//! What a run goes on from, and that it never begins anew, or overwrites, where nobody has asked for it.

use super::args::RunArgs;
use crate::checkpoint::{Checkpoint, Listed, Manifest, fingerprint, list, newest};
use crate::data::{Changed, tokenizer_file};
use crate::diag::Diagnostic;
use crate::plan::{Contents, Plan};
use crate::recipe::Origins;
use std::fs;
use std::path::Path;

/// The checkpoint that `--resume` asks for; none where it does not, and then the folder must hold none.
pub fn resume(args: &RunArgs, folder: &Path) -> Result<Option<Checkpoint>, Diagnostic> {
    let held = list(folder);
    let Some(asked) = &args.resume else {
        return held.last().map_or(Ok(None), |held| Err(exists(folder, held)));
    };
    let checkpoint = match asked {
        Some(path) => Checkpoint::open(path)?,
        None => Checkpoint::open(&newest(folder).ok_or_else(|| none(folder, &held))?.path)?,
    };
    let step = checkpoint.manifest().step;
    let inside = held.iter().any(|listed| same(&listed.path, checkpoint.path()));
    let newer = held.iter().rfind(|listed| listed.contents == Contents::State && listed.step > step);
    match (inside, newer, held.last()) {
        (true, Some(newer), _) => Err(ambiguous(checkpoint.path(), newer)),
        (false, _, Some(held)) => Err(exists(folder, held)),
        _ => Ok(Some(checkpoint)),
    }
}

/// What all checkpoints of this run have in common.
pub fn manifest(plan: &Plan) -> Result<Manifest, Diagnostic> {
    let path = tokenizer_file(&plan.data.tokenizer);
    let bytes = fs::read(&path).map_err(|error| {
        let message = format!("cannot read the tokenizer {}: {error}", path.display());
        Diagnostic::error("step::data::tokenizer", message).help("`data.tokenizer` names its file or folder")
    })?;
    Manifest::of(plan, fingerprint(&bytes))
}

/// What is not as it was in the data, at the source that it is about.
pub fn changed_data(changed: &Changed, origins: Option<&Origins>) -> Diagnostic {
    let path = changed.source.as_ref().map_or("data".to_owned(), |name| format!("data.source {name}.path"));
    changed.warning.clone().label(origins.and_then(|origins| origins.nearest(&path)), "read here")
}

fn same(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

fn exists(folder: &Path, held: &Listed) -> Diagnostic {
    let message = format!("{} holds checkpoints of a run, up to step {}", folder.display(), held.step);
    Diagnostic::error("step::checkpoint::exists", message)
        .help("go on from the newest with `--resume`, or begin anew in another folder with `--output DIR`")
}

fn none(folder: &Path, held: &[Listed]) -> Diagnostic {
    let what = if held.is_empty() { "no complete checkpoint" } else { "checkpoints of the weights alone" };
    Diagnostic::error("step::checkpoint::none", format!("{} holds {what}", folder.display()))
        .help("name one with `--resume PATH`, or leave `--resume` out to begin at the first step")
}

fn ambiguous(path: &Path, newer: &Listed) -> Diagnostic {
    let (path, newer) = (path.display(), newer.path.display());
    Diagnostic::error("step::checkpoint::newer", format!("{newer} is newer than {path}, and in its way"))
        .help("go on from the newest with `--resume`, or from this one in another folder with `--output DIR`")
}

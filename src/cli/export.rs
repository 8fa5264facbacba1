//! `stepc export`

use super::args::{ExportArgs, ExportCommand, ExportHf, FloatType};
use super::exit::Failure;
use super::session::Session;
use crate::base::DType;
use crate::checkpoint::{Checkpoint, Elements, Export, Exported, Manifest, Target, export as write};
use crate::recipe::Weights;
use crate::report::{bytes, duration};
use std::path::Path;
use std::time::Instant;

/// Writes the weights of a checkpoint in the form that other programs read.
pub fn export(session: &mut Session, args: &ExportArgs) -> Result<(), Failure> {
    match &args.form {
        ExportCommand::Hf(args) => hugging_face(session, args),
    }
}

fn hugging_face(session: &mut Session, args: &ExportHf) -> Result<(), Failure> {
    let started = Instant::now();
    let checkpoint = Checkpoint::open(&args.checkpoint)?;
    let dtype = args.dtype.map(|dtype| match dtype {
        FloatType::F32 => DType::F32,
        FloatType::Bf16 => DType::Bf16,
        FloatType::F16 => DType::F16,
    });
    let exported = parameters(
        checkpoint.manifest(),
        &checkpoint,
        dtype,
        args.max_shard_size,
        Target::New(&args.output),
    )?;
    session.print(&format!(
        "step {} of {}: {} in {}, read again and compared\n",
        checkpoint.manifest().step,
        checkpoint.manifest().recipe,
        described(&exported, &args.output),
        duration(started.elapsed().as_secs_f64()),
    ));
    Ok(())
}

/// Bytes of a file at most, where nobody says otherwise: what `transformers` writes.
pub const SHARD: u64 = 5_000_000_000;

/// Writes the parameters of a run as a Hugging Face folder.
pub fn parameters(
    run: &Manifest,
    elements: &dyn Elements,
    dtype: Option<DType>,
    shard: u64,
    target: Target,
) -> Result<Exported, Failure> {
    let source = match &run.weights {
        Weights::Folder(path) => Some(path.as_path()),
        Weights::Scratch => None,
    };
    let (params, tokenizer) = (&run.params, Some(run.data.tokenizer.as_path()));
    let copies = &run.aside.copies;
    Ok(write(&Export { params, copies, elements, source, tokenizer, dtype, shard }, target)?)
}

/// What has been written and where, in a line.
pub fn described(exported: &Exported, folder: &Path) -> String {
    let Exported { tensors, bytes: size, files, kept, left_out, widened, copied } = exported;
    let files = match &files[..] {
        [one] => folder.join(one).display().to_string(),
        several => format!("{} files of {}", several.len(), folder.display()),
    };
    let beside = match copied.len() {
        0 => String::new(),
        _ => format!(", beside them {}", copied.join(", ")),
    };
    let kept = if *kept > 0 { format!(", {kept} of them as they were") } else { String::new() };
    let left = match left_out {
        0 => String::new(),
        n => format!("; {n} tensors of multi-token prediction were not trained and are left out"),
    };
    let widened = match widened {
        0 => String::new(),
        n => format!(
            "; {n} tensors were floats of 8 or 4 bits and are now as wide as others, which `config.json` says"
        ),
    };
    format!("{tensors} tensors{kept}, {}, in {files}{beside}{left}{widened}", bytes(*size))
}

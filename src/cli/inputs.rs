//! What a run reads and where it writes: weights, text, the output folder.

use super::args::RunArgs;
use crate::data;
use crate::diag::Diagnostic;
use crate::model::{Aside, Copied, Parameter};
use crate::plan::Plan;
use crate::recipe::{Answers, Data, Fault, Format, Origins, Overlong, Pack, Stage, Train, Weights};
use crate::weights::{Audit, Folder, Needs};
use std::path::{Path, PathBuf};

/// Tokens that are prepared ahead of a step at most.
const MOST_AHEAD: u64 = 16 << 20;

/// The checkpoint that a plan starts from, audited, and what the audit found beside the parameters.
pub fn weights(plan: &Plan) -> Result<Option<(Folder, Audit)>, Diagnostic> {
    match &plan.weights {
        Weights::Folder(path) => audit(path, &plan.params, &plan.aside).map(Some),
        Weights::Scratch => Ok(None),
    }
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

/// The configuration of the data loader.
pub fn data_config(data: &Data, train: &Train, vocab: u64) -> data::Config {
    let sources = data.sources.iter().map(|(name, source)| data::SourceConfig {
        name: name.clone(),
        glob: source.path.clone(),
        format: match source.format {
            Format::Auto => data::Format::Auto,
            Format::Text => data::Format::Text,
            Format::Jsonl => data::Format::Jsonl,
            Format::Json => data::Format::Json,
            Format::Parquet => data::Format::Parquet,
            Format::Arrow => data::Format::Arrow,
        },
        column: source.column.clone(),
        weight: source.weight,
        separator: source.separator.clone(),
    });
    let fault = |fault| match fault {
        Fault::Skip => data::Fault::Skip,
        Fault::Stop => data::Fault::Stop,
    };
    let policy = data::Policy {
        overlong: match data.overlong {
            Overlong::Drop => data::Overlong::Drop,
            Overlong::Truncate => data::Overlong::Truncate,
            Overlong::Split => data::Overlong::Split,
            Overlong::Error => data::Overlong::Error,
        },
        invalid: fault(data.invalid),
        empty: fault(data.empty),
        unsupervised: fault(data.unsupervised),
    };
    let chat = data::ChatConfig {
        template: data.chat.template.clone(),
        date: data.chat.date.clone(),
        assistant: match data.chat.assistant {
            Answers::All => data::Answers::All,
            Answers::Last => data::Answers::Last,
            Answers::None => data::Answers::None,
        },
        system: data.chat.system,
        user: data.chat.user,
        tool: data.chat.tool,
    };
    data::Config {
        sources: sources.collect(),
        tokenizer: data.tokenizer.clone(),
        sequence: data.sequence as usize,
        documents: data.pack == Pack::Documents,
        seed: train.seed,
        vocab: vocab as usize,
        eos: None,
        policy,
        chat: (train.stage == Stage::Sft).then_some(chat),
        workers: std::thread::available_parallelism().map_or(1, |cores| cores.get().div_ceil(4)),
        ahead: train.global_batch.clamp(32, MOST_AHEAD.div_ceil(data.sequence).max(32)),
    }
}

/// Where a run writes: what the user asked for, or the recipe's folder.
pub fn output(args: &RunArgs, plan: &Plan) -> PathBuf {
    let recipe = plan.checkpoint.as_ref().map(|checkpoint| checkpoint.dir.clone());
    args.output.clone().or(recipe).unwrap_or_else(|| Path::new("output").join(&plan.recipe))
}

/// Points a problem of data or weights at the field of the recipe that it comes from.
pub fn place(mut diagnostic: Diagnostic, origins: Option<&Origins>) -> Diagnostic {
    let fields: &[(&str, &str)] = match diagnostic.code {
        "step::data::vocab" => &[("data.tokenizer", "this tokenizer"), ("model.vocab", "this vocabulary")],
        "step::data::tokenizer" => &[("data.tokenizer", "named here")],
        "step::data::template" => {
            &[("data.chat.template", "named here"), ("data.tokenizer", "this tokenizer")]
        }
        "step::data::overlong" => &[("data.overlong", "set here"), ("data.sequence", "tokens a sequence")],
        "step::data::conversation" | "step::data::unsupervised" => {
            &[("train.stage", "conversations are asked for here")]
        }
        "step::data::too_small" => &[("data.sequence", "tokens a sequence")],
        "step::output::unwritable" | "step::checkpoint::exists" | "step::checkpoint::busy" => {
            &[("checkpoint.dir", "named here")]
        }
        code if code.starts_with("step::weights::") => &[("model.weights", "named here")],
        _ => &[],
    };
    for (path, text) in fields {
        diagnostic = diagnostic.label(origins.and_then(|o| o.span(path)), *text);
    }
    diagnostic
}

//! What a run reads and where it writes: weights, text, the output folder.

use super::args::RunArgs;
use crate::check::audit;
use crate::data;
use crate::diag::Diagnostic;
use crate::plan::Plan;
use crate::recipe::{Answers, Data, Fault, Format, Overlong, Pack, Stage, Train, Weights};
use crate::weights::{Audit, Folder};
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

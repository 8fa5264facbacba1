//! All arguments, declared once.

use crate::recipe::units::size_of;
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

const EXIT_CODES: &str = "\
Exit codes: 0 done, 1 failed while running, 2 bad input (nothing was written), 130 interrupted.";

const FMT_HELP: &str = "\
Examples:
  stepc fmt recipes/step35_flash.step
  stepc fmt --check recipes/*.step
  stepc fmt - < draft.step

Exit codes: 0 done, 1 a file would change (--check), 2 a file has syntax errors or cannot be read (nothing was written).";

const IMPORT_HELP: &str = "Examples:\n  \
    stepc import hf hf_weights/Qwen3-30B-A3B\n  \
    stepc import hf hf_weights/gemma-2-9b --output models/gemma2.step";

const EXPORT_HELP: &str = "\
Examples:
  stepc export hf output/step35_flash --output hf_weights/mine
  stepc export hf output/step35_flash/step-000200 --output hf_weights/mine --dtype bf16";

const LSP_HELP: &str = "\
Example, as an editor's settings name it:
  stepc lsp

Exit codes: 0 the editor said goodbye, 1 it went away without.";

/// Compile and run training recipes for large models.
#[derive(Parser)]
#[command(name = "stepc", version, after_help = EXIT_CODES)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,

    /// When to use colour; `auto` follows the terminal and NO_COLOR.
    #[arg(long, global = true, value_enum, default_value_t = When::Auto)]
    pub color: When,

    /// How diagnostics are written.
    #[arg(long, global = true, value_enum, default_value_t = Format::Human)]
    pub format: Format,

    /// What to treat as an error
    #[arg(long, global = true, value_enum, value_name = "WHAT")]
    pub deny: Option<Deny>,
}

#[derive(Subcommand)]
pub enum Command {
    /// Check a recipe and all its profiles; silent where nothing is wrong
    #[command(after_help = "Examples:\n  \
        stepc check recipes/step35_flash.step\n  \
        stepc check recipes/step35_flash.step --deny warnings --format github\n  \
        stepc check recipes/step35_flash.step --profile laptop --why parallel.ep")]
    Check(CheckArgs),
    /// Compile a recipe and show its plan
    #[command(after_help = "Examples:\n  \
        stepc plan recipes/step35_flash.step\n  \
        stepc plan recipes/step35_flash.step --set parallel.recompute=full\n  \
        stepc plan recipes/step35_flash.step --profile laptop --output plan.ron\n  \
        stepc plan recipes/step35_flash.step --html plan.html\n  \
        stepc plan recipes/step35_flash.step --as json\n  \
        stepc plan recipes/step35_flash.step --engine mindspeed\n  \
        stepc plan --diff recipes/step35_flash.step recipes/step35_flash.step --set parallel.recompute=full")]
    Plan(PlanArgs),
    /// Search the layouts of a recipe for the fastest one that fits
    #[command(after_help = "Examples:\n  \
        stepc tune recipes/step35_flash.step\n  \
        stepc tune recipes/step35_flash.step --headroom 15% --engine mindspeed\n  \
        stepc tune recipes/step35_flash.step --write fast")]
    Tune(TuneArgs),
    /// Run a recipe or a compiled plan
    #[command(after_help = "Examples:\n  \
        stepc run recipes/step35_flash.step\n  \
        stepc run recipes/step35_flash.step --set train.steps=10 --output output/try\n  \
        stepc run recipes/step35_flash.step --resume\n  \
        stepc run plan.ron")]
    Run(RunArgs),
    /// Write the weights of a checkpoint in the form that other programs read
    #[command(after_help = EXPORT_HELP)]
    Export(ExportArgs),
    /// Look at the data of a recipe
    #[command(after_help = "Example:\n  \
        stepc data preview recipes/step35_flash.step --profile laptop")]
    Data(DataArgs),
    /// Lay files out in the one style; a file with syntax errors is left as it is
    #[command(after_help = FMT_HELP)]
    Fmt(FmtArgs),
    /// Write a commented recipe to begin with, from a model of the library or a Hugging Face folder
    #[command(after_help = "Examples:\n  \
        stepc new --list\n  \
        stepc new step35_flash\n  \
        stepc new my_run --model llama31_8b --output recipes/my_run.step\n  \
        stepc new hf_weights/Qwen3-30B-A3B")]
    New(NewArgs),
    /// Write the model of another format as a file of the language
    #[command(after_help = IMPORT_HELP)]
    Import {
        #[command(subcommand)]
        from: ImportFrom,
    },
    /// Explain a diagnostic, with an example that fails and one that works
    #[command(after_help = "Examples:\n  \
        stepc explain step::parallel::ep_experts\n  \
        stepc explain ep_experts\n  \
        stepc explain parallel\n  \
        stepc explain")]
    Explain(ExplainArgs),
    /// Print every block and field of the language, as JSON Schema or as the reference manual
    #[command(after_help = "Examples:\n  \
        stepc schema > step.schema.json\n  \
        stepc schema --markdown > docs/reference.md")]
    Schema(SchemaArgs),
    /// Serve an editor over standard input and output, in the Language Server Protocol
    #[command(after_help = LSP_HELP)]
    Lsp(LspArgs),
    /// Print a script that completes commands and options in a shell
    #[command(after_help = "Examples:\n  \
        stepc completions bash > ~/.local/share/bash-completion/completions/stepc\n  \
        stepc completions zsh > ~/.zfunc/_stepc\n  \
        stepc completions fish > ~/.config/fish/completions/stepc.fish")]
    Completions(CompletionsArgs),
}

/// What clients pass to servers.
#[derive(Args)]
pub struct LspArgs {
    /// Speak over standard input and output, as is always done; editors pass it
    #[arg(long)]
    pub stdio: bool,
}

/// Which recipe, and what is laid over it.
#[derive(Args)]
pub struct RecipeArgs {
    /// The .step file
    pub file: PathBuf,

    /// The recipe to take where a file has several
    #[arg(long, value_name = "NAME")]
    pub recipe: Option<String>,

    /// The profile to lay over the recipe
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,

    /// Override a field, such as train.steps=10; can be given several times
    #[arg(long, value_name = "FIELD=VALUE")]
    pub set: Vec<String>,
}

#[derive(Args)]
pub struct CheckArgs {
    #[command(flatten)]
    pub recipe: RecipeArgs,

    /// Show every place that sets a field or a block, the one that holds first, instead of checking
    #[arg(long, value_name = "PATH", value_parser = NonEmptyStringValueParser::new())]
    pub why: Option<String>,
}

/// Where a model comes from.
#[derive(Subcommand)]
pub enum ImportFrom {
    /// A Hugging Face folder: its `config.json`, and the headers of its tensors where they are there
    #[command(after_help = IMPORT_HELP)]
    Hf(ImportHf),
}

#[derive(Args)]
pub struct ImportHf {
    /// The folder that holds `config.json`
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,

    /// The file to write; by default the name of the folder with `.step`, here. One that exists is never overwritten
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Args)]
pub struct NewArgs {
    /// A model of the library, a Hugging Face folder, or with --model the name of the recipe
    #[arg(value_name = "NAME|FOLDER", required_unless_present = "list")]
    pub name: Option<String>,

    /// The model of the library to begin with
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,

    /// The file to write; by default the name with `.step`, here. One that exists is never overwritten
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// List the models of the library
    #[arg(long)]
    pub list: bool,
}

#[derive(Args)]
pub struct SchemaArgs {
    /// The reference manual in Markdown instead
    #[arg(long)]
    pub markdown: bool,
}

#[derive(Args)]
pub struct CompletionsArgs {
    /// The shell that reads the script
    pub shell: clap_complete::Shell,
}

#[derive(Args)]
pub struct ExplainArgs {
    /// A code, the end of one, or an area such as `parallel`; all codes without it
    pub code: Option<String>,
}

#[derive(Args)]
pub struct PlanArgs {
    #[command(flatten)]
    pub recipe: RecipeArgs,

    /// Write the plan to a file that `stepc run` takes; an estimate is none
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Write a page to look at: who holds what, memory and streams over a step, tensors
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Print data instead of the page
    #[arg(long = "as", value_name = "FORM", value_enum, conflicts_with = "diff")]
    pub form: Option<Form>,

    /// What will run the recipe: memory and time are those of the program for the native engine, an estimate for others
    #[arg(long, value_enum, default_value_t = Engine::Native)]
    pub engine: Engine,

    /// What will run BASE; by default what runs FILE
    #[arg(long, value_enum, requires = "diff")]
    pub diff_engine: Option<Engine>,

    /// Compare with another recipe or plan; --profile and --set are laid over FILE alone
    #[arg(long, value_name = "BASE")]
    pub diff: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// The figures of the page as JSON
    Json,
    /// The whole plan, as `--output` writes it; an estimate has none
    Ron,
}

#[derive(Args)]
pub struct TuneArgs {
    #[command(flatten)]
    pub recipe: RecipeArgs,

    /// The share of a device's memory that is to stay free
    #[arg(long, value_name = "SHARE", default_value = "10%", value_parser = share)]
    pub headroom: f64,

    /// What will run the recipe; memory is exact for the native program and an estimate for others
    #[arg(long, value_enum, default_value_t = Engine::Native)]
    pub engine: Engine,

    /// How many layouts to show
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub top: u16,

    /// How to write the result
    #[arg(long = "as", value_name = "FORM", value_enum, default_value_t = As::Text)]
    pub output: As,

    /// Add the winner to the recipe's file as a profile of this name
    #[arg(long, value_name = "NAME")]
    pub write: Option<String>,
}

/// A share below the whole, as `10%` or `0.1`.
fn share(text: &str) -> Result<f64, String> {
    let value = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse(),
    };
    match value {
        Ok(share) if (0.0..1.0).contains(&share) => Ok(share),
        _ => Err("write a share of at least 0% and less than 100%, such as 10%".to_owned()),
    }
}

#[derive(Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub recipe: RecipeArgs,

    /// The folder for metrics, checkpoints and weights; by default the recipe's checkpoint.dir
    #[arg(long, short, value_name = "DIR")]
    pub output: Option<PathBuf>,

    /// Go on from the newest checkpoint of the folder, or from the one at PATH
    #[arg(long, value_name = "PATH", num_args = 0..=1)]
    pub resume: Option<Option<PathBuf>>,

    /// Threads for all ranks of this machine together; by default one a core
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
}

#[derive(Args)]
pub struct ExportArgs {
    #[command(subcommand)]
    pub form: ExportCommand,
}

#[derive(Subcommand)]
pub enum ExportCommand {
    /// A Hugging Face folder: the names, shapes and types of the checkpoint that the recipe describes
    #[command(after_help = EXPORT_HELP)]
    Hf(ExportHf),
}

#[derive(Args)]
pub struct ExportHf {
    /// A checkpoint, or the folder of a run for its newest one
    pub checkpoint: PathBuf,

    /// The folder to write; one that holds something is never overwritten
    #[arg(long, short, value_name = "DIR")]
    pub output: PathBuf,

    /// The type of trained tensors; by default that of the folder training began from
    #[arg(long, value_enum)]
    pub dtype: Option<FloatType>,

    /// The largest size of a file
    #[arg(long, value_name = "SIZE", default_value = "5GB", value_parser = size)]
    pub max_shard_size: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FloatType {
    F32,
    Bf16,
    F16,
}

/// Bytes, as `5GB` or `500MiB`.
fn size(text: &str) -> Result<u64, String> {
    size_of(text).filter(|bytes| *bytes > 0).ok_or_else(|| "write a size such as 5GB or 500MiB".to_owned())
}

#[derive(Args)]
pub struct DataArgs {
    #[command(subcommand)]
    pub command: DataCommand,
}

#[derive(Subcommand)]
pub enum DataCommand {
    /// Show sequences as they will be trained on: documents, and which of their tokens are learned
    #[command(after_help = "Examples:\n  \
        stepc data preview recipes/step35_flash.step --profile laptop\n  \
        stepc data preview recipe.step -n 3 --source chat --ids\n  \
        stepc data preview recipe.step --color always | less -R")]
    Preview(PreviewArgs),
}

#[derive(Args)]
pub struct PreviewArgs {
    #[command(flatten)]
    pub recipe: RecipeArgs,

    /// How many sequences to show
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub sequences: u32,

    /// Show this source alone
    #[arg(long, value_name = "NAME")]
    pub source: Option<String>,

    /// Show the ids of the tokens too
    #[arg(long)]
    pub ids: bool,
}

#[derive(Args)]
pub struct FmtArgs {
    /// The .step files; `-` reads standard input and writes standard output
    #[arg(required = true)]
    pub files: Vec<PathBuf>,

    /// Write nothing; name the files that would change, and exit with 1 if there are any
    #[arg(long, conflicts_with = "stdout")]
    pub check: bool,

    /// Write to standard output instead of the files
    #[arg(long)]
    pub stdout: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum When {
    Auto,
    Always,
    Never,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// With the source text
    Human,
    /// A line each
    Short,
    /// A JSON object a line
    Json,
    /// A SARIF 2.1.0 document on standard output, for code scanning
    Sarif,
    /// Workflow commands of GitHub Actions
    Github,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Deny {
    /// Show warnings as errors and end with exit code 2
    Warnings,
}

/// What executes the recipe.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// Our own program
    Native,
    /// MindSpeed-LLM with PyTorch FSDP2
    Mindspeed,
    /// torchtitan, and programs built like it
    Torchtitan,
    /// Megatron-Core, and MindSpeed-LLM on it
    Megatron,
}

impl From<Engine> for crate::plan::estimate::Engine {
    fn from(engine: Engine) -> Self {
        match engine {
            Engine::Native => Self::Native,
            Engine::Mindspeed => Self::MindspeedFsdp2,
            Engine::Torchtitan => Self::TorchtitanFsdp2,
            Engine::Megatron => Self::Megatron,
        }
    }
}

/// How a result is written.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum As {
    /// For people
    Text,
    /// One JSON object
    Json,
}

//! All arguments, declared once.

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

const EXIT_CODES: &str = "\
Exit codes: 0 done, 1 failed while running, 2 bad input (nothing was written), 130 interrupted.";

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
}

#[derive(Subcommand)]
pub enum Command {
    /// Check a recipe and all its profiles; silent where nothing is wrong
    #[command(after_help = "Example:\n  stepc check recipes/step35_flash.step")]
    Check(RecipeArgs),
    /// Compile a recipe and show its plan
    #[command(after_help = "Examples:\n  \
        stepc plan recipes/step35_flash.step\n  \
        stepc plan recipes/step35_flash.step --set parallel.recompute=full\n  \
        stepc plan recipes/step35_flash.step --profile laptop --output plan.ron\n  \
        stepc plan recipes/step35_flash.step --html plan.html\n  \
        stepc plan recipes/step35_flash.step --as json\n  \
        stepc plan --diff recipes/step35_flash.step recipes/step35_flash.step --set parallel.recompute=full")]
    Plan(PlanArgs),
    /// Run a recipe or a compiled plan
    #[command(after_help = "Examples:\n  \
        stepc run recipes/step35_flash.step\n  \
        stepc run recipes/step35_flash.step --set train.steps=10 --output output/try\n  \
        stepc run plan.ron")]
    Run(RunArgs),
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
pub struct PlanArgs {
    #[command(flatten)]
    pub recipe: RecipeArgs,

    /// Write the plan to a file that `stepc run` takes
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Write a page to look at: who holds what, memory and streams over a step, tensors
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Print data instead of the page
    #[arg(long = "as", value_name = "FORM", value_enum, conflicts_with = "diff")]
    pub form: Option<Form>,

    /// Compare with another recipe or plan; --profile and --set are laid over FILE alone
    #[arg(long, value_name = "BASE")]
    pub diff: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// The figures of the page as JSON
    Json,
    /// The whole plan, as `--output` writes it
    Ron,
}

#[derive(Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub recipe: RecipeArgs,

    /// The folder for metrics; by default the recipe's checkpoint.dir
    #[arg(long, short, value_name = "DIR")]
    pub output: Option<PathBuf>,

    /// Threads for all ranks of this machine together; by default one a core
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
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
}

//! `stepc run`

use super::args::RunArgs;
use super::exit::Failure;
use super::session::Session;
use crate::base::Host;
use crate::base::host::OsHost;
use crate::data::{self, Loader};
use crate::diag::Diagnostic;
use crate::model::{Parameter, Part};
use crate::plan::{self, Demand, Plan, Task};
use crate::recipe::{DeviceKind, Format, Origins, Pack, Stage, Weights};
use crate::report::{Metrics, Progress, bytes, duration, headline, plan_page};
use crate::runtime::{Job, Outcome, StepReport};
use crate::weights::Folder;
use std::cell::RefCell;
use std::io::{IsTerminal, stdout};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Compiles what has to be compiled, checks data and weights, and trains.
pub fn run(session: &mut Session, args: &RunArgs) -> Result<(), Failure> {
    let started = Instant::now();
    let (plan, origins) = match args.recipe.file.extension() {
        Some(extension) if extension == "ron" => (read_plan(&args.recipe.file)?, None),
        _ => compile(session, args).map(|(plan, origins)| (plan, Some(origins)))?,
    };
    session.show_warnings();
    let placed = |diagnostic| place(diagnostic, origins.as_ref());
    executable(&plan, origins.as_ref()).map_err(Failure::Input)?;
    let plan = Arc::new(plan);
    let weights = weights(&plan).map_err(placed)?;
    let loader = Loader::open(&data_config(&plan), 0, plan.mesh.devices as usize).map_err(placed)?;
    let metrics = Metrics::create(&output(args, &plan)).map_err(placed)?;
    let found = loader.statistics();
    session.print(&format!(
        "{} documents in {} files, {}; writing {}\n\n",
        found.documents,
        found.files,
        bytes(found.bytes),
        metrics.path().display(),
    ));
    let (outcome, last) = train(session, args, &plan, &loader, weights.as_ref(), metrics)?;
    summary(session, &plan, &loader, outcome, last, started);
    if outcome.steps < plan.train.steps { Err(Failure::Interrupted) } else { Ok(()) }
}

/// The plan for the recipe's own machine is shown; where that machine is not here, the profile for the CPU is compiled.
fn compile(session: &mut Session, args: &RunArgs) -> Result<(Plan, Origins), Failure> {
    let loaded = session.load(&args.recipe)?;
    let resolved = session.resolve(&loaded, args.recipe.profile.as_deref())?;
    let plan = plan::compile(&resolved.recipe, resolved.profile.as_deref(), Task::Train);
    plan::rules::fits(&resolved.recipe, &plan, &resolved.origins, &mut session.sink);
    let style = session.style();
    if plan.cluster.device.kind == DeviceKind::Cpu {
        session.print(&format!("{}\n", plan_page(&plan, style)));
        return Ok((plan, resolved.origins));
    }
    session.print(&format!("{}\n", plan_page(&plan, style)));
    let target = format!("no {} on this machine", plan.cluster.device.name);
    let Some(profile) = loaded.profile_for(DeviceKind::Cpu) else {
        let head = loaded.head();
        let diagnostic = Diagnostic::error("step::run::no_target", format!("{target}, and the recipe has no profile for cpu"))
            .label(head, "written for another machine only")
            .help("add `profile laptop for cpu { cluster cpu { devices = 2 } … }` with a size that fits, or run it on its cluster");
        return Err(diagnostic.into());
    };
    let resolved = session.resolve(&loaded, Some(profile))?;
    let plan = plan::compile(&resolved.recipe, resolved.profile.as_deref(), Task::Train);
    plan::rules::fits(&resolved.recipe, &plan, &resolved.origins, &mut session.sink);
    session.print(&format!(
        "{}\n",
        style.warn(&format!("{target}: running its profile `{profile}` on the CPU engine"))
    ));
    session.print(&format!("{}\n", headline(&plan, style)));
    Ok((plan, resolved.origins))
}

fn read_plan(path: &Path) -> Result<Plan, Diagnostic> {
    let text = OsHost.read_text(path).map_err(|error| {
        Diagnostic::error(
            "step::plan::unreadable",
            format!("cannot read the plan {}: {error}", path.display()),
        )
        .help("write one with `stepc plan RECIPE --output FILE`")
    })?;
    plan::read(path, &text)
}

/// What the native engine cannot run is refused before anything is touched.
fn executable(plan: &Plan, origins: Option<&Origins>) -> Result<(), Vec<Diagnostic>> {
    if plan.cluster.device.kind != DeviceKind::Cpu {
        let message = format!("no {} on this machine", plan.cluster.device.name);
        let problem = Diagnostic::error("step::run::no_target", message)
            .help("compile the plan of a profile for cpu: `stepc plan RECIPE --profile NAME --output FILE`");
        return Err(vec![problem]);
    }
    let refused = plan.demands.iter().map(|Demand { field, value }| {
        let key = field.rsplit('.').next().unwrap_or(field);
        let message =
            format!("the CPU engine does not run `{key}` = {value}: it is checked and planned only");
        Diagnostic::error("step::run::unsupported", message)
            .label(origins.and_then(|origins| origins.nearest(field)), "set here")
            .help(format!(
                "leave `{key}` at its default in the profile for cpu, or run it on its own cluster"
            ))
    });
    let mut refused: Vec<_> = refused.collect();
    if plan.train.stage == Stage::Sft {
        let message = "the CPU engine trains on every token: `stage = sft` is planned, not run";
        let problem = Diagnostic::error("step::train::stage", message)
            .help("write `stage = pretrain` in the profile for cpu");
        refused.push(place(problem, origins));
    }
    if refused.is_empty() { Ok(()) } else { Err(refused) }
}

/// The checkpoint, audited against what the model needs: every parameter is there, every tensor is used.
fn weights(plan: &Plan) -> Result<Option<Folder>, Diagnostic> {
    match &plan.weights {
        Weights::Folder(path) => audit(path, &plan.params).map(Some),
        Weights::Scratch => Ok(None),
    }
}

/// Opens the checkpoint at `path` for a model of these parameters.
pub(super) fn audit(path: &Path, params: &[Parameter]) -> Result<Folder, Diagnostic> {
    let folder = Folder::open(path)?;
    let trained = params.iter().filter(|p| p.part != Part::Mtp);
    let wanted = trained.flat_map(|p| p.tensors()).map(|t| (t.name, t.shape));
    let kept = params.iter().filter(|p| p.part == Part::Mtp).flat_map(|p| p.tensors()).map(|t| t.name);
    folder.audit(wanted, kept)?;
    Ok(folder)
}

fn data_config(plan: &Plan) -> data::Config {
    let sources = plan.data.sources.iter().map(|(name, source)| data::SourceConfig {
        name: name.clone(),
        glob: source.path.clone(),
        format: match source.format {
            Format::Auto => data::Format::Auto,
            Format::Text => data::Format::Text,
            Format::Jsonl => data::Format::Jsonl,
            Format::Parquet => data::Format::Parquet,
        },
        column: source.column.clone(),
        weight: source.weight,
        separator: source.separator.clone(),
    });
    data::Config {
        sources: sources.collect(),
        tokenizer: plan.data.tokenizer.clone(),
        sequence: plan.data.sequence as usize,
        documents: plan.data.pack == Pack::Documents,
        seed: plan.train.seed,
        vocab: plan.vocab as usize,
        eos: None,
    }
}

fn output(args: &RunArgs, plan: &Plan) -> PathBuf {
    let recipe = plan.checkpoint.as_ref().map(|checkpoint| checkpoint.dir.clone());
    args.output.clone().or(recipe).unwrap_or_else(|| Path::new("output").join(&plan.recipe))
}

/// Trains until the last step or Ctrl-C; a second Ctrl-C ends the process at once.
fn train(
    session: &Session,
    args: &RunArgs,
    plan: &Arc<Plan>,
    loader: &Loader,
    weights: Option<&Folder>,
    metrics: Metrics,
) -> Result<(Outcome, Option<StepReport>), Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let signal = Arc::clone(&stop);
    let handler = ctrlc::set_handler(move || {
        if signal.swap(true, Ordering::Relaxed) {
            std::process::exit(i32::from(super::exit::INTERRUPTED));
        }
    });
    handler.map_err(|error| {
        Diagnostic::error("step::runtime::signal", format!("cannot catch Ctrl-C: {error}"))
    })?;
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let progress = Progress::new(plan.train.steps, plan.memory.peak, session.style(), stdout().is_terminal());
    let state = RefCell::new((metrics, None, Ok(())));
    let job = Job {
        plan: Arc::clone(plan),
        feed: loader,
        weights,
        threads: args.threads.map_or(cores, usize::from),
        stop: &stop,
        inspect: &|_, _| {},
    };
    let outcome = job.run(|report| {
        progress.step(report);
        let (metrics, last, written) = &mut *state.borrow_mut();
        *last = Some(*report);
        if written.is_ok() {
            *written = metrics.write(report);
            stop.fetch_or(written.is_err(), Ordering::Relaxed);
        }
    });
    progress.end();
    let (_, last, written) = state.into_inner();
    written?;
    Ok((outcome?, last))
}

fn summary(
    session: &Session,
    plan: &Plan,
    loader: &Loader,
    outcome: Outcome,
    last: Option<StepReport>,
    started: Instant,
) {
    let Some(last) = last else { return };
    let style = session.style();
    let entropy = loader.unigram_entropy();
    let compared = if last.loss < entropy { "below" } else { "above" };
    let data = loader.statistics();
    session.print(&format!(
        "\n{} {} of {} steps in {}: loss {:.4}, {compared} the {entropy:.4} nats of the text's token frequencies\n",
        style.good(if outcome.steps == plan.train.steps { "done" } else { "stopped" }),
        outcome.steps,
        plan.train.steps,
        duration(started.elapsed().as_secs_f64()),
        last.loss,
    ));
    session.print(&format!(
        "{:.2} epochs; {} used by a rank at most, {} planned\n",
        data.epochs,
        bytes(outcome.used),
        bytes(plan.memory.peak),
    ));
}

/// Points a problem of data or weights at the field of the recipe that it comes from.
pub(super) fn place(mut diagnostic: Diagnostic, origins: Option<&Origins>) -> Diagnostic {
    let fields: &[(&str, &str)] = match diagnostic.code {
        "step::data::vocab" => &[("data.tokenizer", "this tokenizer"), ("model.vocab", "this vocabulary")],
        "step::data::tokenizer" => &[("data.tokenizer", "named here")],
        "step::data::too_small" => &[("data.sequence", "tokens a sequence")],
        "step::output::unwritable" => &[("checkpoint.dir", "named here")],
        "step::train::stage" => &[("train.stage", "set here")],
        "step::precision::cpu" => &[("parallel.precision.params", "set here")],
        code if code.starts_with("step::weights::") => &[("model.weights", "named here")],
        _ => &[],
    };
    for (path, text) in fields {
        diagnostic = diagnostic.label(origins.and_then(|o| o.span(path)), *text);
    }
    diagnostic
}

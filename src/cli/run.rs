//! `stepc run`

use super::args::RunArgs;
use super::exit::Failure;
use super::inputs::{data_config, output, place, weights};
use super::session::Session;
use super::target::{compile, read_plan};
use super::train::{Trained, save, train};
use crate::data::Loader;
use crate::diag::Diagnostic;
use crate::plan::{Demand, Plan};
use crate::recipe::{DeviceKind, Origins, Stage};
use crate::report::{Metrics, bytes, duration};
use crate::runtime::Cpu;
use std::sync::Arc;
use std::time::Instant;

/// Passes over the data beyond which pretraining learns little.
const MOST_PASSES: f64 = 4.0;

/// Compiles what has to be compiled, checks data and weights, and trains.
pub fn run(session: &mut Session, args: &RunArgs) -> Result<(), Failure> {
    let started = Instant::now();
    let (plan, origins) = match args.recipe.file.extension() {
        Some(extension) if extension == "ron" => (read_plan(&args.recipe.file)?, None),
        _ => compile(session, args).map(|(plan, origins)| (plan, Some(origins)))?,
    };
    if let Some(checkpoint) = plan.checkpoint.as_ref().filter(|c| c.every < plan.train.steps) {
        let message = format!(
            "the CPU engine writes the weights once, at the end, and not every {} steps",
            checkpoint.every
        );
        let warning = Diagnostic::warning("step::run::checkpoint_every", message);
        let place = origins.as_ref().and_then(|o| o.span("checkpoint.every"));
        session.sink.push(warning.label(place, "set here"));
    }
    session.show_warnings();
    let placed = |diagnostic| place(diagnostic, origins.as_ref());
    executable(&plan, origins.as_ref()).map_err(Failure::Input)?;
    let plan = Arc::new(plan);
    let weights = weights(&plan).map_err(placed)?;
    let loader = Loader::open(&data_config(&plan.data, &plan.train, plan.vocab), plan.mesh.devices as usize)
        .map_err(placed)?;
    let folder = output(args, &plan);
    let metrics = Metrics::create(&folder).map_err(placed)?;
    outlook(session, &plan, &loader, origins.as_ref());
    session.print(&format!("metrics go to {}\n\n", metrics.path().display()));
    let trained = train(session, args, &plan, &loader, weights.as_ref(), metrics)?;
    summary(session, &plan, &loader, &trained, started);
    session.sink.extend(loader.statistics().left_out());
    if trained.outcome.steps < plan.train.steps {
        return Err(Failure::Interrupted);
    }
    let path = folder.join("model.safetensors");
    save(&plan, trained.parameters, &path)?;
    session.print(&format!("weights are in {}\n", path.display()));
    Ok(())
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
    refused.extend(Cpu::supports(plan).err().map(|problem| place(problem, origins)));
    if refused.is_empty() { Ok(()) } else { Err(refused) }
}

/// What the data is, and how often the run will pass over it.
fn outlook(session: &mut Session, plan: &Plan, loader: &Loader, origins: Option<&Origins>) {
    let (found, train) = (loader.statistics(), &plan.train);
    let sequences = train.steps.saturating_mul(train.global_batch);
    let passes = found.passes(sequences.saturating_mul(plan.data.sequence));
    let files = if found.files == 1 { "file" } else { "files" };
    session.print(&format!(
        "{} {files} of data, {}; {sequences} sequences are about {passes:.2} passes over it; ",
        found.files,
        bytes(found.bytes),
    ));
    if train.stage == Stage::Pretrain && passes > MOST_PASSES {
        let message = format!("{} steps pass over the data about {passes:.0} times", train.steps);
        let warning = Diagnostic::warning("step::data::epochs", message)
            .label(origins.and_then(|o| o.span("train.steps")), "set here")
            .help("add data, or take fewer steps: beyond four passes little is learned");
        session.sink.push(warning);
        session.show_warnings();
    }
}

/// Time, loss beside that of guessing by frequency, and memory beside the plan.
fn summary(session: &Session, plan: &Plan, loader: &Loader, trained: &Trained, started: Instant) {
    let Some(last) = trained.last else { return };
    let (style, outcome) = (session.style(), trained.outcome);
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
    for line in data.told() {
        session.print(&format!("{line}\n"));
    }
    session.print(&format!(
        "{:.2} epochs; {} used by a rank at most, {} planned\n",
        data.epochs,
        bytes(outcome.used),
        bytes(plan.memory.peak),
    ));
}

//! `stepc run`

use super::args::RunArgs;
use super::exit::Failure;
use super::export::{self, SHARD, described};
use super::inputs::{data_config, output, weights};
use super::resume::{changed_data, manifest, resume};
use super::session::Session;
use super::target::{compile, here, read_plan};
use super::train::{Trained, train};
use crate::check::place;
use crate::checkpoint::{Checkpoint, Home, Manifest, Saver, Target, compare};
use crate::data::Loader;
use crate::diag::Diagnostic;
use crate::plan::{Demand, Mesh, Plan};
use crate::recipe::{DeviceKind, Origins, Stage};
use crate::report::{Metrics, bytes, checkpoint_line, duration};
use crate::runtime::{Ascend, Checkpoints, Cpu, Loaded, Npus};
use crate::weights::{Audit, Folder};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Passes over the data beyond which pretraining learns little.
const MOST_PASSES: f64 = 4.0;

/// Compiles what has to be compiled, checks data and weights, and trains.
pub fn run(session: &mut Session, args: &RunArgs) -> Result<(), Failure> {
    let started = Instant::now();
    let npus = Npus::default();
    let (plan, origins) = match args.recipe.file.extension() {
        Some(extension) if extension == "ron" => (read_plan(&args.recipe.file)?, None),
        _ => compile(session, args, &npus).map(|(plan, origins)| (plan, Some(origins)))?,
    };
    let placed = |diagnostic| place(diagnostic, origins.as_ref());
    executable(&plan, &npus, origins.as_ref()).map_err(Failure::Input)?;
    session.show_warnings();
    let plan = Arc::new(plan);
    let folder = output(args, &plan);
    let going_on = resume(args, &folder).map_err(placed)?;
    let now = manifest(&plan).map_err(placed)?;
    if let Some(checkpoint) = &going_on {
        let changed = compare(checkpoint.manifest(), &now, origins.as_ref()).map_err(Failure::Input)?;
        session.sink.extend(changed);
        session.show_warnings();
    }
    let checkpoints = Checkpoints { resume: going_on.as_ref(), saver: None };
    let start = checkpoints.start();
    if let Some(checkpoint) = going_on.as_ref().filter(|_| start.step >= plan.train.steps) {
        session.print(&format!("all {} steps are done in {}\n", start.step, checkpoint.path().display()));
        return weights_of(session, checkpoint, &folder);
    }
    // A checkpoint holds all that weights would give.
    let weights = if going_on.is_some() { None } else { weights(&plan).map_err(placed)? };
    for warning in weights.iter().flat_map(|(_, audit)| audit.warnings.clone()) {
        session.sink.push(placed(warning));
    }
    session.show_warnings();
    let config = data_config(&plan.data, &plan.train, plan.vocab);
    let readers = plan.mesh.devices as usize;
    let loader = match going_on.as_ref().and_then(|checkpoint| checkpoint.manifest().position.data.as_ref()) {
        Some(position) => Loader::open_at(&config, position, readers),
        None => Loader::open(&config, readers),
    };
    let loader = loader.map_err(placed)?;
    session.sink.extend(loader.changed().iter().map(|changed| changed_data(changed, origins.as_ref())));
    session.show_warnings();
    let home = Home::open(&folder).map_err(placed)?;
    let left = home.sweep().map_err(placed)?;
    let metrics = match going_on {
        Some(_) => Metrics::resume(&folder, start.step),
        None => Metrics::create(&folder),
    };
    let metrics = metrics.map_err(placed)?;
    outlook(session, &plan, &loader, origins.as_ref());
    session.print(&format!("metrics go to {}\n", metrics.path().display()));
    going_on_from(session, &plan, going_on.as_ref(), &left);
    if let Some((folder, audit)) = &weights {
        session.print(&format!("{}\n", beside(folder, audit)));
    }
    let weights = weights.map(|(folder, _)| folder);
    let base = match &going_on {
        Some(checkpoint) => {
            Manifest { step: start.step, position: checkpoint.manifest().position.clone(), ..now.clone() }
        }
        None => now.clone(),
    };
    let saver = plan.checkpoint.as_ref().map(|cadence| Saver::new(&plan, cadence, home, base)).transpose()?;
    let checkpoints = Checkpoints { saver: saver.as_ref(), ..checkpoints };
    let trained = train(session, args, &plan, &loader, weights.as_ref(), checkpoints, metrics)?;
    let saved = saver.map(Saver::finish).transpose()?.unwrap_or_default();
    saved.iter().for_each(|saved| session.print(&format!("{}\n", checkpoint_line(saved))));
    summary(session, &plan, &loader, &trained, started);
    session.sink.extend(loader.statistics().left_out());
    if let Some(folder) = &weights {
        session.print(&loaded(&trained.outcome.loaded, folder.bytes()));
    }
    if trained.outcome.steps < plan.train.steps {
        if plan.checkpoint.is_some() {
            session.print(&format!("`--resume` goes on behind step {}\n", trained.outcome.steps));
        }
        return Err(Failure::Interrupted);
    }
    match &trained.parameters {
        None => weights_of(session, &Checkpoint::open(&folder)?, &folder),
        Some(parameters) => {
            let exported = export::parameters(&now, parameters, None, SHARD, Target::Run(&folder))?;
            session.print(&format!("weights: {}\n", described(&exported, &folder)));
            Ok(())
        }
    }
}

/// Leaves the weights of a checkpoint in the run's folder, as other programs read them.
fn weights_of(session: &Session, checkpoint: &Checkpoint, folder: &Path) -> Result<(), Failure> {
    let exported = export::parameters(checkpoint.manifest(), checkpoint, None, SHARD, Target::Run(folder))?;
    session.print(&format!("weights: {}\n", described(&exported, folder)));
    Ok(())
}

/// What a checkpoint holds beside the parameters that are trained.
fn beside(folder: &Folder, audit: &Audit) -> String {
    let tensors = |n: usize| if n == 1 { "1 tensor".to_owned() } else { format!("{n} tensors") };
    let kept =
        (!audit.kept.is_empty()).then(|| format!("; {} of no parameter kept", tensors(audit.kept.len())));
    let ignored = audit.ignored.iter().map(|(n, reason)| format!("; {} left alone: {reason}", tensors(*n)));
    let rest: String = kept.into_iter().chain(ignored).collect();
    format!("weights of {}{rest}", bytes(folder.bytes()))
}

/// What every rank has read of a checkpoint of `all` bytes, in a line a rank.
fn loaded(ranks: &[Loaded], all: u64) -> String {
    let line = |(rank, Loaded { bytes: read, seconds }): (usize, &Loaded)| {
        format!("rank {rank} read {} of {} in {}\n", bytes(*read), bytes(all), duration(*seconds))
    };
    ranks.iter().enumerate().map(line).collect()
}

/// From where the run goes on, by which layout, and what an ended run has left behind.
fn going_on_from(session: &Session, plan: &Plan, checkpoint: Option<&Checkpoint>, left: &[String]) {
    if !left.is_empty() {
        session.print(&format!("removed what an ended run had not finished: {}\n", left.join(", ")));
    }
    if let Some(checkpoint) = checkpoint {
        let Manifest { step, position, mesh, .. } = checkpoint.manifest();
        let layout = |mesh: &Mesh| {
            format!("{} ranks, fsdp {}, ep {}, ep_fsdp {}", mesh.devices, mesh.fsdp, mesh.ep, mesh.ep_fsdp)
        };
        let written = match *mesh == plan.mesh {
            true => String::new(),
            false => format!(", written by {} and read by {}", layout(mesh), layout(&plan.mesh)),
        };
        session.print(&format!(
            "going on behind step {step} and {} sequences from {}{written}\n",
            position.sequences,
            checkpoint.path().display(),
        ));
    }
    session.print("\n");
}

/// What the native engine cannot run is refused before anything is touched.
fn executable(plan: &Plan, npus: &Npus, origins: Option<&Origins>) -> Result<(), Vec<Diagnostic>> {
    let kind = plan.cluster.device.kind;
    if let Err(message) = here(&plan.cluster, npus) {
        let problem = Diagnostic::error("step::run::no_target", message)
            .help("compile the plan of a profile for cpu: `stepc plan RECIPE --profile NAME --output FILE`");
        return Err(vec![problem]);
    }
    let engine = if kind == DeviceKind::Npu { "Ascend" } else { "CPU" };
    let refused = plan.demands.iter().map(|Demand { field, value }| {
        let key = field.rsplit('.').next().unwrap_or(field);
        let message =
            format!("the {engine} engine does not run `{key}` = {value}: it is checked and planned only");
        Diagnostic::error("step::run::unsupported", message)
            .label(origins.and_then(|origins| origins.nearest(field)), "set here")
            .help(format!(
                "leave `{key}` at its default in the profile for cpu, or run it on its own cluster"
            ))
    });
    let mut refused: Vec<_> = refused.collect();
    let supported = if kind == DeviceKind::Npu { Ascend::supports(plan) } else { Cpu::supports(plan) };
    refused.extend(supported.err().map(|problem| place(problem, origins)));
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
    let (style, outcome) = (session.style(), &trained.outcome);
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

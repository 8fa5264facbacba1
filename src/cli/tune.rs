//! `stepc tune`

use super::args::{As, Engine, RecipeArgs, TuneArgs};
use super::exit::Failure;
use super::replace::replace;
use super::session::Session;
use crate::base::SourceMap;
use crate::base::host::{Host, MemoryHost, OsHost};
use crate::diag::{Diagnostic, Sink};
use crate::plan::demands;
use crate::plan::search::{Candidate, Found, Options, Ranked, search};
use crate::recipe::{self, Loaded, Recipe, Recompute, Request, Resolved};
use crate::report::{bytes, tune_json, tune_page};
use indicatif::{ProgressBar, ProgressStyle};

/// Searches the layouts of the recipe, shows the best ones, and writes the winner where asked for.
pub fn tune(session: &mut Session, args: &TuneArgs) -> Result<(), Failure> {
    if let Some(name) = &args.write {
        writable(args, name)?;
    }
    let loaded = session.load(&args.recipe)?;
    if let Some(name) = &args.write {
        free(&loaded, name)?;
    }
    let resolved = session.resolve(&loaded, args.recipe.profile.as_deref())?;
    if args.engine == Engine::Native {
        runs(&resolved)?;
    }
    let options = Options { engine: args.engine.into(), headroom: args.headroom, top: usize::from(args.top) };
    let found = run(&resolved.recipe, options, &args.recipe);
    let Some(winner) = found.best.first() else {
        return Err(nothing_fits(&found, &resolved).into());
    };
    match args.output {
        As::Text => session.print(&tune_page(&resolved.recipe, &found, session.style())),
        As::Json => {
            let json = tune_json(&resolved.recipe, resolved.profile.as_deref(), &found);
            session.print(&format!("{json:#}\n"));
        }
    }
    if let Some(name) = &args.write {
        write(&loaded, args, name, winner, &found)?;
        if args.output == As::Text {
            session.print(&format!("\nwritten to {} as profile `{name}`\n", args.recipe.file.display()));
        }
    }
    Ok(())
}

/// The search with a bar on standard error; `indicatif` shows none where that is no terminal.
fn run(recipe: &Recipe, options: Options, args: &RecipeArgs) -> Found {
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos} of {len} layouts") {
        bar.set_style(style);
    }
    let own = Candidate::of(recipe);
    let mut resolve = |c: &Candidate| resolved_with(args, c.overrides(options.engine, &own));
    let found = search(recipe, options, &mut resolve, &mut |done, all| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    found
}

/// The recipe with a layout as further `--set` arguments: what `stepc check` would see.
fn resolved_with(args: &RecipeArgs, overrides: Vec<String>) -> Option<Recipe> {
    let mut request = request(args);
    request.set.extend(overrides);
    let (mut sources, mut sink) = (SourceMap::default(), Sink::default());
    let loaded = recipe::load(&OsHost, &request, &mut sources, &mut sink)?;
    loaded.resolve(args.profile.as_deref(), &mut sink).map(|resolved| resolved.recipe)
}

fn request(args: &RecipeArgs) -> Request {
    Request {
        path: args.file.clone(),
        recipe: args.recipe.clone(),
        profile: args.profile.clone(),
        set: args.set.clone(),
    }
}

fn nothing_fits(found: &Found, resolved: &Resolved) -> Diagnostic {
    let share = format!("{:.0}%", found.options.headroom * 100.0);
    let (budget, all) = (bytes(found.budget), bytes(found.memory));
    let message = format!(
        "none of {} legal layouts fits into {budget} a device ({all}, {share} of it kept free)",
        found.legal
    );
    let place = resolved.origins.nearest("cluster.device.memory");
    let problem =
        Diagnostic::error("step::tune::nothing_fits", message).label(place, format!("{all} a device"));
    let Some(Ranked { candidate, held, .. }) = &found.nearest else { return problem };
    let (what, most) = held.dominating;
    let advice = match held.peak <= found.memory {
        true => "it fits with less `--headroom`",
        false => {
            "more nodes, a shorter `data.sequence` or a smaller `train.global_batch` a device would help"
        }
    };
    problem.help(format!(
        "the smallest one needs {}, of which {what} take {}: {}\n{advice}",
        bytes(held.peak),
        bytes(most),
        candidate.overrides(found.options.engine, &found.own.candidate).join(" ")
    ))
}

/// The native program has everything that the recipe asks for, but for what the search chooses itself.
fn runs(resolved: &Resolved) -> Result<(), Diagnostic> {
    let mut recipe = resolved.recipe.clone();
    recipe.parallel.recompute = Recompute::None;
    let demands = demands(&recipe);
    let Some(first) = demands.first() else { return Ok(()) };
    let message = format!("the native engine does not do `{} = {}`", first.field, first.value);
    let mut problem = Diagnostic::error("step::tune::native", message);
    for demand in &demands {
        problem =
            problem.label(resolved.origins.nearest(&demand.field), format!("asks for `{}`", demand.value));
    }
    Err(problem.help("tune for an engine that does, with `--engine`, or leave it out"))
}

/// The arguments that a profile could not stand for.
fn writable(args: &TuneArgs, name: &str) -> Result<(), Diagnostic> {
    let mut letters = name.chars();
    let starts = letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    if !starts || !letters.all(|c| c.is_ascii_alphanumeric() || c == '_') {
        let message = format!("`{name}` cannot be the name of a profile");
        let help = "use letters, digits and `_`, not beginning with a digit";
        return Err(Diagnostic::error("step::tune::name", message).help(help));
    }
    if let Some(set) = args.recipe.set.first() {
        let message = format!("the winner was found with `--set {set}`, which a profile would not have");
        let help = "write the overrides into the recipe first, or leave one of the two out";
        return Err(Diagnostic::error("step::tune::set", message).help(help));
    }
    Ok(())
}

fn free(loaded: &Loaded, name: &str) -> Result<(), Diagnostic> {
    let Some(taken) = loaded.profiles().iter().find(|profile| profile.name == name) else { return Ok(()) };
    let message = format!("recipe `{}` has a profile `{name}` already", loaded.recipe());
    Err(Diagnostic::error("step::tune::taken", message)
        .label(taken.span, "this one")
        .help("choose another name, or delete that profile"))
}

/// Adds the winner to the recipe's file as a profile, which is checked before the file is replaced.
fn write(
    loaded: &Loaded,
    args: &TuneArgs,
    name: &str,
    winner: &Ranked,
    found: &Found,
) -> Result<(), Diagnostic> {
    let path = &args.recipe.file;
    let unwritable = |what: String| {
        let message = format!("cannot add the profile to {}: {what}", path.display());
        Diagnostic::error("step::output::unwritable", message).label(loaded.head(), "this recipe")
    };
    let text = OsHost.read_text(path).map_err(|error| unwritable(error.to_string()))?;
    let base = args.recipe.profile.as_ref().map(|base| format!(" : {base}")).unwrap_or_default();
    let note = format!(
        "stepc tune --engine {} --headroom {:.0}%: {:.2} s a step, {} a device",
        found.options.engine.word(),
        found.options.headroom * 100.0,
        winner.time.step,
        bytes(winner.held.peak)
    );
    let (head, blocks) = (
        format!("profile {name}{base}"),
        winner.candidate.blocks(found.options.engine, &found.own.candidate),
    );
    let end = loaded.span().map(|span| span.range().end);
    let changed = end.and_then(|end| recipe::with_profile(&text, end, &note, &head, &blocks));
    let changed =
        changed.ok_or_else(|| unwritable("the recipe has no closing brace of its own".to_owned()))?;
    let host = MemoryHost::over(OsHost).with(path, changed.as_str());
    let holds = |candidate: &Candidate| {
        let (mut sources, mut sink) = (SourceMap::default(), Sink::default());
        let request = Request { profile: Some(name.to_owned()), ..request(&args.recipe) };
        let loaded = recipe::load(&host, &request, &mut sources, &mut sink)?;
        let resolved = loaded.resolve(Some(name), &mut sink)?;
        (Candidate::of(&resolved.recipe) == *candidate).then_some(())
    };
    holds(&winner.candidate).ok_or_else(|| unwritable("it would not mean what was found".to_owned()))?;
    replace(path, changed.as_bytes()).map_err(|error| unwritable(error.to_string()))
}

//! Measuring every layout, ranking them, and confirming the best ones.

use super::fields::{Candidate, Space};
use super::native::Skeletons;
use crate::model::Model;
use crate::plan::compile::{Task, compile};
use crate::plan::estimate::{Engine, Question, Time};
use crate::recipe::Recipe;
use std::cmp::Ordering;
use std::collections::HashSet;

/// The largest number of layouts that are compiled, whether they turn out to fit or not.
const TRIES: usize = 200;

/// What is searched for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    pub engine: Engine,
    /// The share of a device's memory that is to stay free.
    pub headroom: f64,
    /// Layouts to confirm and return.
    pub top: usize,
}

/// Memory of the fullest device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Held {
    pub peak: u64,
    /// What takes most of it at the peak, and how much.
    pub dominating: (&'static str, u64),
}

/// A layout with what was found out about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranked {
    pub candidate: Candidate,
    /// Its place from 1, of the layouts that differ in recomputation and prefetch only one counted; `None` where it does
    /// not fit.
    pub rank: Option<usize>,
    pub time: Time,
    pub held: Held,
    /// It is the recipe's own.
    pub own: bool,
}

/// The outcome of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    pub options: Options,
    /// Bytes of a device, and of those what a layout may take.
    pub memory: u64,
    pub budget: u64,
    /// Layouts without regard to the rules, those that the rules allow, and of those the ones that fit.
    pub combinations: u64,
    pub legal: usize,
    pub fitting: usize,
    /// Layouts whose recipe was resolved and compiled, and those among them that broke a `require` of the recipe.
    pub confirmed: usize,
    pub refused: usize,
    /// Whether no layout that could be faster than the ones returned was left out.
    pub exhaustive: bool,
    pub own: Ranked,
    /// The fastest first: of the layouts that differ in recomputation and prefetch only, the fastest one.
    pub best: Vec<Ranked>,
    /// Where nothing fits: what needs least.
    pub nearest: Option<Ranked>,
}

/// A layout as the ranking sees it.
struct Entry {
    candidate: Candidate,
    time: Time,
    bytes: u64,
}

/// Searches the layouts of `recipe`.
///
/// `resolve` gives the recipe as it stands with a layout written into it, or `None` where that is not valid. `progress` is
/// called with the number of layouts that are measured and the number of all.
pub fn search(
    recipe: &Recipe,
    options: Options,
    resolve: &mut dyn FnMut(&Candidate) -> Option<Recipe>,
    progress: &mut dyn FnMut(usize, usize),
) -> Found {
    let model = Model::build(&recipe.model, recipe.parallel.precision.params);
    let space = Space::new(recipe, &model, options.engine);
    let question = Question::new(recipe, &model, options.engine);
    let memory = recipe.cluster.device.memory;
    let budget = (memory as f64 * (1.0 - options.headroom)) as u64;

    let mut entries = measure(recipe, &model, &space, &question, progress);
    entries.sort_by(|a, b| faster(a, b, &space.own));
    let fitting: Vec<&Entry> = entries.iter().filter(|entry| entry.bytes <= budget).collect();
    let own = own(recipe, &space, &question, &fitting, budget);
    let mut found = Found {
        options,
        memory,
        budget,
        combinations: space.combinations(),
        legal: entries.len(),
        fitting: fitting.len(),
        confirmed: 0,
        refused: 0,
        exhaustive: true,
        own,
        best: Vec::new(),
        nearest: None,
    };
    confirm(&mut found, &fitting, &question, resolve);
    if found.best.is_empty() {
        let least = entries.iter().min_by_key(|entry| entry.bytes);
        found.nearest = least.map(|entry| {
            let held = held(&entry.candidate.applied(recipe), &entry.candidate, &question);
            Ranked { candidate: entry.candidate, rank: None, time: entry.time, held, own: false }
        });
    }
    found
}

fn measure(
    recipe: &Recipe,
    model: &Model,
    space: &Space,
    question: &Question,
    progress: &mut dyn FnMut(usize, usize),
) -> Vec<Entry> {
    let legal = space.legal();
    let all = legal.len();
    let mut skeletons = Skeletons::new(recipe, model);
    let entries = legal.into_iter().enumerate().map(|(done, candidate)| {
        progress(done, all);
        let bytes = match question.engine {
            Engine::Native => skeletons.live(&candidate),
            _ => candidate.memory(question).needed() as u64,
        };
        Entry { candidate, time: candidate.time(question), bytes }
    });
    entries.collect()
}

/// Faster, then smaller, then nearer to the recipe's own layout.
fn faster(a: &Entry, b: &Entry, own: &Candidate) -> Ordering {
    let changed =
        |c: &Candidate| c.overrides().iter().zip(own.overrides()).filter(|(x, y)| **x != *y).count();
    let time = a.time.step.total_cmp(&b.time.step).then(a.bytes.cmp(&b.bytes));
    time.then_with(|| changed(&a.candidate).cmp(&changed(&b.candidate)))
}

/// What stays when recomputation and prefetch change.
fn division(c: &Candidate) -> [u64; 4] {
    [c.fsdp, c.ep, c.ep_fsdp, c.micro_batch]
}

/// Goes down the ranking until enough layouts are known to be valid and to fit.
fn confirm(
    found: &mut Found,
    fitting: &[&Entry],
    question: &Question,
    resolve: &mut dyn FnMut(&Candidate) -> Option<Recipe>,
) {
    let own = found.own.candidate;
    let mut shown = HashSet::new();
    for entry in fitting {
        if found.best.len() == found.options.top {
            return;
        }
        let division = division(&entry.candidate);
        if shown.contains(&division) && entry.candidate != own {
            continue;
        }
        if found.confirmed == TRIES {
            found.exhaustive = false;
            return;
        }
        found.confirmed += 1;
        let Some(recipe) = resolve(&entry.candidate) else {
            found.refused += 1;
            continue;
        };
        let held = held(&recipe, &entry.candidate, question);
        if held.peak <= found.budget {
            shown.insert(division);
            let (candidate, time) = (entry.candidate, entry.time);
            let rank = Some(found.best.len() + 1);
            found.best.push(Ranked { candidate, rank, time, held, own: candidate == own });
        }
    }
}

fn own(recipe: &Recipe, space: &Space, question: &Question, fitting: &[&Entry], budget: u64) -> Ranked {
    let candidate = space.own;
    let held = held(recipe, &candidate, question);
    let place = fitting.iter().position(|entry| entry.candidate == candidate);
    let before =
        |at: usize| fitting[..at].iter().map(|entry| division(&entry.candidate)).collect::<HashSet<_>>();
    let rank = place.filter(|_| held.peak <= budget).map(|at| before(at).len() + 1);
    Ranked { candidate, rank, time: candidate.time(question), held, own: true }
}

/// Memory of a recipe: exact for the native program, an estimate for other engines.
fn held(recipe: &Recipe, candidate: &Candidate, question: &Question) -> Held {
    if question.engine != Engine::Native {
        let memory = candidate.memory(question);
        let (what, bytes) = memory.dominating();
        return Held { peak: memory.needed() as u64, dominating: (what.word(), bytes as u64) };
    }
    let memory = compile(recipe, None, Task::Train).memory;
    let most = memory.at_peak.iter().max_by_key(|(_, bytes)| **bytes);
    let dominating = most.map_or(("parameters", 0), |(category, bytes)| (category.word(), *bytes));
    Held { peak: memory.peak, dominating }
}

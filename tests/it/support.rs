//! What several tests need: recipes from text, sequences from memory, runs that are looked into.

use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use stepc::base::SourceMap;
use stepc::base::host::{MemoryHost, OsHost};
use stepc::data::Sequence;
use stepc::diag::{Diagnostic, Sink, render};
use stepc::plan::{Plan, Task, compile};
use stepc::recipe::{Request, Resolved, load};
use stepc::runtime::{Checkpoints, Feed, Job, Kind, Snapshot, StepReport};
use stepc::weights::Folder;

/// Tensors by checkpoint name, with their shapes.
pub type Tensors = std::collections::BTreeMap<String, (Vec<u64>, Vec<f32>)>;

/// Resolves a recipe file with overrides; what is wrong with it fails the test.
pub fn resolve(path: impl AsRef<Path>, profile: Option<&str>, set: &[&str]) -> Resolved {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let set = set.iter().map(|s| s.to_string()).collect();
    let request = Request { path, recipe: None, profile: profile.map(str::to_owned), set };
    let (mut sources, mut sink) = (SourceMap::default(), Sink::default());
    let resolved =
        load(&OsHost, &request, &mut sources, &mut sink).and_then(|l| l.resolve(profile, &mut sink));
    let style = render::Style { color: false, width: 100, unicode: true };
    let found = render::render(&sink.finish(), &sources, render::Format::Human, style);
    resolved.unwrap_or_else(|| panic!("{found}"))
}

/// How tests show diagnostics.
pub fn style() -> render::Style {
    render::Style { color: false, width: 100, unicode: true }
}

/// Holds a text against its snapshot; what differs from system to system is left out.
pub fn snapshot(name: &str, text: &str) {
    let filters = vec![(r" \(os error \d+\)", "")];
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false, filters => filters }, {
        insta::assert_snapshot!(name, text);
    });
}

/// Everything that is said about the recipe in `root`, one of `files`: under `profile`, or as it stands and under each of
/// its profiles.
pub fn check_files(
    files: &[(&str, &str)],
    root: &str,
    profile: Option<&str>,
    set: &[&str],
) -> (Vec<Diagnostic>, SourceMap) {
    let host = files.iter().fold(MemoryHost::new(), |host, (path, text)| host.with(path, *text));
    let set = set.iter().map(|set| (*set).to_owned()).collect();
    let request = Request { path: root.into(), recipe: None, profile: profile.map(str::to_owned), set };
    let (mut sources, mut sink) = (SourceMap::default(), Sink::default());
    match (load(&host, &request, &mut sources, &mut sink), profile) {
        (Some(loaded), Some(profile)) => drop(loaded.resolve(Some(profile), &mut sink)),
        (Some(loaded), None) => drop(loaded.check_all(&mut sink)),
        (None, _) => {}
    }
    (sink.finish(), sources)
}

/// Compiles a recipe file with overrides.
pub fn plan(path: impl AsRef<Path>, profile: Option<&str>, set: &[&str], task: Task) -> Arc<Plan> {
    let resolved = resolve(path, profile, set);
    Arc::new(compile(&resolved.recipe, profile, task))
}

/// Sequences that a test has made, repeated for ever.
pub struct Fixed(pub Vec<Arc<Sequence>>);

impl Feed for Fixed {
    fn sequence(&self, _rank: u64, index: u64) -> Result<Arc<Sequence>, Diagnostic> {
        Ok(Arc::clone(&self.0[index as usize % self.0.len()]))
    }
}

/// A sequence of one document in which every token but the last has the next one as its label.
pub fn sequence(tokens: Vec<u32>) -> Arc<Sequence> {
    let labels = tokens[1..].iter().map(|t| *t as i32).chain([-1]).collect();
    let length = tokens.len() as u32;
    Arc::new(Sequence { labels, segments: vec![0, length], positions: (0..length).collect(), tokens })
}

/// A run: its reports, and parameters and gradients as they are behind `look_at`.
pub struct Trained {
    pub reports: Vec<StepReport>,
    pub gradients: Tensors,
    pub parameters: Tensors,
}

/// Trains and collects gradients behind the first step and parameters behind the last.
pub fn train(plan: &Arc<Plan>, feed: &dyn Feed, weights: Option<&Folder>, threads: usize) -> Trained {
    let gradients = Snapshot::new(Arc::clone(plan), Kind::Gradients);
    let parameters = Snapshot::new(Arc::clone(plan), Kind::Parameters);
    let stop = AtomicBool::new(false);
    let reports = Mutex::new(Vec::new());
    let job = Job {
        plan: Arc::clone(plan),
        feed,
        weights,
        checkpoints: Checkpoints::default(),
        threads,
        stop: &stop,
        inspect: &|rank, report| {
            if report.step == 1 {
                gradients.add(rank);
            }
            if report.last {
                parameters.add(rank);
            }
        },
    };
    let run = job.run(|report| reports.lock().unwrap().push(*report));
    run.unwrap_or_else(|problem| panic!("{problem:?}"));
    Trained {
        reports: reports.into_inner().unwrap(),
        gradients: gradients.tensors(),
        parameters: parameters.tensors(),
    }
}

/// The largest absolute difference, and the largest absolute value of `b`.
pub fn difference(a: &[f32], b: &[f32]) -> (f64, f64) {
    assert_eq!(a.len(), b.len());
    let pairs = a.iter().zip(b).map(|(a, b)| (f64::from(*a) - f64::from(*b)).abs());
    let largest = b.iter().map(|b| f64::from(*b).abs()).fold(0.0, f64::max);
    (pairs.fold(0.0, f64::max), largest)
}

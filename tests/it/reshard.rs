//! A run that goes on from a checkpoint is the run that was never stopped: bit for bit by the same layout, to rounding by any
//! other.

use crate::support::{Fixed, difference, plan, sequence};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use stepc::checkpoint::{
    Checkpoint, Elements, Export, Home, Manifest, Position, Saver, Target, export, list, newest,
};
use stepc::data::Sequence;
use stepc::diag::Diagnostic;
use stepc::plan::{Contents, Plan, Role, Task};
use stepc::recipe;
use stepc::runtime::{Checkpoints, Feed, Job, StepReport};
use stepc::weights::{self, Folder, Output};
use tempfile::TempDir;

const RECIPE: &str = "tests/golden/step35.step";
const STEPS: u64 = 6;

/// Sequences that differ, and the numbers of those that were asked for.
struct Counting {
    sequences: Fixed,
    asked: Mutex<Vec<u64>>,
}

impl Counting {
    fn new() -> Counting {
        let sequences = (1..=5).map(|k| sequence((0..48).map(|i| (i * i * k + 7 * k) % 512).collect()));
        Counting { sequences: Fixed(sequences.collect()), asked: Mutex::default() }
    }
}

impl Feed for Counting {
    fn sequence(&self, rank: u64, index: u64) -> Result<Arc<Sequence>, Diagnostic> {
        self.asked.lock().unwrap().push(index);
        self.sequences.sequence(rank, index)
    }
}

/// A layout: devices, fsdp, ep, ep_fsdp.
type Layout = [u64; 4];

fn planned([devices, fsdp, ep, ep_fsdp]: Layout, every: u64, weights_every: Option<u64>) -> Arc<Plan> {
    let set = [
        format!("cluster.devices={devices}"),
        format!("parallel.fsdp={fsdp}"),
        format!("parallel.ep={ep}"),
        format!("parallel.ep_fsdp={ep_fsdp}"),
        format!("train.steps={STEPS}"),
        "train.global_batch=4".to_owned(),
        "train.micro_batch=1".to_owned(),
        "model.weights=scratch".to_owned(),
    ];
    let set: Vec<&str> = set.iter().map(String::as_str).collect();
    let mut plan = Arc::unwrap_or_clone(plan(RECIPE, None, &set, Task::Train));
    let dir = "unused".into();
    plan.checkpoint = Some(recipe::Checkpoint { dir, every, keep: 9, weights_every, weights_keep: None });
    Arc::new(plan)
}

struct Ran {
    reports: Vec<StepReport>,
    asked: Vec<u64>,
}

/// Trains with checkpoints in `home`, from the beginning or from a checkpoint.
fn run(plan: &Arc<Plan>, home: &Path, from: Option<&Checkpoint>) -> Ran {
    let start = Checkpoints { resume: from, saver: None }.start();
    let base = Manifest {
        step: start.step,
        position: Position { sequences: start.sequences, data: None },
        ..Manifest::of(plan, String::new()).unwrap()
    };
    let cadence = plan.checkpoint.as_ref().unwrap();
    let saver = Saver::new(plan, cadence, Home::open(home).unwrap(), base).unwrap();
    let (feed, stop, reports) = (Counting::new(), AtomicBool::new(false), Mutex::new(Vec::new()));
    let job = Job {
        plan: Arc::clone(plan),
        feed: &feed,
        weights: None,
        checkpoints: Checkpoints { resume: from, saver: Some(&saver) },
        threads: plan.mesh.devices as usize,
        stop: &stop,
        inspect: &|_, _| {},
    };
    job.run(|report| reports.lock().unwrap().push(*report)).unwrap();
    saver.finish().unwrap();
    let mut asked = feed.asked.into_inner().unwrap();
    asked.sort_unstable();
    Ran { reports: reports.into_inner().unwrap(), asked }
}

/// Parameters and moments of the newest checkpoint, whole.
fn state(home: &Path) -> Vec<(String, Vec<f32>)> {
    let checkpoint = Checkpoint::open(home).unwrap();
    let frozen = checkpoint.manifest().placement.frozen.clone();
    let mut state = Vec::new();
    for (id, parameter) in (0..).zip(&checkpoint.manifest().params) {
        let param = stepc::model::ParamId(id);
        for role in [Role::Parameter, Role::FirstMoment, Role::SecondMoment] {
            if checkpoint.holds(param) && (role == Role::Parameter || !frozen.contains(&param)) {
                let mut values = vec![f32::NAN; parameter.elements() as usize];
                checkpoint.read(role, parameter, 0..parameter.elements(), &mut values).unwrap();
                state.push((format!("{}/{}", role.word(), parameter.name), values));
            }
        }
    }
    state
}

fn at(home: &Path, step: u64) -> Checkpoint {
    let listed = list(home).into_iter().find(|l| l.step == step && l.contents == Contents::State).unwrap();
    Checkpoint::open(&listed.path).unwrap()
}

/// Loss, norm and rate of every step, to the bit.
fn bits(reports: &[StepReport]) -> Vec<[u64; 4]> {
    let of = |r: &StepReport| [r.step, r.loss.to_bits(), r.grad_norm.to_bits(), r.learning_rate.to_bits()];
    reports.iter().map(of).collect()
}

/// Uneven shards, copies of shards and padding among them.
const LAYOUTS: [Layout; 6] =
    [[1, 1, 1, 1], [2, 2, 2, 1], [4, 4, 2, 2], [4, 2, 2, 1], [4, 4, 1, 4], [4, 1, 4, 1]];

#[test]
fn what_all_ranks_write_is_every_element_once() {
    for (layout, contents) in LAYOUTS.into_iter().flat_map(|l| [(l, Contents::State), (l, Contents::Weights)])
    {
        let plan = planned(layout, 2, None);
        let ranks = (0..plan.mesh.devices).flat_map(|rank| plan.saved(rank, contents));
        let written: u64 = ranks.map(|slice| slice.len() * 4).sum();
        assert_eq!(plan.saved_bytes(contents), written, "{layout:?} {contents:?}");
    }
}

#[test]
fn by_the_same_layout_bit_for_bit() {
    for layout in LAYOUTS {
        let (plan, whole, parts) =
            (planned(layout, 2, None), TempDir::new().unwrap(), TempDir::new().unwrap());
        let reference = run(&plan, whole.path(), None);
        assert_eq!(list(whole.path()).iter().map(|l| l.step).collect::<Vec<_>>(), [2, 4, 6]);
        let again = run(&plan, parts.path(), Some(&at(whole.path(), 2)));
        assert_eq!(bits(&reference.reports[2..]), bits(&again.reports), "{layout:?}");
        let all: Vec<u64> = (0..4 * STEPS).collect();
        assert_eq!(reference.asked, all);
        assert_eq!(again.asked, all[8..], "no sequence comes twice, none is left out");
        for ((name, a), (_, b)) in state(whole.path()).iter().zip(&state(parts.path())) {
            let equal = a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(equal, "{layout:?}: {name}");
        }
    }
}

#[test]
fn by_another_layout_to_rounding() {
    let written: Vec<TempDir> = LAYOUTS
        .iter()
        .map(|layout| {
            let home = TempDir::new().unwrap();
            run(&planned(*layout, 3, None), home.path(), None);
            home
        })
        .collect();
    let reference = run(&planned(LAYOUTS[0], 3, None), TempDir::new().unwrap().path(), None);
    for (home, from) in written.iter().zip(LAYOUTS) {
        let checkpoint = at(home.path(), 3);
        for to in LAYOUTS.into_iter().filter(|to| *to != from) {
            let again = TempDir::new().unwrap();
            let ran = run(&planned(to, 3, None), again.path(), Some(&checkpoint));
            for (a, b) in reference.reports[3..].iter().zip(&ran.reports) {
                let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-5;
                assert!(near(a.loss, b.loss), "{from:?} → {to:?}: {} and {}", a.loss, b.loss);
                assert!(near(a.grad_norm, b.grad_norm), "{from:?} → {to:?}");
            }
            for ((name, a), (_, b)) in state(written[0].path()).iter().zip(&state(again.path())) {
                let norm = b.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
                assert!(difference(a, b).0 <= 2e-4 * norm.max(1e-6), "{from:?} → {to:?}: {name}");
            }
        }
    }
}

/// What is read by another layout is what was written, element by element.
#[test]
fn resharding_changes_no_bit() {
    let homes: Vec<TempDir> = LAYOUTS.iter().map(|_| TempDir::new().unwrap()).collect();
    run(&planned(LAYOUTS[2], 6, None), homes[0].path(), None);
    let mut before = state(homes[0].path());
    before.sort_by(|a, b| a.0.cmp(&b.0));
    for (home, layout) in homes[1..].iter().zip(LAYOUTS) {
        // Every rank of the other layout fills its memory from the checkpoint and writes it again.
        let plan = planned(layout, 6, None);
        let checkpoint = Checkpoint::open(homes[0].path()).unwrap();
        let manifest = Manifest::of(&plan, String::new()).unwrap();
        let cadence = plan.checkpoint.as_ref().unwrap();
        let saver = Saver::new(&plan, cadence, Home::open(home.path()).unwrap(), manifest).unwrap();
        save_from(&plan, &saver, &|role, param, elements, out| {
            checkpoint.read(role, &plan.params[param.0 as usize], elements, out).unwrap();
        });
        saver.finish().unwrap();
        let mut after = state(home.path());
        after.sort_by(|a, b| a.0.cmp(&b.0));
        assert!(before == after, "{layout:?}");
    }
}

type Values<'a> = dyn Fn(Role, stepc::model::ParamId, std::ops::Range<u64>, &mut [f32]) + 'a;

/// Hands over, for every rank, what `values` says is in its memory.
fn save_from(plan: &Plan, saver: &Saver, values: &Values) {
    for rank in 0..plan.mesh.devices {
        let held = plan.held(rank);
        let mut copy = |view: stepc::plan::View, out: &mut [f32]| {
            let inside = |s: &&stepc::plan::Slice| {
                let (start, end) = (s.view.offset, s.view.offset + s.len());
                s.view.buffer == view.buffer && (start..end).contains(&view.offset)
            };
            let slice = held.iter().find(inside).unwrap();
            let first = slice.elements.start + view.offset - slice.view.offset;
            values(slice.role, slice.param, first..first + out.len() as u64, out);
        };
        saver.behind(rank, plan.train.steps, true, &|_| Ok(None), &mut copy).unwrap();
    }
}

#[test]
fn weights_have_a_cadence_of_their_own() {
    let home = TempDir::new().unwrap();
    run(&planned([4, 2, 2, 1], 4, Some(1)), home.path(), None);
    let found: Vec<_> = list(home.path()).into_iter().map(|l| (l.step, l.contents)).collect();
    let weights = |step| (step, Contents::Weights);
    let states = |step| (step, Contents::State);
    assert_eq!(found, [weights(1), weights(2), weights(3), states(4), weights(5), states(6)]);
    assert_eq!(newest(home.path()).unwrap().step, 6);
    let small = Checkpoint::open(&list(home.path())[0].path).unwrap().manifest().bytes();
    let whole = Checkpoint::open(home.path()).unwrap().manifest().bytes();
    assert!(small * 2 < whole, "{small} and {whole} bytes");
}

/// Loaded and exported without training, a folder is what it was, tensor by tensor and byte by byte: names, shapes, types,
/// layers for multi-token prediction, and the files beside the weights.
#[test]
fn what_is_loaded_is_exported_again() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    for (recipe, folder) in [
        (RECIPE, "step35"),
        ("tests/golden/qwen3_moe.step", "qwen3_moe"),
        ("tests/golden/llama.step", "llama"),
    ] {
        let desk = TempDir::new().unwrap();
        let source = desk.path().join("source");
        mixed(&golden.join(folder), &source);
        let set = ["cluster.devices=2", "train.micro_batch=1", "train.global_batch=4"];
        let mut plan = Arc::unwrap_or_clone(plan(recipe, None, &set, Task::Train));
        plan.weights = recipe::Weights::Folder(source.clone());
        let cadence =
            recipe::Checkpoint { dir: "".into(), every: 9, keep: 1, weights_every: None, weights_keep: None };
        plan.checkpoint = Some(cadence.clone());
        let plan = Arc::new(plan);
        let weights = Folder::open(&source).unwrap();
        let home = desk.path().join("run");
        let manifest = Manifest::of(&plan, String::new()).unwrap();
        let saver = Saver::new(&plan, &cadence, Home::open(&home).unwrap(), manifest).unwrap();
        save_from(&plan, &saver, &|role, param, elements, out| {
            if role == Role::Parameter {
                read(&weights, &plan.params[param.0 as usize], elements, out);
            }
        });
        saver.finish().unwrap();
        let checkpoint = Checkpoint::open(&home).unwrap();
        for (shard, files) in [(5_000_000_000, 1), (40_000, 2)] {
            let target = desk.path().join(format!("exported{files}"));
            let exported = export(
                &Export {
                    copies: &[],
                    params: &checkpoint.manifest().params,
                    elements: &checkpoint,
                    source: Some(&source),
                    tokenizer: None,
                    dtype: None,
                    shard,
                },
                Target::New(&target),
            );
            let exported = exported.unwrap();
            assert!(if files == 1 { exported.files.len() == 1 } else { exported.files.len() > 2 });
            assert_eq!(exported.copied, ["config.json"]);
            assert_eq!(stored(&source), stored(&target), "{folder}");
            let config = |folder: &Path| std::fs::read(folder.join("config.json")).unwrap();
            assert_eq!(config(&source), config(&target));
            assert_eq!(std::fs::read_dir(desk.path()).unwrap().count(), if files == 1 { 3 } else { 4 });
        }
    }
}

/// A copy of a checkpoint in which matrices are bf16 and the rest is as it was.
fn mixed(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    std::fs::copy(from.join("config.json"), to.join("config.json")).unwrap();
    let source = Folder::open(from).unwrap();
    let outputs: Vec<Output> = source
        .names()
        .map(|name| {
            let shape = source.tensor(name).unwrap().shape.clone();
            let own = source.dtype(name).unwrap();
            let dtype = if shape.len() > 1 { stepc::base::DType::Bf16 } else { own };
            Output { name: name.to_owned(), dtype, shape }
        })
        .collect();
    weights::write(&to.join("model.safetensors"), &outputs, |output, writer| {
        let mut values = vec![0.0; output.elements() as usize];
        source.read_elements(&output.name, 0..output.elements(), &mut values).unwrap();
        writer.write(&values)
    })
    .unwrap();
}

/// Elements of a parameter from the tensors of a folder.
fn read(
    weights: &Folder,
    parameter: &stepc::model::Parameter,
    elements: std::ops::Range<u64>,
    out: &mut [f32],
) {
    for tensor in parameter.tensors() {
        let std::ops::Range { start, end } = tensor.elements;
        let (from, to) = (elements.start.max(start), elements.end.min(end));
        if from < to {
            let out = &mut out[(from - elements.start) as usize..(to - elements.start) as usize];
            weights.read_elements(&tensor.name, from - start..to - start, out).unwrap();
        }
    }
}

/// Every tensor of a folder by name: type, shape and bytes as they are in the file.
pub fn stored(folder: &Path) -> std::collections::BTreeMap<String, (String, String, Vec<u8>)> {
    let mut found = std::collections::BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "safetensors") {
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let listed: serde_json::Map<String, serde_json::Value> =
            serde_json::from_slice(&bytes[8..8 + header]).unwrap();
        for (name, tensor) in listed.into_iter().filter(|(name, _)| name != "__metadata__") {
            let at = |i: usize| 8 + header + tensor["data_offsets"][i].as_u64().unwrap() as usize;
            let (dtype, shape) = (tensor["dtype"].to_string(), tensor["shape"].to_string());
            found.insert(name, (dtype, shape, bytes[at(0)..at(1)].to_vec()));
        }
    }
    found
}

//! Multi-token prediction against PyTorch, and the same however the work is divided.

use crate::support::{Fixed, Trained, difference, plan, resolve, train};
use serde_json::Value;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use stepc::base::DType;
use stepc::checkpoint::{Elements, Export, Target};
use stepc::data::Sequence;
use stepc::diag::Diagnostic;
use stepc::model::{Model, ParamId};
use stepc::plan::{Op, Plan, Task, UnitId};
use stepc::weights::{self, Folder, Output};

const RECIPE: &str = "tests/golden/mtp.step";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/mtp")
}

fn facts() -> Value {
    serde_json::from_str(&std::fs::read_to_string(folder().join("golden.json")).unwrap()).unwrap()
}

/// The rows of the golden numbers, each of two documents.
fn sequences(facts: &Value) -> Vec<Arc<Sequence>> {
    let cut = facts["cut"].as_u64().unwrap() as u32;
    let rows: Vec<Vec<u32>> = serde_json::from_value(facts["input_ids"].clone()).unwrap();
    let sequence = |tokens: Vec<u32>| {
        let length = tokens.len() as u32;
        let mut labels: Vec<i32> = tokens[1..].iter().map(|t| *t as i32).chain([-1]).collect();
        labels[cut as usize - 1] = -1;
        let positions = (0..cut).chain(0..length - cut).collect();
        Arc::new(Sequence { tokens, labels, segments: vec![0, cut, length], positions })
    };
    rows.into_iter().map(sequence).collect()
}

fn run(set: &[&str], threads: usize) -> Trained {
    let weights = Folder::open(&folder()).unwrap();
    train(&plan(RECIPE, None, set, Task::Train), &Fixed(sequences(&facts())), Some(&weights), threads)
}

fn gradients(file: &str) -> Vec<(String, Vec<f32>)> {
    let path = folder().join(file);
    let folder = Folder::open(&path).unwrap();
    folder.names().map(|name| (name.to_owned(), values(&folder, name))).collect()
}

fn values(folder: &Folder, name: &str) -> Vec<f32> {
    let elements = folder.tensor(name).unwrap().shape.iter().product();
    let mut values = vec![0.0; elements as usize];
    folder.read_elements(name, 0..elements, &mut values).unwrap();
    values
}

#[test]
fn losses_and_gradients() {
    let facts = facts();
    for (head, kind) in [
        ("step", ["model.mtp.head=own", "model.mtp.input=state"]),
        ("deepseek", ["model.mtp.head=shared", "model.mtp.input=normed"]),
    ] {
        let trained = run(&[&kind[..], &["train.micro_batch=2"]].concat(), 2);
        let report = trained.reports[0];
        let losses: Vec<f64> = serde_json::from_value(facts[head]["losses"].clone()).unwrap();
        let further = (losses[1] + losses[2]) / 2.0;
        assert!((report.loss - losses[0]).abs() < 1e-5, "{head}: {} for {}", report.loss, losses[0]);
        assert!((report.mtp_loss - further).abs() < 1e-5, "{head}: {} for {further}", report.mtp_loss);
        let norm = facts[head]["grad_norm"].as_f64().unwrap();
        assert!((report.grad_norm / norm - 1.0).abs() < 1e-5, "{head}: {} for {norm}", report.grad_norm);
        let wanted = gradients(&format!("grads_{head}.safetensors"));
        assert_eq!(trained.gradients.len(), wanted.len());
        for (name, values) in wanted {
            let (error, largest) = difference(&trained.gradients[&name].1, &values);
            assert!(error <= 1e-5 * largest, "{head}: gradient of {name} is off by {error} of {largest}");
        }
    }
}

#[test]
fn whatever_the_layout() {
    for kind in
        [["model.mtp.head=own", "model.mtp.input=state"], ["model.mtp.head=shared", "model.mtp.input=normed"]]
    {
        let with = |set: &[&str], threads| run(&[&kind[..], set].concat(), threads);
        let reference = with(&["train.micro_batch=2"], 1);
        for set in [
            &["train.micro_batch=1"][..],
            &["train.micro_batch=2", "parallel.recompute=full"],
            &["train.micro_batch=2", "parallel.recompute=selective", "train.loss_chunk=5"],
            &["train.micro_batch=1", "cluster.devices=2", "parallel.prefetch=2"],
            &["train.micro_batch=1", "cluster.devices=2", "parallel.reshard_after_forward=false"],
        ] {
            let other = with(set, 2);
            let (a, b) = (reference.reports[0], other.reports[0]);
            assert!(
                (a.mtp_loss / b.mtp_loss - 1.0).abs() < 1e-6,
                "{set:?}: {} and {}",
                a.mtp_loss,
                b.mtp_loss
            );
            for (name, (_, values)) in &reference.gradients {
                let (error, largest) = difference(&other.gradients[name].1, values);
                assert!(
                    error <= 1e-5 * largest,
                    "{set:?}: gradient of {name} differs by {error} of {largest}"
                );
            }
        }
    }
}

/// A head that is shared is gathered and reduced as often as without multi-token prediction, and so is the embedding.
#[test]
fn shared_parameters_are_gathered_once() {
    let gathered = |usage: &str| {
        let usage = format!("model.mtp.usage={usage}");
        let set = ["train.micro_batch=1", "cluster.devices=2", "model.mtp.head=shared", &usage];
        let plan = plan(RECIPE, None, &set, Task::Train);
        let of = |name: &str| {
            let unit = plan.placement.units.iter().position(|unit| unit.name == name).unwrap() as u32;
            let mut times = (0, 0);
            for op in &plan.program.instrs {
                match op {
                    Op::Gather { unit: UnitId(id), .. } if *id == unit => times.0 += 1,
                    Op::ReduceScatter { unit: UnitId(id), .. } if *id == unit => times.1 += 1,
                    _ => {}
                }
            }
            times
        };
        [of("embed"), of("head")]
    };
    assert_eq!(gathered("trained"), [(1, 1), (1, 1)]);
    assert_eq!(gathered("trained"), gathered("dropped"));
}

/// Without their loss the layers change nothing; not trained they are in no plan's parameters.
#[test]
fn what_is_not_trained_stays_out() {
    let dropped = run(&["train.micro_batch=2", "model.mtp.usage=dropped"], 1);
    let idle = run(&["train.micro_batch=2", "model.mtp.loss=0"], 1);
    assert_eq!(dropped.reports[0].mtp_loss, 0.0);
    assert!(idle.reports[0].mtp_loss > 4.0, "measured all the same");
    for (name, (_, values)) in &dropped.gradients {
        assert_eq!(&idle.gradients[name].1, values, "{name}");
        assert!(!name.contains("layers.2.") && !name.contains("layers.3."));
    }
    for usage in ["dropped", "kept", "trained"] {
        let resolved = resolve(RECIPE, None, &[&format!("model.mtp.usage={usage}")]);
        let model = Model::build(&resolved.recipe.model, stepc::base::DType::F32);
        let counts = model.counts();
        assert_eq!((counts.tensors, counts.mtp_tensors), (21, 28), "{usage}");
        let held = if usage == "trained" { counts.total + counts.mtp } else { counts.total };
        let plan = plan(RECIPE, None, &[&format!("model.mtp.usage={usage}")], Task::Train);
        assert_eq!(plan.placement.shard_elements(), held, "{usage}");
        assert_eq!(model.active_mtp(), held - counts.total, "{usage}: every layer has a head of its own");
        assert_eq!(model.trained_mtp().len(), if usage == "trained" { 2 } else { 0 });
    }
}

/// Every parameter of training twice what it is in a folder.
struct Doubled<'a>(&'a Plan, Folder);

impl Elements for Doubled<'_> {
    fn holds(&self, param: ParamId) -> bool {
        self.0.params[param.0 as usize].in_training()
    }

    fn elements(&self, param: ParamId, elements: Range<u64>, out: &mut [f32]) -> Result<(), Diagnostic> {
        self.1.read_elements(&self.0.params[param.0 as usize].name, elements, out)?;
        out.iter_mut().for_each(|x| *x *= 2.0);
        Ok(())
    }
}

/// The layers are exported as they were, trained, or not at all, and so are copies of what they share with the model.
#[test]
fn layers_are_kept_dropped_or_trained() {
    let desk = tempfile::tempdir().unwrap();
    let source = desk.path().join("source");
    std::fs::create_dir(&source).unwrap();
    std::fs::write(source.join("config.json"), "{}").unwrap();
    let golden = Folder::open(&folder()).unwrap();
    let origin = |name: &str| match name.rsplit_once('.').unwrap().0 {
        name if name.ends_with("shared_head.head") => "lm_head.weight".to_owned(),
        name if name.ends_with("embed_tokens") => "model.embed_tokens.weight".to_owned(),
        _ => name.to_owned(),
    };
    let copies = (2..4).map(|i| format!("model.layers.{i}.embed_tokens.weight"));
    let names: Vec<String> = golden.names().map(str::to_owned).chain(copies).collect();
    let output = |name: &String| {
        let shape = golden.tensor(&origin(name)).unwrap().shape.clone();
        Output { name: name.clone(), dtype: DType::F32, shape }
    };
    let outputs: Vec<Output> = names.iter().map(output).collect();
    let file = source.join("model.safetensors");
    weights::write(&file, &outputs, |output, out| out.write(&values(&golden, &origin(&output.name))))
        .unwrap();
    for usage in ["kept", "dropped", "trained"] {
        let usage_is = format!("model.mtp.usage={usage}");
        let plan = plan(RECIPE, None, &["model.mtp.head=shared", &usage_is], Task::Train);
        let target = desk.path().join(usage);
        let export = Export {
            params: &plan.params,
            copies: &plan.aside.copies,
            elements: &Doubled(&plan, Folder::open(&source).unwrap()),
            source: Some(&source),
            tokenizer: None,
            dtype: None,
            shard: 5_000_000_000,
        };
        let exported = stepc::checkpoint::export(&export, Target::New(&target)).unwrap();
        // A layer has 13 tensors beside the two copies.
        let (left_out, kept) = match usage {
            "kept" => (0, 30),
            "dropped" => (26, 0),
            _ => (0, 0),
        };
        assert_eq!((exported.left_out, exported.kept), (left_out, kept), "{usage}");
        let written = Folder::open(&target).unwrap();
        for name in &names {
            let ahead = name.contains("layers.2.") || name.contains("layers.3.");
            if ahead && usage == "dropped" {
                assert!(written.tensor(name).is_none(), "{name}");
                continue;
            }
            let factor = if ahead && usage == "kept" { 1.0 } else { 2.0 };
            let wanted: Vec<f32> = values(&golden, &origin(name)).iter().map(|x| factor * x).collect();
            assert_eq!(values(&written, name), wanted, "{usage}: {name}");
        }
    }
}

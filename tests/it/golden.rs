//! Logits, loss, gradients and ten AdamW steps against PyTorch, for tiny checkpoints in Hugging Face layout.
//! `tests/golden/README.md` says how the numbers were made and what error PyTorch itself has.

use crate::support::{Fixed, Tensors, Trained, difference, plan, sequence, train};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use stepc::data::Sequence;
use stepc::plan::{Plan, Task};
use stepc::recipe::DeviceKind;
use stepc::runtime::forward;
use stepc::weights::{Folder, Needs};

struct Golden {
    folder: PathBuf,
    recipe: PathBuf,
    facts: Value,
    weights: Folder,
}

fn golden(name: &str) -> Golden {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let folder = root.join(name);
    // Python writes the margin of a router that is not there as no JSON allows.
    let facts = std::fs::read_to_string(folder.join("golden.json")).unwrap().replace("Infinity", "null");
    Golden {
        weights: Folder::open(&folder).unwrap_or_else(|problem| panic!("{problem:?}")),
        recipe: root.join(format!("{name}.step")),
        facts: serde_json::from_str(&facts).unwrap(),
        folder,
    }
}

impl Golden {
    fn sequences(&self) -> Vec<Arc<Sequence>> {
        let rows = self.facts["input_ids"].as_array().unwrap();
        rows.iter().map(|row| sequence(serde_json::from_value(row.clone()).unwrap())).collect()
    }

    fn tensors(&self, file: &str) -> Tensors {
        let folder = Folder::open(&self.folder.join(file)).unwrap();
        let names: Vec<String> = folder.names().map(str::to_owned).collect();
        let read = |name: String| {
            let shape = folder.tensor(&name).unwrap().shape.clone();
            let elements = shape.iter().product();
            let mut values = vec![0.0; elements as usize];
            folder.read_elements(&name, 0..elements, &mut values).unwrap();
            (name, (shape, values))
        };
        names.into_iter().map(read).collect()
    }

    fn number(&self, key: &str) -> f64 {
        self.facts[key].as_f64().unwrap()
    }

    /// The mistakes whose loss is nearest to what came out, for the message of a failing test.
    fn looks_like(&self, loss: f64) -> String {
        let wrong = self.facts["loss_if_wrong"].as_object().unwrap();
        let losses = wrong.iter().filter_map(|(name, v)| Some((v["loss"].as_f64()?, name)));
        let mut by_distance: Vec<_> = losses.map(|(l, name)| ((l - loss).abs(), l, name)).collect();
        by_distance.sort_by(|a, b| a.0.total_cmp(&b.0));
        let near = by_distance.iter().take(3).map(|(_, l, name)| format!("{name} ({l:.7})"));
        format!("a loss of {loss:.7} looks like: {}", near.collect::<Vec<_>>().join(", "))
    }

    fn mean_loss(&self, plan: &Plan, logits: &[f32]) -> f64 {
        let vocab = plan.vocab as usize;
        let rows = self.sequences().into_iter().flat_map(|s| s.labels.clone());
        let losses: Vec<f64> = logits
            .chunks(vocab)
            .zip(rows)
            .filter(|(_, label)| *label >= 0)
            .map(|(row, label)| {
                let top = row.iter().fold(f32::MIN, |a, b| a.max(*b));
                let sum: f64 = row.iter().map(|x| f64::from(x - top).exp()).sum();
                sum.ln() + f64::from(top) - f64::from(row[label as usize])
            })
            .collect();
        losses.iter().sum::<f64>() / losses.len() as f64
    }
}

fn logits_match(name: &str) {
    let golden = golden(name);
    let plan = plan(&golden.recipe, None, &[], Task::Forward);
    let feed = Fixed(golden.sequences());
    let logits = forward(Arc::clone(&plan), &feed, Some(&golden.weights)).unwrap().remove(0);
    let wanted = &golden.tensors("logits.safetensors")["logits"].1;
    let loss = golden.mean_loss(&plan, &logits);
    let (error, _) = difference(&logits, wanted);
    assert!(error < 1e-4, "{name}: logits are off by {error}; {}", golden.looks_like(loss));
    assert!((loss - golden.number("loss_f64")).abs() < 1e-5, "{name}: {}", golden.looks_like(loss));
}

/// As on the CPU, by the operators of an NPU.
pub fn training_matches_on_an_npu(name: &str) {
    training_matches_on(name, DeviceKind::Npu);
}

fn training_matches(name: &str) {
    training_matches_on(name, DeviceKind::Cpu);
}

fn training_matches_on(name: &str, kind: DeviceKind) {
    let golden = golden(name);
    let mut plan = plan(&golden.recipe, None, &[], Task::Train);
    Arc::get_mut(&mut plan).unwrap().cluster.device.kind = kind;
    let trained = train(&plan, &Fixed(golden.sequences()), Some(&golden.weights), 2);

    gradients_match(&golden, &trained);
    curve_matches(&golden, &trained);
    for (tensor, (_, values)) in golden.tensors("params_after_10.safetensors") {
        let (error, _) = difference(&trained.parameters[&tensor].1, &values);
        assert!(error < 5e-4, "{name}: {tensor} after ten steps is off by {error}");
    }
}

fn gradients_match(golden: &Golden, trained: &Trained) {
    let name = golden.folder.display();
    let wanted = golden.tensors("grads.safetensors");
    assert_eq!(trained.gradients.len(), wanted.len(), "{name}: parameters with a gradient");
    for (tensor, (shape, values)) in &wanted {
        let (own_shape, own) = &trained.gradients[tensor];
        assert_eq!(own_shape, shape, "{name}: {tensor}");
        let (error, largest) = difference(own, values);
        let loss = trained.reports[0].loss;
        assert!(
            error <= 1e-4 * largest,
            "{name}: gradient of {tensor} is off by {error}, largest {largest}; {}",
            golden.looks_like(loss)
        );
    }
}

fn curve_matches(golden: &Golden, trained: &Trained) {
    let name = golden.folder.display();
    let curve = golden.facts["curve"].as_array().unwrap();
    assert_eq!(trained.reports.len(), curve.len());
    for (report, point) in trained.reports.iter().zip(curve) {
        let (loss, norm) = (point["loss"].as_f64().unwrap(), point["grad_norm"].as_f64().unwrap());
        let step = report.step;
        assert!((report.loss - loss).abs() < 1e-4, "{name}: step {step}: loss {} for {loss}", report.loss);
        let off = (report.grad_norm / norm - 1.0).abs();
        assert!(off < 1e-4, "{name}: step {step}: norm {} for {norm}", report.grad_norm);
    }
}

/// Every tensor of the checkpoint belongs to a parameter and every parameter to a tensor.
fn tensors_match(name: &str) {
    let golden = golden(name);
    let plan = plan(&golden.recipe, None, &[], Task::Train);
    let tensors = plan.params.iter().flat_map(|p| p.tensors()).map(|t| (t.name, t.shape, true));
    golden.weights.audit(&Needs { tensors: tensors.collect(), ..Needs::default() }).unwrap();
    assert_eq!(plan.counts.total, golden.facts["num_parameters"].as_u64().unwrap());
    let trainable = plan.params.iter().filter(|p| p.trainable && p.in_training());
    let trainable: u64 = trainable.map(|p| p.elements()).sum();
    assert_eq!(trainable, golden.facts["num_trainable"].as_u64().unwrap());
}

macro_rules! golden_tests {
    ($($name:ident)*) => { $(
        mod $name {
            #[test]
            fn tensors() {
                super::tensors_match(stringify!($name));
            }

            #[test]
            fn logits() {
                super::logits_match(stringify!($name));
            }

            #[test]
            fn training() {
                super::training_matches(stringify!($name));
            }
        }
    )* };
}

golden_tests! { step35 qwen3_moe llama }

/// A kind of attention inside of a plain decoder, and fields without which the logits would be others.
fn attention_matches(family: &str, matter: &[&str]) {
    let name = format!("attention/{family}");
    tensors_match(&name);
    logits_match(&name);
    let golden = golden(&name);
    let alone: &[&str] = &[];
    let again = &["parallel.recompute=full", "train.micro_batch=1"];
    let two_ranks = &["cluster.devices=2", "train.micro_batch=1"];
    for layout in [alone, again, two_ranks] {
        let plan = plan(&golden.recipe, None, layout, Task::Train);
        let trained = train(&plan, &Fixed(golden.sequences()), Some(&golden.weights), 2);
        gradients_match(&golden, &trained);
        curve_matches(&golden, &trained);
    }
    let wanted = &golden.tensors("logits.safetensors")["logits"].1;
    for set in matter {
        let without = crate::support::plan(&golden.recipe, None, &[set], Task::Forward);
        let feed = Fixed(golden.sequences());
        let logits = forward(without, &feed, Some(&golden.weights)).unwrap().remove(0);
        let (change, _) = difference(&logits, wanted);
        assert!(change > 1e-2, "{name}: `{set}` changes no logit by more than {change}");
    }
}

macro_rules! attention_tests {
    ($($family:ident: [$($matter:literal),*],)*) => {
        mod attention { $(
            #[test]
            fn $family() {
                super::attention_matches(stringify!($family), &[$(concat!("model.attention.full.", $matter)),*]);
            }
        )* }
    };
}

attention_tests! {
    qwen2: [],
    gpt_oss: [
        "rope.scaling.truncate=true", "rope.scaling.magnitude=1", "rope.scaling.fast=32", "rope.scaling.factor=1.1",
        "rope.scaling.slow=0.5"
    ],
    deepseek_v3: ["scale=0.25", "rope.style=half", "rope.scaling.magnitude=1"],
    deepseek_v2: ["rope.style=half", "scale=0.3"],
    glm4_moe: ["rope.fraction=1"],
    minimax_m2: ["rope.fraction=1"],
    gemma2: ["scale=0.25", "softcap=none"],
    gemma3: ["scale=0.25", "rope.scaling.factor=1"],
    phi3: ["rope.scaling.original=32", "rope.scaling.magnitude=1"],
    olmoe: ["clip=none"],
    ernie4_5: ["rope.style=half"],
    hunyuan: ["qk_norm=head"],
}

fn relative_error(own: &[f32], exact: &[f32]) -> f64 {
    let squares = |x: &mut dyn Iterator<Item = f32>| x.map(|x| f64::from(x).powi(2)).sum::<f64>();
    let error = squares(&mut own.iter().zip(exact).map(|(a, b)| a - b));
    (error / squares(&mut exact.iter().copied())).sqrt()
}

/// bf16 parameters and activations, f32 masters and reduction: as near to f32 as PyTorch's bf16 is, and the same course.
#[test]
fn half_precision() {
    let golden = golden("llama");
    let facts = std::fs::read_to_string(golden.folder.join("bf16.json")).unwrap();
    let facts: Value = serde_json::from_str(&facts).unwrap();
    let set = ["parallel.precision.params=bf16"];
    let near = |what: &str, own: f64, theirs: f64| {
        assert!((0.5 * theirs..1.3 * theirs).contains(&own), "{what}: error {own:.4}, PyTorch's {theirs:.4}");
    };

    let plan_forward = plan(&golden.recipe, None, &set, Task::Forward);
    let feed = Fixed(golden.sequences());
    let logits = forward(plan_forward, &feed, Some(&golden.weights)).unwrap().remove(0);
    let exact = &golden.tensors("logits.safetensors")["logits"].1;
    near("logits", relative_error(&logits, exact), facts["logits_error"].as_f64().unwrap());

    let trained = train(&plan(&golden.recipe, None, &set, Task::Train), &feed, Some(&golden.weights), 2);
    let exact = golden.tensors("grads.safetensors");
    for (tensor, theirs) in facts["gradient_error"].as_object().unwrap() {
        let own = relative_error(&trained.gradients[tensor].1, &exact[tensor].1);
        near(tensor, own, theirs.as_f64().unwrap());
    }
    let course = facts["losses"].as_array().unwrap().iter().zip(facts["norms"].as_array().unwrap());
    for (report, (loss, norm)) in trained.reports.iter().zip(course) {
        let (loss, norm) = (loss.as_f64().unwrap(), norm.as_f64().unwrap());
        let step = report.step;
        assert!((report.loss / loss - 1.0).abs() < 2e-3, "step {step}: loss {} for {loss}", report.loss);
        assert!(
            (report.grad_norm / norm - 1.0).abs() < 2e-2,
            "step {step}: norm {} for {norm}",
            report.grad_norm
        );
    }
}

//! The router against PyTorch: group-limited choice, the loss that evens out the load; and the same step of router and bias
//! however the work is divided.

use crate::support::{Fixed, Trained, difference, plan, sequence, train};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use stepc::data::Sequence;
use stepc::kernels::{Gating, GroupScore, Score, balance_loss, gating_top_k, gating_top_k_grad};
use stepc::plan::Task;

struct Golden(Value);

impl Golden {
    fn read() -> Golden {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/router.json");
        Golden(serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap())
    }

    fn numbers(&self, pointer: &str) -> Vec<f32> {
        serde_json::from_value(self.0.pointer(pointer).unwrap().clone()).unwrap()
    }

    fn whole(&self, pointer: &str) -> Vec<u32> {
        serde_json::from_value(self.0.pointer(pointer).unwrap().clone()).unwrap()
    }

    fn size(&self, key: &str) -> usize {
        self.0[key].as_u64().unwrap() as usize
    }
}

#[test]
fn groups_of_experts() {
    let golden = Golden::read();
    let gating = Gating {
        k: golden.size("k"),
        score: Score::Sigmoid,
        normalize: true,
        scale: golden.0["scale"].as_f64().unwrap() as f32,
        groups: golden.size("groups"),
        top_groups: golden.size("top_groups"),
        group_score: GroupScore::BestTwo,
    };
    let (logits, bias) = (golden.numbers("/logits"), golden.numbers("/bias"));
    let wanted = golden.whole("/grouped/index");
    let (mut index, mut weight) = (vec![0; wanted.len()], vec![0.0; wanted.len()]);
    gating_top_k(&mut index, &mut weight, &logits, Some(&bias), &gating);
    assert_eq!(index, wanted);
    assert!(difference(&weight, &golden.numbers("/grouped/weight")).0 < 1e-6);
    let mut d_logits = vec![0.0; logits.len()];
    gating_top_k_grad(&mut d_logits, &golden.numbers("/d_weight"), &logits, &index, &gating);
    assert!(difference(&d_logits, &golden.numbers("/grouped/d_logits")).0 < 1e-6);
    gating_top_k(
        &mut index,
        &mut weight,
        &logits,
        Some(&bias),
        &Gating { groups: 1, top_groups: 1, ..gating },
    );
    let k = gating.k;
    let moved =
        index.chunks(k).zip(wanted.chunks(k)).filter(|(a, b)| b.iter().any(|e| !a.contains(e))).count();
    assert_eq!(
        moved as u64,
        golden.0["grouped"]["moved"].as_u64().unwrap(),
        "tokens that groups send elsewhere"
    );
}

#[test]
fn loss_of_an_uneven_load() {
    let golden = Golden::read();
    let (logits, index) = (golden.numbers("/logits"), golden.whole("/index"));
    let (k, sequence, weight) =
        (golden.size("k"), golden.size("sequence"), golden.0["weight"].as_f64().unwrap());
    for (name, score) in [("softmax", Score::Softmax), ("sigmoid", Score::Sigmoid)] {
        let mut d_logits = vec![0.0; logits.len()];
        let mut load = vec![0.0; logits.len() / sequence];
        let loss = balance_loss(&mut d_logits, &mut load, &logits, &index, k, sequence, score, weight as f32);
        let wanted = golden.0[name]["loss"].as_f64().unwrap();
        assert!((loss / wanted - 1.0).abs() < 1e-6, "{name}: {loss} for {wanted}");
        let (error, largest) = difference(&d_logits, &golden.numbers(&format!("/{name}/d_logits")));
        assert!(error < 1e-5 * largest, "{name}: gradient off by {error}, largest {largest}");
    }
}

const STEP35: &str = "tests/golden/step35.step";

/// The tiny Step-3.5 from scratch, with what `router` says, on four sequences a step.
fn run(router: &[&str], layout: &[&str], threads: usize) -> Trained {
    let sequences: Vec<Arc<Sequence>> =
        (0..4u32).map(|s| sequence((0..48).map(|t| (t * t * (s + 3) + 7 * s) % 512).collect())).collect();
    let scratch = ["model.weights=scratch", "model.init_std=0.1", "train.steps=3", "train.global_batch=4"];
    let set = [&scratch[..], router, layout].concat();
    train(&plan(STEP35, None, &set, Task::Train), &Fixed(sequences), None, threads)
}

const LAYOUTS: [(&[&str], usize); 4] = [
    (&["train.micro_batch=1"], 1),
    (&["train.micro_batch=1", "cluster.devices=2", "parallel.ep=2", "parallel.ep_fsdp=1"], 2),
    (&["train.micro_batch=1", "cluster.devices=4", "parallel.ep=4", "parallel.ep_fsdp=1"], 4),
    (&["train.micro_batch=2", "cluster.devices=2", "parallel.recompute=full"], 2),
];

#[test]
fn groups_and_balance_whatever_the_layout() {
    let router = [
        "model.sparse.router.groups=4",
        "model.sparse.router.top_groups=2",
        "model.sparse.router.aux_loss=0.1",
        "model.sparse.router.bias_update=0.01",
    ];
    let reference = run(&router, &["train.micro_batch=4"], 1);
    assert!(reference.reports[0].aux_loss > 0.4 * 0.99, "four layers, each at least its weight");
    for (layout, threads) in LAYOUTS {
        let other = run(&router, layout, threads);
        for (a, b) in reference.reports.iter().zip(&other.reports) {
            assert!((a.loss / b.loss - 1.0).abs() < 1e-5, "{layout:?}: loss {} and {}", a.loss, b.loss);
            let (a, b) = (a.aux_loss, b.aux_loss);
            assert!((a / b - 1.0).abs() < 1e-5, "{layout:?}: auxiliary loss {a} and {b}");
        }
        for (name, (_, values)) in &reference.gradients {
            let (error, largest) = difference(&other.gradients[name].1, values);
            assert!(error <= 1e-5 * largest, "{layout:?}: gradient of {name} off by {error} of {largest}");
        }
        for (name, (_, values)) in
            reference.parameters.iter().filter(|(name, _)| name.contains("router_bias"))
        {
            assert_eq!(&other.parameters[name].1, values, "{layout:?}: {name}");
        }
    }
}

/// Steps of ±rate against the load, no gradient, and by three steps' end a bias of at most three rates.
#[test]
fn the_bias_moves_by_its_rate() {
    let still = run(&[], &["train.micro_batch=4"], 1);
    let moved = run(&["model.sparse.router.bias_update=0.01"], &["train.micro_batch=4"], 1);
    for (name, (_, bias)) in moved.parameters.iter().filter(|(name, _)| name.contains("router_bias")) {
        assert!(still.parameters[name].1.iter().all(|b| *b == 0.0), "{name}");
        let steps: Vec<i32> = bias.iter().map(|b| (b / 0.01).round() as i32).collect();
        assert!(steps.iter().all(|s| s.abs() <= 3) && steps.iter().any(|s| *s > 0), "{name}: {steps:?}");
        assert!(steps.iter().any(|s| *s < 0), "{name}: {steps:?}");
        assert!(!moved.gradients.contains_key(name));
    }
    // The first step's loss has not seen it.
    assert_eq!(still.reports[0].loss, moved.reports[0].loss);
    assert_eq!(still.reports[0].grad_norm, moved.reports[0].grad_norm);
}

#[test]
fn the_auxiliary_loss_is_linear_in_its_weight() {
    let with = |weight: f64| {
        let router = format!("model.sparse.router.aux_loss={weight}");
        run(&[router.as_str()], &["train.micro_batch=2"], 1)
    };
    let [none, once, twice] = [0.0, 0.05, 0.1].map(with);
    let aux = |run: &Trained| run.reports[0].aux_loss;
    assert_eq!(aux(&none), 0.0);
    assert!((aux(&twice) / aux(&once) - 2.0).abs() < 1e-6);
    assert_eq!(none.reports[0].loss, twice.reports[0].loss, "it is reported beside the loss");
    let mut changed = 0;
    for (name, (_, plain)) in &none.gradients {
        let (once, twice) = (&once.gradients[name].1, &twice.gradients[name].1);
        let from = |x: &[f32], y: &[f32]| x.iter().zip(y).map(|(x, y)| x - y).collect::<Vec<f32>>();
        let (second, first) = (from(twice, once), from(once, plain));
        let largest = plain.iter().fold(0.0, |m: f64, x| m.max(f64::from(x.abs())));
        let off = difference(&second, &first).0;
        assert!(off <= 1e-5 * largest.max(1e-3), "{name}: {off} of {largest}");
        changed += usize::from(name.contains("moe.gate.weight") && first.iter().any(|x| *x != 0.0));
    }
    assert_eq!(changed, 4, "the router of every layer");
}

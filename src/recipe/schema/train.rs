//! How it is trained, and what is kept of it.

use crate::recipe::schema::Title;
use std::path::PathBuf;

block! {
    /// Steps, batches, optimizer.
    pub struct Train("train") {
        /// What the loss is taken over.
        stage: Stage = pretrain,
        /// Optimizer steps.
        steps: u64 { unit("steps"), at_least(1.0) },
        /// Sequences a step, all devices together.
        global_batch: u64 { unit("sequences"), at_least(1.0) } =
            max(1, floor(cluster.devices / (parallel.tp * parallel.cp * parallel.pp))),
        /// Sequences a rank of data computes at a time; gradients accumulate until the global batch is reached.
        micro_batch: u64 { unit("sequences"), at_least(1.0), at_most(1048576.0) } = 1,
        /// What updates the parameters.
        optimizer: Optimizer,
        /// How the learning rate changes over the steps.
        schedule: Schedule = constant,
        /// Largest norm of the whole gradient; a longer one is scaled down. `none`: no clipping.
        clip: Option<f64> { more_than(0.0) } = none,
        /// Rows of logits that exist at a time; `none`: as many as keep products fast and memory low.
        loss_chunk: Option<u64> { unit("tokens"), at_least(1.0) } = none,
        /// Seed of initial weights and of the order of the data.
        seed: u64 = 0,
    }
}

words! {
    /// What the loss is taken over.
    pub enum Stage {
        /// Every token.
        pretrain => Pretrain,
        /// The tokens of the answers.
        sft => Sft,
    }
}

choice! {
    /// What updates the parameters.
    pub enum Optimizer("optimizer") {
        /// Adam with decoupled weight decay.
        adamw => AdamW(AdamW),
        /// Orthogonalised momentum for the matrices inside layers, AdamW for the rest.
        muon => Muon(Muon),
    }
}

impl Optimizer {
    /// The peak learning rate.
    pub fn lr(&self) -> f64 {
        match self {
            Optimizer::AdamW(adamw) => adamw.lr,
            Optimizer::Muon(muon) => muon.lr,
        }
    }

    /// The settings of what AdamW updates: everything, or under Muon all that is no matrix inside a layer.
    pub fn adamw(&self) -> &AdamW {
        match self {
            Optimizer::AdamW(adamw) => adamw,
            Optimizer::Muon(muon) => &muon.adamw,
        }
    }
}

block! {
    /// Adam with decoupled weight decay.
    pub struct AdamW("optimizer", Title::Word("adamw")) {
        /// Peak learning rate.
        lr: f64 { more_than(0.0) },
        /// Decay of the first and of the second moment.
        betas: [f64; 2] { at_least(0.0), less_than(1.0) } = [0.9, 0.95],
        /// Added to the root of the second moment.
        eps: f64 { more_than(0.0) } = 1e-8,
        /// Decoupled decay of matrices; norms are never decayed.
        weight_decay: f64 { at_least(0.0) } = 0.0,
    }
}

block! {
    /// Momentum whose matrices are made nearly orthogonal by Newton–Schulz iterations.
    pub struct Muon("optimizer", Title::Word("muon")) {
        /// Peak learning rate of matrices.
        lr: f64 { more_than(0.0) },
        /// Decay of the momentum.
        momentum: f64 { at_least(0.0), less_than(1.0) } = 0.95,
        /// The update looks one step of momentum ahead.
        nesterov: bool = true,
        /// Newton–Schulz iterations.
        iterations: u64 { unit("iterations"), at_least(1.0), at_most(20.0) } = 5,
        /// Decoupled decay of matrices.
        weight_decay: f64 { at_least(0.0) } = 0.0,
        /// For the embedding, the head, the router and all that is no matrix.
        adamw: AdamW,
    }
}

choice! {
    /// How the learning rate changes over the steps.
    pub enum Schedule("schedule") {
        /// The same all along, after the warmup.
        constant => Constant(Constant),
        /// Half a cosine from the peak down to `min_lr`, after the warmup.
        cosine => Cosine(Cosine),
    }
}

block! {
    /// A constant learning rate.
    pub struct Constant("schedule", Title::Word("constant")) {
        /// Steps over which the rate grows linearly from 0.
        warmup: u64 { unit("steps") } = 0,
    }
}

block! {
    /// Half a cosine.
    pub struct Cosine("schedule", Title::Word("cosine")) {
        /// Steps over which the rate grows linearly from 0.
        warmup: u64 { unit("steps") } = 0,
        /// The rate at the last step.
        min_lr: f64 { at_least(0.0) } = 0.0,
    }
}

block! {
    /// What is written to disk while training.
    pub struct Checkpoint("checkpoint") {
        /// Where checkpoints go.
        dir: PathBuf,
        /// Steps between two checkpoints from which a run can go on; the last step always writes one.
        every: u64 { unit("steps"), at_least(1.0) } = train.steps,
        /// Checkpoints that are kept; the oldest goes when a new one is complete.
        keep: u64 { unit("checkpoints"), at_least(1.0) } = 1,
        /// Steps between two checkpoints of the weights alone; `none`: no such checkpoints.
        weights_every: Option<u64> { unit("steps"), at_least(1.0) } = none,
        /// Checkpoints of the weights alone that are kept; `none`: all.
        weights_keep: Option<u64> { unit("checkpoints"), at_least(1.0) } = none,
    }
}

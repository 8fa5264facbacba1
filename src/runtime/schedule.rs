//! The learning rate of a step.

use crate::recipe::{Schedule, Train};
use std::f64::consts::PI;

/// The learning rate of step `step`, counted from 1: a linear warm-up that begins above zero, then the schedule.
///
/// Cosine: `min + (lr − min) · (1 + cos(π · progress)) / 2`, with progress 0 at the first step behind the warm-up and 1
/// just behind the last step.
pub fn learning_rate(train: &Train, step: u64) -> f64 {
    let peak = train.optimizer.lr();
    let warmup = match &train.schedule {
        Schedule::Constant(s) => s.warmup,
        Schedule::Cosine(s) => s.warmup,
    };
    let done = step.saturating_sub(1);
    if done < warmup {
        return peak * (done + 1) as f64 / (warmup + 1) as f64;
    }
    match &train.schedule {
        Schedule::Constant(_) => peak,
        Schedule::Cosine(cosine) => {
            let progress = (done - warmup) as f64 / train.steps.saturating_sub(warmup).max(1) as f64;
            let factor = (1.0 + (PI * progress.min(1.0)).cos()) / 2.0;
            cosine.min_lr + (peak - cosine.min_lr) * factor
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::{AdamW, Cosine, Optimizer, Stage};

    fn train(warmup: u64) -> Train {
        let adamw = AdamW { lr: 1.0, betas: [0.9, 0.95], eps: 1e-8, weight_decay: 0.0 };
        Train {
            stage: Stage::Pretrain,
            steps: 10,
            global_batch: 1,
            micro_batch: 1,
            optimizer: Optimizer::AdamW(adamw),
            schedule: Schedule::Cosine(Cosine { warmup, min_lr: 0.1 }),
            clip: None,
            loss_chunk: None,
            seed: 0,
        }
    }

    #[test]
    fn cosine_starts_at_the_top_and_ends_near_the_bottom() {
        let train = train(0);
        assert_eq!(learning_rate(&train, 1), 1.0);
        assert!((learning_rate(&train, 6) - 0.55).abs() < 1e-12, "half way");
        assert!(learning_rate(&train, 10) > 0.1 && learning_rate(&train, 10) < 0.13);
        assert!((learning_rate(&train, 11) - 0.1).abs() < 1e-12);
    }

    #[test]
    fn warmup_rises_linearly_and_never_stands_still() {
        let train = train(4);
        let rates: Vec<f64> = (1..=5).map(|step| learning_rate(&train, step)).collect();
        assert_eq!(rates, [0.2, 0.4, 0.6, 0.8, 1.0]);
    }
}

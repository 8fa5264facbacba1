//! The figures of a plan that editors show beside the recipe, whichever way they were found.

use super::Shown;
use crate::plan::{Category, Contents};

/// What a recipe comes to. Bytes are those of one device, times those of one step.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// Estimated, not read off a program.
    pub estimated: bool,
    pub peak: u64,
    /// What a device has.
    pub device: u64,
    /// What the peak is made of, the largest first.
    pub categories: Vec<(Category, u64)>,
    /// Seconds.
    pub step: f64,
    pub mfu: f64,
    /// What the step waits for most.
    pub bound: &'static str,
    /// Micro batches of a step.
    pub accumulation: u64,
    /// Bytes of a checkpoint of all ranks, where there is a program to tell.
    pub checkpoint: Option<u64>,
}

impl Figures {
    pub fn of(shown: &Shown) -> Figures {
        let mut figures = match shown {
            Shown::Program(plan) => Figures {
                estimated: false,
                peak: plan.memory.peak,
                device: plan.cluster.device.memory,
                categories: plan.memory.categories().collect(),
                step: plan.time.step,
                mfu: plan.time.mfu,
                bound: plan.time.bound().word(),
                accumulation: plan.program.accumulation,
                checkpoint: Some(plan.saved_bytes(Contents::State)),
            },
            Shown::Estimate(forecast) => {
                let (memory, time) = (&forecast.estimate.memory, &forecast.estimate.time);
                let categories = memory.categories(memory.peak().1).into_iter();
                Figures {
                    estimated: true,
                    peak: forecast.needed(),
                    device: forecast.cluster.device.memory,
                    categories: categories.map(|(category, bytes)| (category, bytes as u64)).collect(),
                    step: time.step,
                    mfu: time.mfu(),
                    bound: time.bound().word(),
                    accumulation: forecast.job.accumulate,
                    checkpoint: None,
                }
            }
        };
        figures.categories.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        figures
    }
}

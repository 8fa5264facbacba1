//! Parameter counts as the field quotes them.

use super::build::{FfnModule, Model};
use super::parameter::Part;
use serde::{Deserialize, Serialize};

/// Parameters of a model, in elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Everything that is trained or frozen in the main model, embedding and head included.
    pub total: u64,
    /// What one token is multiplied with: without the embedding table (a look-up), and of the routed experts only
    /// `top_k`.
    pub active: u64,
    /// Routed experts of all layers.
    pub experts: u64,
    /// Layers for multi-token prediction, beside `total`.
    pub mtp: u64,
    /// Checkpoint tensors of the main model and of multi-token prediction.
    pub tensors: u64,
    pub mtp_tensors: u64,
}

impl Model {
    /// Counts parameters and checkpoint tensors.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts { total: 0, active: 0, experts: 0, mtp: 0, tensors: 0, mtp_tensors: 0 };
        for p in &self.params {
            let tensors = if p.name.contains("{e}") { p.shape[0] } else { 1 };
            match p.part {
                Part::Mtp => {
                    counts.mtp += p.elements();
                    counts.mtp_tensors += tensors;
                    continue;
                }
                Part::Experts => counts.experts += p.elements(),
                Part::Embedding | Part::Body | Part::Head => {}
            }
            counts.total += p.elements();
            counts.tensors += tensors;
        }
        let idle: u64 = self.layers.iter().map(|layer| self.idle_experts(&layer.ffn)).sum();
        let looked_up = if self.head == self.embed { 0 } else { self.param(self.embed).elements() };
        counts.active = counts.total - looked_up - idle;
        counts
    }

    fn idle_experts(&self, ffn: &FfnModule) -> u64 {
        let FfnModule::Moe(moe) = ffn else { return 0 };
        let all: u64 = moe.experts().map(|id| self.param(id).elements()).sum();
        all / moe.config.experts * (moe.config.experts - moe.config.top_k)
    }
}

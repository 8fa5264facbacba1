//! Parameter counts as the field quotes them.

use super::build::{FfnModule, Model, MtpModule};
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
        // Parameters of multi-token prediction come behind all others.
        let main = self.mtp.first().map_or(self.params.len(), |mtp| mtp.embed_norm.0 as usize);
        for (at, p) in self.params.iter().enumerate() {
            // A tensor that several share counts for the one it begins with.
            let begins = p.slice.as_ref().is_none_or(|slice| slice.offset == 0);
            let tensors = if begins { p.per_expert().unwrap_or(1) } else { 0 };
            if at >= main {
                counts.mtp += p.elements();
                counts.mtp_tensors += tensors;
                continue;
            }
            if p.part == Part::Experts {
                counts.experts += p.elements();
            }
            counts.total += p.elements();
            counts.tensors += tensors;
        }
        let idle: u64 = self.layers.iter().map(|layer| self.idle_experts(&layer.ffn)).sum();
        let looked_up = if self.head == self.embed { 0 } else { self.param(self.embed).elements() };
        counts.active = counts.total - looked_up - idle;
        counts
    }

    /// What a token is multiplied with in the layers of multi-token prediction that are trained: as [`Counts::active`], the
    /// model's head once for each of them that has none of its own.
    pub fn active_mtp(&self) -> u64 {
        let of = |mtp: &MtpModule| {
            let head = if mtp.head.is_none() { self.param(self.head).elements() } else { 0 };
            head as i64 - self.idle_experts(&mtp.layer.ffn) as i64
        };
        let trained = self.trained_mtp();
        let own: u64 = trained.first().map_or(0, |_| self.counts().mtp);
        own.saturating_add_signed(trained.iter().map(of).sum())
    }

    fn idle_experts(&self, ffn: &FfnModule) -> u64 {
        let FfnModule::Moe(moe) = ffn else { return 0 };
        let all: u64 = moe.experts().map(|id| self.param(id).elements()).sum();
        all / moe.config.experts * (moe.config.experts - moe.config.top_k)
    }
}

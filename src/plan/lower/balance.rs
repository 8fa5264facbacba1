//! What evens out the load of experts: the auxiliary loss beside the router's gradient, and the step of its bias.

use super::builder::Builder;
use crate::model::{MoeModule, ParamId};
use crate::plan::mesh::Axis;
use crate::plan::ops::{Accumulate, Op, Sum};
use crate::plan::program::View;

/// The load of one layer's experts over a step, and the bias that it moves.
pub(super) struct Load {
    bias: ParamId,
    load: View,
    rate: f64,
}

impl Builder<'_> {
    /// Room for the load of every layer whose bias is updated: one row, so that one collective sums it.
    pub fn loads(&mut self) {
        let layers = self.model.layers.iter().chain(self.mtp().iter().map(|mtp| &mtp.layer));
        let layers = layers.filter_map(|layer| match &layer.ffn {
            crate::model::FfnModule::Moe(moe) => Some(moe),
            crate::model::FfnModule::Dense(_) => None,
        });
        let updated = layers.filter(|moe| moe.config.router.bias_update > 0.0 && self.task.trains());
        let updated: Vec<&MoeModule> = updated.collect();
        let experts = updated.iter().map(|moe| moe.config.experts).sum();
        if experts == 0 {
            return;
        }
        let all = self.persistent("router.load", 1, experts, crate::base::DType::F32);
        let mut offset = 0;
        for moe in updated {
            let (experts, rate) = (moe.config.experts, moe.config.router.bias_update);
            let load = View { offset, cols: experts, ..all };
            offset += experts;
            self.loads.extend(moe.bias.map(|bias| Load { bias, load, rate }));
        }
    }

    /// Adds the tokens of a micro batch to the load of their experts.
    pub fn count_load(&mut self, module: &MoeModule, counts: View) {
        let known = self.loads.iter().find(|load| Some(load.bias) == module.bias);
        if let Some(&Load { load, .. }) = known {
            self.emit(Op::MoeCountLoad { counts, load: Sum { view: load, mode: Accumulate::AfterFirst } });
        }
    }

    /// The auxiliary loss and its gradient. It is not linear in the tokens it is taken over; over each sequence by itself it
    /// is the same however sequences are divided over ranks and micro batches.
    pub fn aux_loss(&mut self, module: &MoeModule, logits: View, index: View, d_logits: View) {
        let router = &module.config.router;
        if router.aux_loss == 0.0 {
            return;
        }
        let (sequence, score) = (self.recipe.data.sequence, router.score);
        let load = self.exact("router.load", self.tokens / sequence, logits.cols);
        let weight = router.aux_loss / self.recipe.train.global_batch as f64;
        self.emit(Op::MoeAuxLoss { logits, index, load, d_logits, score, sequence, weight });
    }

    /// Sums the load over all ranks and moves every bias against it.
    pub fn update_biases(&mut self) {
        let Some(Load { load, .. }) = self.loads.first() else { return };
        let experts = self.loads.iter().map(|load| load.load.cols).sum();
        let data = View { cols: experts, ..*load };
        let steps = self.loads.iter().map(|load| {
            let bias = self.frozen[&load.bias];
            Op::MoeUpdateBias { load: load.load, bias, rate: load.rate }
        });
        let sum = (self.mesh.devices > 1).then_some(Op::AllReduce { data, axis: Axis::World });
        let ops: Vec<Op> = sum.into_iter().chain(steps).collect();
        ops.into_iter().for_each(|op| self.emit(op));
    }
}

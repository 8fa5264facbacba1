//! The ends of a step: counting tokens before it, clipping and the optimizer behind it.

use super::builder::Builder;
use crate::plan::mesh::Axis;
use crate::plan::ops::Op;
use crate::plan::placement::UnitId;

impl Builder<'_> {
    pub fn count_tokens(&mut self) {
        self.emit(Op::CountTokens {});
    }

    /// Sums the copies of every gradient shard, measures the global norm, and applies the optimizer.
    pub fn update(&mut self) {
        let units = || (0..).map(UnitId).zip(&self.placement.units);
        let mut ops = Vec::new();
        for (id, unit) in units() {
            let Some(grad) = self.units[id.0 as usize].grad else { continue };
            let copies = if unit.axis == Axis::Fsdp { Axis::Replicate } else { Axis::ExpertReplicate };
            let (axis, copies) = (copies, self.mesh.size(copies));
            if copies > 1 {
                ops.push(Op::AllReduce { data: grad, axis });
            }
            ops.push(Op::SumSquares { grad, unit: id, copies });
        }
        ops.push(Op::ReduceMetrics {});
        let adamw = self.recipe.train.optimizer.adamw();
        let ([beta1, beta2], eps, weight_decay) = (adamw.betas, adamw.eps, adamw.weight_decay);
        for (unit, _) in units() {
            let state = &self.units[unit.0 as usize];
            let (Some(grad), Some([m, v]), param) = (state.grad, state.moments, state.param) else {
                continue;
            };
            ops.push(Op::ApplyAdamW { grad, param, m, v, unit, beta1, beta2, eps, weight_decay });
        }
        ops.into_iter().for_each(|op| self.emit(op));
        self.update_biases();
    }
}

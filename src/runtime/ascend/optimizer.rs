//! The norm of gradients and the update.

use super::memory::Metric;
use super::{Ascend, Done, Scalars};
use crate::plan::{Axis, Op, UnitId, View};
use ascend_rs::{DataType, IntArray, Scalar, Tensor, ops};
use std::ops::Range;

/// Elements that are updated at a time: clipped gradients need as much scratch memory.
const UPDATED: u64 = 1 << 24;

impl Ascend {
    pub(super) fn optimize(&self, op: &Op, scalars: &Scalars) -> Done {
        match *op {
            Op::SumSquares { grad, unit, copies } => {
                let held = self.held(unit);
                let count = held.end - held.start;
                let grad = self.part(grad, 0..count)?;
                let (squares, sum) = (
                    self.memory.scratch(&[count], DataType::F32)?,
                    self.memory.scratch(&[1], DataType::F32)?,
                );
                self.launch(ops::mul(&grad, &grad, &squares))?;
                self.launch(ops::reduce_sum(&squares, &IntArray::new(&[0])?, false, DataType::F32, &sum))?;
                let share = Scalar::f64(1.0 / copies as f64)?;
                self.launch(ops::inplace_add(&self.memory.metric(Metric::Norm)?, &sum, &share))
            }
            Op::ApplyAdamW { grad, param, m, v, unit, beta1, beta2, eps, weight_decay } => {
                let held = self.held(unit);
                let decayed = self.plan.placement.unit(unit).decayed.clamp(held.start, held.end);
                let (from, to) = (decayed - held.start, held.end - held.start);
                let step = self.memory.metric(Metric::Step)?;
                self.launch(ops::inplace_fill_scalar(&step, &Scalar::f32(scalars.step as f32)?))?;
                let factor = scalars.clip_factor();
                let ranges =
                    [(0..from, weight_decay), (from..to, 0.0)].into_iter().flat_map(|(range, decay)| {
                        let starts = range.clone().step_by(UPDATED as usize);
                        starts.map(move |start| (start..range.end.min(start + UPDATED), decay))
                    });
                for (range, decay) in ranges {
                    let part = |view| self.part(view, range.clone());
                    let mut gradient = part(grad)?;
                    if factor != 1.0 {
                        // In the same place for each range: the stream is in order.
                        self.memory.begin();
                        let clipped = self.memory.scratch(&[range.end - range.start], DataType::F32)?;
                        self.launch(ops::muls(&gradient, &Scalar::f32(factor)?, &clipped))?;
                        gradient = clipped;
                    }
                    self.launch(ops::apply_adam_wv2(
                        &part(param)?,
                        &part(m)?,
                        &part(v)?,
                        None,
                        &gradient,
                        &step,
                        scalars.learning_rate as f32,
                        beta1 as f32,
                        beta2 as f32,
                        decay as f32,
                        eps as f32,
                        false,
                        false,
                    ))?;
                }
                Ok(())
            }
            ref other => unreachable!("{} is no part of the update", other.name()),
        }
    }

    /// Elements `range` of a shard.
    fn part(&self, view: View, range: Range<u64>) -> Done<Tensor> {
        self.strided(view, range.start, &[range.end - range.start], &[1])
    }

    /// The elements of a unit that this rank holds.
    fn held(&self, unit: UnitId) -> Range<u64> {
        let unit = self.plan.placement.unit(unit);
        unit.held(self.coordinate(unit.axis))
    }

    fn coordinate(&self, axis: Axis) -> u64 {
        self.plan.mesh.coordinate(axis, u64::from(self.peers.comm.rank()))
    }
}

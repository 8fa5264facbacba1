//! The loss of the logits and their gradient.

use super::memory::Metric;
use super::{Ascend, Done, Scalars};
use crate::plan::Op;
use ascend_rs::{DataType, Scalar, ops};

/// Losses of all rows added up.
const SUM: i64 = 2;
/// The label of a row that has none.
const NONE: i64 = -1;

impl Ascend {
    pub(super) fn loss(&self, op: &Op, scalars: &Scalars) -> Done {
        match *op {
            // tanh(x) = 2 · sigmoid(2x) − 1
            Op::Softcap { logits, cap } => {
                let (logits, one) = (self.matrix(logits)?, Scalar::f32(1.0)?);
                let inner = self.memory.scratch(&sizes(logits.shape()), logits.data_type())?;
                self.launch(ops::inplace_muls(&logits, &Scalar::f64(2.0 / cap)?))?;
                self.launch(ops::sigmoid(&logits, &inner))?;
                self.launch(ops::muls(&inner, &Scalar::f64(2.0 * cap)?, &logits))?;
                self.launch(ops::inplace_adds(&logits, &Scalar::f64(-cap)?, &one))
            }
            Op::CrossEntropy { logits, labels, softcap, mtp } => {
                let (rows, classes) = (self.rows(logits), logits.cols);
                let (shape, one) = ([rows, classes], Scalar::f32(1.0)?);
                let (wide, result) = (self.cast(logits, DataType::F32)?, self.matrix(logits)?);
                let labels = self.shaped(labels, &[rows])?;
                let log_shares = self.memory.scratch(&shape, DataType::F32)?;
                self.launch(ops::log_softmax(&wide, -1, &log_shares))?;
                let slope = softcap.map(|cap| -> Done<_> {
                    // 1 − (logits / cap)², of the limited logits.
                    let slope = self.memory.scratch(&shape, DataType::F32)?;
                    self.launch(ops::mul(&wide, &wide, &slope))?;
                    self.launch(ops::inplace_muls(&slope, &Scalar::f64(-1.0 / (cap * cap))?))?;
                    self.launch(ops::inplace_adds(&slope, &one, &one))?;
                    Ok(slope)
                });
                let slope = slope.transpose()?;

                let weights = self.memory.scratch(&[classes], DataType::F32)?;
                let [sum, counted, scale] = [(); 3].map(|()| self.memory.scratch(&[1], DataType::F32));
                let (sum, counted, scale) = (sum?, counted?, scale?);
                self.launch(ops::inplace_fill_scalar(&weights, &one))?;
                self.launch(ops::nll_loss(&log_shares, &labels, &weights, SUM, NONE, &sum, &counted))?;
                let metric = if mtp.is_some() { Metric::Mtp } else { Metric::Loss };
                self.launch(ops::inplace_add(&self.memory.metric(metric)?, &sum, &one))?;

                let factor = Scalar::f64(mtp.unwrap_or(1.0) / scalars.supervised.max(1.0))?;
                self.launch(ops::inplace_fill_scalar(&scale, &factor))?;
                let d_shares = self.memory.scratch(&shape, DataType::F32)?;
                self.launch(ops::nll_loss_backward(
                    &scale,
                    &log_shares,
                    &labels,
                    &weights,
                    SUM,
                    NONE,
                    &counted,
                    &d_shares,
                ))?;
                self.launch(ops::log_softmax_backward(&d_shares, &log_shares, -1, &wide))?;
                if let Some(slope) = slope {
                    self.launch(ops::inplace_mul(&wide, &slope))?;
                }
                match self.dtype(logits) {
                    DataType::F32 => Ok(()),
                    _ => self.launch(ops::inplace_copy(&result, &wide)),
                }
            }
            Op::ShiftLabels { labels, targets, by } => {
                let all = self.shaped(targets, &[self.rows(targets)])?;
                self.launch(ops::inplace_fill_scalar(&all, &Scalar::i64(NONE)?))?;
                self.each_shifted(by, |to, from, rows| {
                    let (to, from) = (
                        self.strided(targets, to, &[rows], &[1])?,
                        self.strided(labels, from, &[rows], &[1])?,
                    );
                    self.launch(ops::inplace_copy(&to, &from))
                })
            }
            ref other => unreachable!("{} is no part of the loss", other.name()),
        }
    }
}

impl Ascend {
    /// Calls `rows` for each document with the first token that has a `by`-th next one, that one, and how many follow each.
    pub(super) fn each_shifted(&self, by: i64, rows: impl Fn(u64, u64, u64) -> Done) -> Done {
        let mut start = 0;
        for end in &self.ends {
            let count = end - start - by.abs();
            if count > 0 {
                let (to, from) = (start + (-by).max(0), start + by.max(0));
                rows(to as u64, from as u64, count as u64)?;
            }
            start = *end;
        }
        Ok(())
    }
}

fn sizes(shape: &[i64]) -> Vec<u64> {
    shape.iter().map(|size| *size as u64).collect()
}

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
            Op::CrossEntropy { logits, labels, softcap } => {
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
                self.launch(ops::inplace_add(&self.memory.metric(Metric::Loss)?, &sum, &one))?;

                let factor = Scalar::f64(scalars.supervised.max(1.0).recip())?;
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
            ref other => unreachable!("{} is no part of the loss", other.name()),
        }
    }
}

fn sizes(shape: &[i64]) -> Vec<u64> {
    shape.iter().map(|size| *size as u64).collect()
}

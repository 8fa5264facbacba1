//! Products, sums, norms and activations.

use super::{Ascend, Done};
use crate::plan::{Op, Sum, View};
use crate::recipe::{Act, Activation};
use ascend_rs::{DataType, IntArray, Scalar, Tensor, ops};

/// Matrix products in the type of their operands.
const KEEP_PRECISION: i8 = 0;

impl Ascend {
    /// Runs the instruction if it is one of these.
    pub(super) fn dense(&self, op: &Op, micro: u64) -> Done<bool> {
        match *op {
            Op::Embedding { table, ids, out, scale } => {
                let (ids, result) = (self.shaped(ids, &[self.rows(ids)])?, self.matrix(out)?);
                self.launch(ops::embedding(&self.matrix(table)?, &ids, &result))?;
                if scale != 1.0 {
                    self.launch(ops::inplace_muls(&result, &Scalar::f64(scale)?))?;
                }
            }
            Op::EmbeddingGrad { dy, ids, d_table, scale } => {
                let (table, ids) = (self.matrix(d_table.view)?, self.shaped(ids, &[self.rows(ids)])?);
                if !d_table.mode.adds(micro) {
                    self.launch(ops::inplace_zero(&table))?;
                }
                let dy = self.cast(dy, self.dtype(d_table.view))?;
                self.launch(ops::index_add(&table, 0, &ids, &dy, &Scalar::f64(scale)?, &table))?;
            }
            Op::Matmul { a, b, out, trans_a, trans_b } => {
                self.multiply(a, b, out, (trans_a, trans_b), micro)?
            }
            Op::Add { a, b, out } => {
                let (a, b, out) = (self.matrix(a)?, self.matrix(b)?, self.matrix(out)?);
                self.launch(ops::add(&a, &b, &Scalar::f32(1.0)?, &out))?;
            }
            Op::ShiftTokens { x, y, by } => {
                let (cols, adds) = (x.cols, y.mode.adds(micro));
                if !adds {
                    self.launch(ops::inplace_zero(&self.matrix(y.view)?))?;
                }
                self.each_shifted(by, |to, from, rows| {
                    let part = |view, first| self.strided(view, first * cols, &[rows, cols], &[cols, 1]);
                    let (to, from) = (part(y.view, to)?, part(x, from)?);
                    match adds {
                        true => self.launch(ops::inplace_add(&to, &from, &Scalar::f32(1.0)?)),
                        false => self.launch(ops::inplace_copy(&to, &from)),
                    }
                })?;
            }
            Op::Concat { a, b, out } => {
                for (part, first) in [(a, 0), (b, a.cols)] {
                    let place = self.strided(out, first, &[self.rows(part), part.cols], &[out.cols, 1])?;
                    self.launch(ops::inplace_copy(&place, &self.matrix(part)?))?;
                }
            }
            Op::Split { x, a, b } => {
                for (part, first) in [(a, 0), (b, a.cols)] {
                    let place = self.strided(x, first, &[self.rows(part), part.cols], &[x.cols, 1])?;
                    self.launch(ops::inplace_copy(&self.matrix(part)?, &place))?;
                }
            }
            Op::RmsNorm { x, gamma, y, rstd, eps, offset } => {
                let (gamma, x, y) =
                    (self.gain(gamma, offset)?, self.rows_of(x, gamma)?, self.rows_of(y, gamma)?);
                let rstd = self.shaped(rstd, &[self.elements(rstd) as u64, 1])?;
                self.launch(ops::rms_norm(&x, &gamma, eps, &y, &rstd))?;
            }
            Op::RmsNormGrad { dy, x, rstd, gamma, dx, d_gamma, offset } => {
                let channels = gamma.cols;
                let gain = self.gain(gamma, offset)?;
                let (dy, input) = (self.rows_of(dy, gamma)?, self.rows_of(x, gamma)?);
                let rstd = self.shaped(rstd, &[self.elements(rstd) as u64, 1])?;
                let shape = [self.elements(x) as u64 / channels, channels];
                self.sum(dx, micro, &shape, self.dtype(x), |dx| {
                    self.sum(d_gamma, micro, &[channels], DataType::F32, |d_gamma| {
                        self.launch(ops::rms_norm_grad(&dy, &input, &rstd, &gain, dx, d_gamma))
                    })
                })?;
            }
            Op::Clip { x, y, limit } => {
                let (least, most) = (Scalar::f64(-limit)?, Scalar::f64(limit)?);
                self.launch(ops::clamp(&self.matrix(x)?, Some(&least), Some(&most), &self.matrix(y)?))?;
            }
            Op::ClipGrad { dy, x, limit } => {
                let (dy, x) = (self.matrix(dy)?, self.matrix(x)?);
                self.within(&dy, &x, (Some(-limit), Some(limit)))?;
            }
            Op::Glu { gate, up, scale, y, act } => self.glu(gate, up, scale, y, act)?,
            Op::GluGrad { gate, up, dy, scale, d_scale, act } => {
                self.glu_grad([gate, up, dy], scale, d_scale, act)?
            }
            Op::AddBias { x, bias, counts: None, scale } => {
                let (cols, x, mut bias) = (bias.cols, self.matrix(x)?, self.shaped(bias, &[1, bias.cols])?);
                if let Some(scale) = scale {
                    let rows = self.rows(scale);
                    let scaled = self.memory.scratch(&[rows, cols], self.dtype(scale))?;
                    self.launch(ops::mul(&self.shaped(scale, &[rows, 1])?, &bias, &scaled))?;
                    bias = scaled;
                }
                self.launch(ops::inplace_add(&x, &bias, &Scalar::f32(1.0)?))?;
            }
            Op::AddBiasGrad { dy, counts: None, scale: None, d_bias, .. } => {
                let (rows, of) = (IntArray::new(&[0])?, self.dtype(d_bias.view));
                let dy = self.cast(dy, of)?;
                self.sum(d_bias, micro, &[d_bias.view.cols], of, |sum| {
                    self.launch(ops::reduce_sum(&dy, &rows, false, of, sum))
                })?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// `out (+)= op(a) · op(b)`. A transpose is a view; a product of half precision that is added up in 32 bits goes by scratch memory.
    fn multiply(&self, a: View, b: View, out: Sum, (trans_a, trans_b): (bool, bool), micro: u64) -> Done {
        let operand = |view: View, transposed: bool| match transposed {
            false => self.matrix(view),
            true => self.strided(view, 0, &[view.cols, self.rows(view)], &[1, view.cols]),
        };
        let (left, right) = (operand(a, trans_a)?, operand(b, trans_b)?);
        let (shape, of) = ([self.rows(out.view), out.view.cols], self.dtype(a));
        if out.mode.adds(micro) && of == self.dtype(out.view) {
            let (sum, one) = (self.matrix(out.view)?, Scalar::f32(1.0)?);
            return self.launch(ops::addmm(&sum, &left, &right, &one, &one, &sum, KEEP_PRECISION));
        }
        self.sum(out, micro, &shape, of, |result| {
            self.launch(ops::matmul(&left, &right, result, KEEP_PRECISION))
        })
    }

    /// A view in another type, by way of scratch memory where it has not that type already.
    pub(super) fn cast(&self, view: View, of: DataType) -> Done<Tensor> {
        let matrix = self.matrix(view)?;
        if self.dtype(view) == of {
            return Ok(matrix);
        }
        let wide = self.memory.scratch(&[self.rows(view), view.cols], of)?;
        self.launch(ops::cast(&matrix, of, &wide))?;
        Ok(wide)
    }

    /// `gamma + offset`
    fn gain(&self, gamma: View, offset: f64) -> Done<Tensor> {
        let gain = self.shaped(gamma, &[gamma.cols])?;
        if offset == 0.0 {
            return Ok(gain);
        }
        let moved = self.memory.scratch(&[gamma.cols], self.dtype(gamma))?;
        self.launch(ops::adds(&gain, &Scalar::f64(offset)?, &Scalar::f32(1.0)?, &moved))?;
        Ok(moved)
    }

    /// A view as rows as long as `gamma`, heads each a row of their own.
    fn rows_of(&self, view: View, gamma: View) -> Done<Tensor> {
        self.shaped(view, &[self.elements(view) as u64 / gamma.cols, gamma.cols])
    }

    /// Leaves of `dy` what belongs to elements of `x` within the limits, and makes the rest 0.
    pub(super) fn within(&self, dy: &Tensor, x: &Tensor, (least, most): (Option<f64>, Option<f64>)) -> Done {
        let shape: Vec<u64> = x.shape().iter().map(|size| *size as u64).collect();
        let (inside, zero) =
            (self.memory.scratch(&shape, DataType::Bool)?, self.memory.scratch(&[1], dy.data_type())?);
        self.launch(ops::inplace_zero(&zero))?;
        if let Some(least) = least {
            self.launch(ops::ge_scalar(x, &Scalar::f64(least)?, &inside))?;
            self.launch(ops::s_where(&inside, dy, &zero, dy))?;
        }
        if let Some(most) = most {
            self.launch(ops::le_scalar(x, &Scalar::f64(most)?, &inside))?;
            self.launch(ops::s_where(&inside, dy, &zero, dy))?;
        }
        Ok(())
    }

    /// `silu(gate)` and `up`, within the limit.
    fn branches(&self, gate: View, up: View, limit: Option<f64>) -> Done<(Tensor, Tensor)> {
        let (shape, of) = ([self.rows(gate), gate.cols], self.dtype(gate));
        let (active, linear) = (self.memory.scratch(&shape, of)?, self.matrix(up)?);
        self.launch(ops::silu(&self.matrix(gate)?, &active))?;
        let Some(limit) = limit else { return Ok((active, linear)) };
        let (least, most, limited) =
            (Scalar::f64(-limit)?, Scalar::f64(limit)?, self.memory.scratch(&shape, of)?);
        self.launch(ops::clamp(&active, None, Some(&most), &active))?;
        self.launch(ops::clamp(&linear, Some(&least), Some(&most), &limited))?;
        Ok((active, limited))
    }

    fn glu(&self, gate: View, up: View, scale: Option<View>, y: View, act: Activation) -> Done {
        debug_assert_eq!(act.act, Act::SwiGlu, "others are refused before a run");
        if self.rows(gate) == 0 {
            return Ok(());
        }
        let (active, linear) = self.branches(gate, up, act.clamp)?;
        let result = self.matrix(y)?;
        self.launch(ops::mul(&active, &linear, &result))?;
        if let Some(scale) = scale {
            let scale = self.shaped(scale, &[self.rows(gate), 1])?;
            self.launch(ops::inplace_mul(&result, &scale))?;
        }
        Ok(())
    }

    /// `gate` and `up` become their gradients, `dy` the result again.
    fn glu_grad(
        &self,
        [gate, up, dy]: [View; 3],
        scale: Option<View>,
        d_scale: Option<View>,
        act: Activation,
    ) -> Done {
        let rows = self.rows(gate);
        if rows == 0 {
            return Ok(());
        }
        let (shape, of) = ([rows, gate.cols], self.dtype(gate));
        let (active, linear) = self.branches(gate, up, act.clamp)?;
        let (gate, up, dy) = (self.matrix(gate)?, self.matrix(up)?, self.matrix(dy)?);
        // The result without its scale, which the gradient of the scale needs.
        let product = self.memory.scratch(&shape, of)?;
        self.launch(ops::mul(&active, &linear, &product))?;
        if let (Some(scale), Some(d_scale)) = (scale, d_scale) {
            let (each, last) = (self.memory.scratch(&shape, of)?, IntArray::new(&[-1])?);
            self.launch(ops::mul(&dy, &product, &each))?;
            let (sum, scale) = (self.shaped(d_scale, &[rows, 1])?, self.shaped(scale, &[rows, 1])?);
            self.launch(ops::reduce_sum(&each, &last, true, self.dtype(d_scale), &sum))?;
            self.launch(ops::inplace_mul(&dy, &scale))?;
            self.launch(ops::inplace_mul(&product, &scale))?;
        }
        let (d_active, d_linear) = (self.memory.scratch(&shape, of)?, self.memory.scratch(&shape, of)?);
        self.launch(ops::mul(&dy, &linear, &d_active))?;
        self.launch(ops::mul(&dy, &active, &d_linear))?;
        if let Some(limit) = act.clamp {
            let unlimited = self.memory.scratch(&shape, of)?;
            self.launch(ops::silu(&gate, &unlimited))?;
            self.within(&d_active, &unlimited, (None, Some(limit)))?;
            self.within(&d_linear, &up, (Some(-limit), Some(limit)))?;
        }
        self.launch(ops::inplace_copy(&up, &d_linear))?;
        let d_gate = self.memory.scratch(&shape, of)?;
        self.launch(ops::silu_backward(&d_active, &gate, &d_gate))?;
        self.launch(ops::inplace_copy(&gate, &d_gate))?;
        self.launch(ops::inplace_copy(&dy, &product))
    }
}

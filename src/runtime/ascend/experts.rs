//! Choice of experts, the way of tokens to them and back, and their products.

use super::{Ascend, Done};
use crate::plan::{Op, Sum, View};
use crate::recipe::Score;
use ascend_rs::{DataType, IntArray, Scalar, Tensor, TensorList, ops};

/// Keeps the weights finite when all chosen scores vanish.
const TINY: f32 = 1e-20;
/// One result, and how rows are grouped: those of `x`, or those that two factors have in common.
const ONE_RESULT: i64 = 3;
const ROWS: i64 = 0;
const COMMON: i64 = 2;
/// Groups are given by their sizes.
const COUNTS: i64 = 1;

impl Ascend {
    pub(super) fn experts(&self, op: &Op, micro: u64) -> Done {
        match *op {
            Op::MoeGatingTopK { logits, bias, index, weight, score, normalize, scale, .. } => {
                let (tokens, k) = (self.rows(index), index.cols);
                let scores = self.scores(logits, score)?;
                let mut keys = None;
                if let Some(bias) = bias {
                    let biased = self.memory.scratch(&[tokens, logits.cols], DataType::F32)?;
                    let bias = self.shaped(bias, &[1, bias.cols])?;
                    self.launch(ops::add(&scores, &bias, &Scalar::f32(1.0)?, &biased))?;
                    keys = Some(biased);
                }
                let best = self.memory.scratch(&[tokens, k], DataType::F32)?;
                let chosen = self.memory.scratch(&[tokens, k], DataType::I64)?;
                self.launch(ops::topk(
                    keys.as_ref().unwrap_or(&scores),
                    k as i64,
                    -1,
                    true,
                    true,
                    &best,
                    &chosen,
                ))?;
                self.launch(ops::cast(&chosen, DataType::I32, &self.matrix(index)?))?;
                let weight = self.matrix(weight)?;
                self.launch(ops::gather(&scores, 1, &chosen, &weight))?;
                if normalize {
                    let sum = self.row_sums(&weight, tokens)?;
                    self.launch(ops::inplace_adds(&sum, &Scalar::f32(TINY)?, &Scalar::f32(1.0)?))?;
                    self.launch(ops::div(&weight, &sum, &weight))?;
                }
                self.launch(ops::inplace_muls(&weight, &Scalar::f64(scale)?))
            }
            Op::MoeGatingTopKGrad { logits, index, d_weight, d_logits, score, normalize, scale } => {
                self.gating_grad([logits, index, d_weight, d_logits], score, normalize, scale)
            }
            Op::MoeTokenSort { index, position, source, counts } => {
                self.sort(index, position, source, counts)
            }
            Op::MoeTokenPermute { x, source, rows, top_k } => {
                // The token of a copy: source / top_k, whole.
                let copies = self.rows(source) * source.cols;
                let place = self.memory.scratch(&[copies], DataType::F32)?;
                let token = self.memory.scratch(&[copies], DataType::I32)?;
                self.launch(ops::cast(&self.shaped(source, &[copies])?, DataType::F32, &place))?;
                self.launch(ops::inplace_adds(&place, &Scalar::f32(0.5)?, &Scalar::f32(1.0)?))?;
                self.launch(ops::inplace_divs(&place, &Scalar::f32(top_k as f32)?))?;
                self.launch(ops::cast(&place, DataType::I32, &token))?;
                self.launch(ops::index_select(&self.matrix(x)?, 0, &token, &self.matrix(rows)?))
            }
            Op::MoeTokenUnpermute { rows, position, y, top_k } => {
                let tokens = self.rows(y.view);
                let position = self.shaped(position, &[tokens * top_k])?;
                let even = self.memory.scratch(&[tokens, top_k], self.dtype(rows))?;
                self.launch(ops::inplace_fill_scalar(&even, &Scalar::f32(1.0)?))?;
                let (shape, of, rows) = ([tokens, y.view.cols], self.dtype(rows), self.matrix(rows)?);
                self.sum(y, micro, &shape, of, |sum| {
                    self.launch(ops::moe_token_unpermute(&rows, &position, Some(&even), false, None, sum))
                })
            }
            Op::MoeWeightPermute { weight, source, out } => self.take(weight, source, out),
            Op::MoeWeightUnpermute { rows, position, weight } => self.take(rows, position, weight),
            Op::MoeCountLoad { counts, load } => {
                let experts = load.view.cols;
                let counts = self.shaped(counts, &[experts])?;
                self.sum(load, micro, &[experts], DataType::F32, |sum| {
                    self.launch(ops::cast(&counts, DataType::F32, sum))
                })
            }
            Op::MoeUpdateBias { load, bias, rate } => {
                let experts = load.cols;
                let (load, bias) = (self.shaped(load, &[experts])?, self.shaped(bias, &[experts])?);
                let (mean, under) = (
                    self.memory.scratch(&[1], DataType::F32)?,
                    self.memory.scratch(&[experts], DataType::F32)?,
                );
                self.launch(ops::reduce_sum(&load, &IntArray::new(&[0])?, false, DataType::F32, &mean))?;
                self.launch(ops::inplace_divs(&mean, &Scalar::f64(experts as f64)?))?;
                self.launch(ops::sub(&mean, &load, &Scalar::f32(1.0)?, &under))?;
                self.launch(ops::sign(&under, &under))?;
                self.launch(ops::inplace_add(&bias, &under, &Scalar::f64(rate)?))
            }
            Op::GroupedMatmul { x, w, counts, out, trans_w } => {
                self.grouped(x, w, counts, out, trans_w, micro)
            }
            Op::GroupedMatmulGrad { dy, x, counts, dw } => self.grouped_grad(dy, x, counts, dw, micro),
            ref other => unreachable!("{} is refused before a run", other.name()),
        }
    }

    /// Scores of all experts in 32 bits.
    fn scores(&self, logits: View, score: Score) -> Done<Tensor> {
        let scores = self.memory.scratch(&[self.rows(logits), logits.cols], DataType::F32)?;
        let logits = self.cast(logits, DataType::F32)?;
        match score {
            Score::Sigmoid => self.launch(ops::sigmoid(&logits, &scores))?,
            Score::Softmax => self.launch(ops::softmax(&logits, -1, &scores))?,
        }
        Ok(scores)
    }

    /// `[tokens, 1]`
    fn row_sums(&self, of: &Tensor, tokens: u64) -> Done<Tensor> {
        let sums = self.memory.scratch(&[tokens, 1], DataType::F32)?;
        self.launch(ops::reduce_sum(of, &IntArray::new(&[-1])?, true, DataType::F32, &sums))?;
        Ok(sums)
    }

    /// With p the chosen scores, s their sum and w = scale · p / s: `dp = scale · (dw − Σ dw · p / s) / s`, and from there through the score.
    fn gating_grad(
        &self,
        [logits, index, d_weight, d_logits]: [View; 4],
        score: Score,
        normalize: bool,
        scale: f64,
    ) -> Done {
        let (tokens, k, one) = (self.rows(index), index.cols, Scalar::f32(1.0)?);
        let scores = self.scores(logits, score)?;
        let small = || self.memory.scratch(&[tokens, k], DataType::F32);
        let (p, dp, product) = (small()?, small()?, small()?);
        let chosen = self.memory.scratch(&[tokens, k], DataType::I64)?;
        self.launch(ops::cast(&self.matrix(index)?, DataType::I64, &chosen))?;
        self.launch(ops::gather(&scores, 1, &chosen, &p))?;
        let d_weight = self.cast(d_weight, DataType::F32)?;
        if normalize {
            let sum = self.row_sums(&p, tokens)?;
            self.launch(ops::inplace_adds(&sum, &Scalar::f32(TINY)?, &one))?;
            self.launch(ops::mul(&d_weight, &p, &product))?;
            let drift = self.row_sums(&product, tokens)?;
            self.launch(ops::div(&drift, &sum, &drift))?;
            self.launch(ops::sub(&d_weight, &drift, &one, &dp))?;
            self.launch(ops::div(&dp, &sum, &dp))?;
            self.launch(ops::inplace_muls(&dp, &Scalar::f64(scale)?))?;
        } else {
            self.launch(ops::muls(&d_weight, &Scalar::f64(scale)?, &dp))?;
        }
        // Gradients of the scores that were not chosen are 0.
        let d_scores = self.memory.scratch(&[tokens, logits.cols], DataType::F32)?;
        self.launch(ops::inplace_zero(&d_scores))?;
        self.launch(ops::scatter_add(&d_scores, 1, &chosen, &dp, &d_scores))?;
        self.add_or_write(d_logits, false, &[tokens, logits.cols], DataType::F32, |result| match score {
            Score::Sigmoid => self.launch(ops::sigmoid_backward(&d_scores, &scores, result)),
            Score::Softmax => self.launch(ops::softmax_backward(&d_scores, &scores, -1, result)),
        })
    }

    /// A stable sort by expert gives the copy of each row; sorting those gives the row of each copy.
    fn sort(&self, index: View, position: View, source: View, counts: View) -> Done {
        let (copies, experts) = (self.elements(index) as u64, counts.cols);
        let (values, places) =
            (self.memory.scratch(&[copies], DataType::I32)?, self.memory.scratch(&[copies], DataType::I64)?);
        let index = self.shaped(index, &[copies])?;
        for (keys, sorted) in [(&index, source), (&self.shaped(source, &[copies])?, position)] {
            self.launch(ops::sort(keys, true, -1, false, &values, &places))?;
            self.launch(ops::cast(&places, DataType::I32, &self.shaped(sorted, &[copies])?))?;
        }
        // Experts are whole numbers: they lie in the middle of their bins.
        let numbers = self.memory.scratch(&[copies], DataType::F32)?;
        let bins = self.memory.scratch(&[experts], DataType::F32)?;
        self.launch(ops::cast(&index, DataType::F32, &numbers))?;
        let (least, most) = (Scalar::f64(-0.5)?, Scalar::f64(experts as f64 - 0.5)?);
        self.launch(ops::histc(&numbers, experts as i64, &least, &most, &bins))?;
        self.launch(ops::cast(&bins, DataType::I32, &self.shaped(counts, &[experts])?))
    }

    /// `out[i] = from[index[i]]`
    fn take(&self, from: View, index: View, out: View) -> Done {
        let (count, taken) = (self.elements(from) as u64, self.elements(index) as u64);
        let index = self.shaped(index, &[taken])?;
        self.launch(ops::index_select(&self.shaped(from, &[count])?, 0, &index, &self.shaped(out, &[taken])?))
    }

    /// Sizes of the groups as products of groups take them.
    fn sizes(&self, counts: View) -> Done<Tensor> {
        let experts = counts.cols;
        let sizes = self.memory.scratch(&[experts], DataType::I64)?;
        self.launch(ops::cast(&self.shaped(counts, &[experts])?, DataType::I64, &sizes))?;
        Ok(sizes)
    }

    fn grouped(&self, x: View, w: View, counts: View, out: Sum, trans_w: bool, micro: u64) -> Done {
        let (rows, k, n, experts) = (self.rows(x), x.cols, out.view.cols, counts.cols);
        if rows == 0 {
            return Ok(());
        }
        let weight = match trans_w {
            false => self.shaped(w, &[experts, k, n])?,
            true => self.strided(w, 0, &[experts, k, n], &[k * n, 1, k])?,
        };
        let (of, sizes) = (self.dtype(x), self.sizes(counts)?);
        let (x, weight) = (TensorList::new([self.matrix(x)?])?, TensorList::new([weight])?);
        self.sum(out, micro, &[rows, n], of, |result| {
            let result = TensorList::new([result.same()?])?;
            self.grouped_product(&x, &weight, &sizes, ROWS, &result)
        })
    }

    fn grouped_grad(&self, dy: View, x: View, counts: View, dw: Sum, micro: u64) -> Done {
        let (rows, n, k, experts) = (self.rows(x), dy.cols, x.cols, counts.cols);
        let shape = [experts, n, k];
        if rows == 0 {
            let gradient = self.shaped(dw.view, &shape)?;
            return if dw.mode.adds(micro) { Ok(()) } else { self.launch(ops::inplace_zero(&gradient)) };
        }
        let (of, sizes) = (self.dtype(x), self.sizes(counts)?);
        let columns = TensorList::new([self.strided(dy, 0, &[n, rows], &[1, n])?])?;
        let x = TensorList::new([self.matrix(x)?])?;
        self.sum(dw, micro, &shape, of, |result| {
            let result = TensorList::new([result.same()?])?;
            self.grouped_product(&columns, &x, &sizes, COMMON, &result)
        })
    }

    fn grouped_product(
        &self,
        x: &TensorList,
        w: &TensorList,
        sizes: &Tensor,
        by: i64,
        out: &TensorList,
    ) -> Done {
        self.launch(ops::grouped_matmul_v4(
            x,
            w,
            None,
            None,
            None,
            None,
            None,
            None,
            Some(sizes),
            None,
            None,
            None,
            ONE_RESULT,
            by,
            COUNTS,
            0,
            out,
            None,
            None,
        ))
    }
}

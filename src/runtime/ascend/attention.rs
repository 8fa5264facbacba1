//! The instructions between the projections of attention.

use super::{Ascend, Done};
use crate::plan::{Heads, Op, View};
use crate::recipe::RopeStyle;
use ascend_rs::{DataType, IntArray, Scalar, Tensor, ops};
use std::ffi::CStr;

/// Tokens of all documents one behind the other, heads, channels.
const LAYOUT: &CStr = c"TND";
/// Statistics of a row are there so many times.
const REPEATED: u64 = 8;
/// Causal, and causal within a window.
const RIGHT_DOWN: i64 = 3;
const BAND: i64 = 4;
/// What modes that look at no window are given.
const ANY: i64 = 65_536;
const HALVES: i64 = 0;
const PAIRS: i64 = 1;

impl Ascend {
    pub(super) fn attend(&self, op: &Op) -> Done {
        match *op {
            Op::RotaryPositionEmbedding { x, cos, sin, positions, heads, head_dim, from, style, inverse } => {
                let rotary = 2 * cos.cols;
                let (cos, sin) =
                    (self.angles(cos, positions, style, x)?, self.angles(sin, positions, style, x)?);
                if inverse {
                    self.launch(ops::inplace_muls(&sin, &Scalar::f32(-1.0)?))?;
                }
                let (tokens, width) = (self.rows(x), heads * head_dim);
                let shape = [1, tokens, heads, rotary];
                let turning = self.strided(x, from, &shape, &[tokens * width, width, head_dim, 1])?;
                let turned = self.memory.scratch(&shape, self.dtype(x))?;
                let mode = if style == RopeStyle::Interleaved { PAIRS } else { HALVES };
                self.launch(ops::rotary_position_embedding(&turning, &cos, &sin, mode, &turned))?;
                self.launch(ops::inplace_copy(&turning, &turned))
            }
            Op::LatentKeyValue { kv, rope, k, v, heads } => {
                let Latent { own, shared, value, kv_own, kv_value } = self.latent(kv, rope, k, v, heads)?;
                self.launch(ops::inplace_copy(&own, &kv_own))?;
                let rope = self.shaped(rope, &[self.rows(rope), 1, rope.cols])?;
                self.launch(ops::inplace_copy(&shared, &rope))?;
                self.launch(ops::inplace_copy(&value, &kv_value))
            }
            Op::LatentKeyValueGrad { dk, dv, d_kv, d_rope, heads } => {
                let Latent { own, shared, value, kv_own, kv_value } =
                    self.latent(d_kv, d_rope, dk, dv, heads)?;
                self.launch(ops::inplace_copy(&kv_own, &own))?;
                self.launch(ops::inplace_copy(&kv_value, &value))?;
                let (of, by_head) = (self.dtype(d_rope), IntArray::new(&[1])?);
                self.launch(ops::reduce_sum(&shared, &by_head, false, of, &self.matrix(d_rope)?))
            }
            Op::FlashAttentionScore { q, k, v, out, lse, ref heads, .. } => {
                let tokens = self.rows(q);
                let statistics = [tokens, heads.queries, REPEATED];
                let most = self.memory.scratch(&statistics, DataType::F32)?;
                let sum = self.memory.scratch(&statistics, DataType::F32)?;
                let (empty, ends) = (self.memory.scratch(&[0], self.dtype(q))?, IntArray::new(&self.ends)?);
                let (q, k, v) = self.queries_keys_values(q, k, v, heads)?;
                let (mode, before) = sparse(heads);
                let result = self.shaped(out, &[tokens, heads.queries, heads.value_dim])?;
                self.launch(ops::flash_attention_var_len_score(
                    &q,
                    &k,
                    &v,
                    None,
                    None,
                    None,
                    Some(&self.memory.mask()?),
                    None,
                    Some(&ends),
                    Some(&ends),
                    heads.scale,
                    1.0,
                    before,
                    0,
                    heads.queries as i64,
                    LAYOUT,
                    0,
                    mode,
                    &most,
                    &sum,
                    &empty,
                    &result,
                ))?;
                // What the gradient needs of both is the log of the denominator: one number of the eight that are the same, whatever the
                // order of tokens and heads is in which the kernel writes them.
                let one_of = |statistic: &Tensor| {
                    let rows = (tokens * heads.queries) as i64;
                    statistic.view(0, &[rows], &[REPEATED as i64])
                };
                let lse = self.shaped(lse, &[tokens * heads.queries])?;
                self.launch(ops::log(&one_of(&sum)?, &lse))?;
                self.launch(ops::inplace_add(&lse, &one_of(&most)?, &Scalar::f32(1.0)?))
            }
            Op::FlashAttentionScoreGrad { dy, q, k, v, out, lse, dq, dk, dv, ref heads, .. } => {
                let (tokens, of) = (self.rows(q), self.dtype(q));
                let statistics = [tokens * heads.queries, REPEATED];
                // exp(s − lse) / 1 is exp(s − max) / sum.
                let most = self.memory.scratch(&statistics, DataType::F32)?;
                let sum = self.memory.scratch(&statistics, DataType::F32)?;
                self.launch(ops::inplace_copy(&most, &self.shaped(lse, &[tokens * heads.queries, 1])?))?;
                self.launch(ops::inplace_fill_scalar(&sum, &Scalar::f32(1.0)?))?;
                let shape = [tokens as i64, heads.queries as i64, REPEATED as i64];
                let contiguous = [shape[1] * shape[2], shape[2], 1];
                let (most, sum) = (most.view(0, &shape, &contiguous)?, sum.view(0, &shape, &contiguous)?);
                let (ends, bias) = (IntArray::new(&self.ends)?, self.memory.scratch(&[0], of)?);
                let (q, k, v) = self.queries_keys_values(q, k, v, heads)?;
                let (dq, dk, dv) = self.queries_keys_values(dq, dk, dv, heads)?;
                let outputs = |view| self.shaped(view, &[tokens, heads.queries, heads.value_dim]);
                let (mode, before) = sparse(heads);
                self.launch(ops::flash_attention_unpadding_score_grad(
                    &q,
                    &k,
                    &v,
                    &outputs(dy)?,
                    None,
                    None,
                    None,
                    Some(&self.memory.mask()?),
                    Some(&most),
                    Some(&sum),
                    None,
                    Some(&outputs(out)?),
                    None,
                    Some(&ends),
                    Some(&ends),
                    heads.scale,
                    1.0,
                    before,
                    0,
                    heads.queries as i64,
                    LAYOUT,
                    0,
                    mode,
                    &dq,
                    &dk,
                    &dv,
                    Some(&bias),
                ))
            }
            Op::HeadGate { x, gate, y, heads, head_dim } => {
                let (shape, open) = ([self.rows(x), heads, head_dim], self.open(gate, heads)?);
                self.launch(ops::mul(&self.shaped(x, &shape)?, &open, &self.shaped(y, &shape)?))
            }
            Op::HeadGateGrad { dy, x, gate, dx, d_gate, heads, head_dim } => {
                let shape = [self.rows(x), heads, head_dim];
                let (dy, input, open) =
                    (self.shaped(dy, &shape)?, self.shaped(x, &shape)?, self.open(gate, heads)?);
                let (product, last) = (self.memory.scratch(&shape, self.dtype(x))?, IntArray::new(&[-1])?);
                self.launch(ops::mul(&dy, &input, &product))?;
                let d_open = self.memory.scratch(&[shape[0], heads, 1], self.dtype(gate))?;
                self.launch(ops::reduce_sum(&product, &last, true, self.dtype(gate), &d_open))?;
                let d_gate = self.shaped(d_gate, &[shape[0], heads, 1])?;
                self.launch(ops::sigmoid_backward(&d_open, &open, &d_gate))?;
                self.launch(ops::mul(&dy, &open, &self.shaped(dx, &shape)?))
            }
            ref other => unreachable!("{} is no part of attention", other.name()),
        }
    }

    /// `sigmoid(gate)`, `[tokens, heads, 1]`.
    fn open(&self, gate: View, heads: u64) -> Done<Tensor> {
        let shape = [self.rows(gate), heads, 1];
        let open = self.memory.scratch(&shape, self.dtype(gate))?;
        self.launch(ops::sigmoid(&self.shaped(gate, &shape)?, &open))?;
        Ok(open)
    }

    /// Cosines or sines of every token for all channels that turn, `[1, tokens, 1, channels]`, in the type of `x`: each angle is that of two
    /// channels.
    fn angles(&self, table: View, positions: View, style: RopeStyle, x: View) -> Done<Tensor> {
        let (tokens, half) = (self.rows(x), table.cols);
        let positions = self.shaped(positions, &[tokens])?;
        let chosen = self.memory.scratch(&[tokens, half], self.dtype(table))?;
        self.launch(ops::index_select(&self.matrix(table)?, 0, &positions, &chosen))?;
        let angles = self.memory.scratch(&[1, tokens, 1, 2 * half], self.dtype(x))?;
        let (step, second) = match style {
            RopeStyle::Interleaved => (2, 1),
            RopeStyle::Half => (1, half as i64),
        };
        for first in [0, second] {
            let half_of = angles.view(first, &[tokens as i64, half as i64], &[2 * half as i64, step])?;
            self.launch(ops::inplace_copy(&half_of, &chosen))?;
        }
        Ok(angles)
    }

    fn queries_keys_values(
        &self,
        q: View,
        k: View,
        v: View,
        heads: &Heads,
    ) -> Done<(Tensor, Tensor, Tensor)> {
        let tokens = self.rows(q);
        Ok((
            self.shaped(q, &[tokens, heads.queries, heads.head_dim])?,
            self.shaped(k, &[tokens, heads.keys, heads.head_dim])?,
            self.shaped(v, &[tokens, heads.keys, heads.value_dim])?,
        ))
    }

    fn latent(&self, kv: View, rope: View, k: View, v: View, heads: u64) -> Done<Latent> {
        let tokens = self.rows(kv);
        let (key, value, shared) = (k.cols / heads, v.cols / heads, rope.cols);
        let (own, both) = (key - shared, key - shared + value);
        let part = |view: View, width: u64, first: u64, channels: u64| {
            self.strided(view, first, &[tokens, heads, channels], &[heads * width, width, 1])
        };
        Ok(Latent {
            own: part(k, key, 0, own)?,
            shared: part(k, key, own, shared)?,
            value: part(v, value, 0, value)?,
            kv_own: part(kv, both, 0, own)?,
            kv_value: part(kv, both, own, value)?,
        })
    }
}

/// Parts of keys, values and of what both come from, `[tokens, heads, channels]` each.
struct Latent {
    own: Tensor,
    shared: Tensor,
    value: Tensor,
    kv_own: Tensor,
    kv_value: Tensor,
}

/// What a query sees: the mode, and the keys before its own.
fn sparse(heads: &Heads) -> (i64, i64) {
    heads.window.map_or((RIGHT_DOWN, ANY), |window| (BAND, window as i64 - 1))
}

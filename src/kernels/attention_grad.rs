//! Gradient of attention (aclnn `FlashAttentionScoreGrad`).
//!
//! The scores of a tile are computed again and turned into weights by the kept `lse`. With dP = dO vᵀ and
//! δ = Σ dO·o of each row, dS = P · (dP − δ); then dv = Pᵀ dO, dk = scale · dSᵀ q and dq = scale · dS k.
//!
//! With a cap, dS is further multiplied by the cap's slope; a sink, whose weight `lse` counts in, takes −P · δ.
//!
//! One task owns a document's keys of one key head and all queries that see them, so no sum is shared.

use super::attention::{Attention, BLOCK, Block, KEYS, Mask, ROWS, stack};
use super::gemm::{View, matmul_strided, product};
use super::math::{dot, exp, tanh};
use super::parallel::{Shared, run};
use super::simd::vectorized;
use rayon::prelude::*;

/// Overwrites `dq`, `dk` and `dv`, shaped as `q`, `k` and `v`, from the gradient `d_o` of the output. `o` and
/// `lse` are the results of [`flash_attention`](super::flash_attention) for the same operands.
#[allow(clippy::too_many_arguments)]
pub fn flash_attention_grad(
    shape: &Attention,
    dq: &mut [f32],
    dk: &mut [f32],
    dv: &mut [f32],
    d_o: &[f32],
    q: &[f32],
    k: &[f32],
    v: &[f32],
    o: &[f32],
    lse: &[f32],
    segments: &[u32],
) {
    shape.check([q, k, v], None, lse, segments);
    let out = lse.len() * shape.value_dim;
    assert!(dq.len() == q.len() && d_o.len() == out && o.len() == out);
    assert!(dk.len() == k.len() && dv.len() == v.len());
    let operands = Operands { shape, d_o, q, k, v, o, lse, segments };
    let (dq, dk, dv) = (Shared::new(dq), Shared::new(dk), Shared::new(dv));
    let documents = segments.len() - 1;
    run((0..documents * shape.kv_heads).into_par_iter(), |task| {
        let (kv_head, document) = (task / documents, task % documents);
        let tokens = segments[document] as usize..segments[document + 1] as usize;
        let (d, e) = (shape.head_dim, shape.value_dim);
        for t in tokens.clone() {
            let row = t * shape.kv_heads + kv_head;
            // SAFETY: this task alone owns the keys of this document and head.
            unsafe {
                dk.slice(row * d, d).fill(0.0);
                dv.slice(row * e, e).fill(0.0);
            }
        }
        let mut scratch = Scratch::new();
        for index in 0..shape.blocks(tokens.len()) {
            scratch.block(&operands, &shape.block(kv_head, &tokens, index), &dq, &dk, &dv);
        }
    });
}

#[derive(Clone, Copy)]
struct Operands<'a> {
    shape: &'a Attention,
    d_o: &'a [f32],
    q: &'a [f32],
    k: &'a [f32],
    v: &'a [f32],
    o: &'a [f32],
    lse: &'a [f32],
    segments: &'a [u32],
}

/// Memory of a task, on its stack: stacked rows of a block of queries, and two tiles of scores.
struct Scratch {
    q: [f32; BLOCK],
    d_o: [f32; BLOCK],
    dq: [f32; BLOCK],
    p: [f32; ROWS * KEYS],
    ds: [f32; ROWS * KEYS],
}

impl Scratch {
    fn new() -> Self {
        Scratch {
            q: [0.0; BLOCK],
            d_o: [0.0; BLOCK],
            dq: [0.0; BLOCK],
            p: [0.0; ROWS * KEYS],
            ds: [0.0; ROWS * KEYS],
        }
    }

    /// Adds what one block of queries gives to `dk` and `dv`, and finishes its rows of `dq`.
    fn block(
        &mut self,
        operands: &Operands<'_>,
        block: &Block,
        dq: &Shared<'_, f32>,
        dk: &Shared<'_, f32>,
        dv: &Shared<'_, f32>,
    ) {
        let Operands { shape, d_o, q, k, v, o, lse, segments } = *operands;
        let (rows, d, e) = (block.rows(), shape.head_dim, shape.value_dim);
        stack(&mut self.q[..rows * d], q, block, shape.heads, d, shape.scale);
        stack(&mut self.d_o[..rows * e], d_o, block, shape.heads, e, 1.0);
        let (mut delta, mut log) = ([0.0; ROWS], [0.0; ROWS]);
        row_dots(&mut delta[..rows], &self.d_o[..rows * e], o, block, shape);
        for (log, row) in log.iter_mut().zip(block.each_row(shape.heads)) {
            *log = lse[row];
        }
        let (stacked, stacked_do) =
            (View::rows(&self.q[..rows * d], d), View::rows(&self.d_o[..rows * e], e));
        let first_keys = shape.first_keys(block, segments);
        for tile in (first_keys[0]..block.queries.end).step_by(KEYS) {
            let keys = KEYS.min(block.queries.end - tile);
            let (p, ds) = (&mut self.p[..rows * KEYS], &mut self.ds[..rows * KEYS]);
            let k = shape.keys(k, d, block.kv_head, tile);
            let v = shape.keys(v, e, block.kv_head, tile);
            matmul_strided(p, KEYS, stacked, k.transposed(), [rows, keys, d], 1.0, false);
            matmul_strided(ds, KEYS, stacked_do, v.transposed(), [rows, keys, e], 1.0, false);
            let mask = block.mask(&first_keys, tile, keys);
            match shape.softcap {
                None => score_grad_tile(p, ds, &log, &delta, mask),
                Some(limit) => capped_grad_tile(p, ds, &log, &delta, mask, limit),
            }

            let (p, ds) = (View::rows(p, KEYS), View::rows(ds, KEYS));
            let row = tile * shape.kv_heads + block.kv_head;
            let (dk_stride, dv_stride) = (shape.kv_heads * d, shape.kv_heads * e);
            let dk = dk.matrix(row * d, keys, d, dk_stride);
            let dv = dv.matrix(row * e, keys, e, dv_stride);
            // SAFETY: keys of the document and head this task owns. (`stacked` carries the scale of dk.)
            unsafe {
                product(dv, dv_stride, p.transposed(), stacked_do, [keys, e, rows], 1.0, true);
                product(dk, dk_stride, ds.transposed(), stacked, [keys, d, rows], 1.0, true);
            }
            matmul_strided(
                &mut self.dq[..rows * d],
                d,
                ds,
                k,
                [rows, d, keys],
                shape.scale,
                tile != first_keys[0],
            );
        }
        for (row, from) in block.each_row(shape.heads).zip(self.dq.chunks_exact(d)) {
            // SAFETY: every row of every head belongs to one block of one task.
            unsafe { dq.slice(row * d, d) }.copy_from_slice(from);
        }
    }
}

vectorized! {
    /// Products of stacked rows with the rows of `x` [tokens, heads, value_dim] they stand for.
    fn row_dots(out: &mut [f32], stacked: &[f32], x: &[f32], block: &Block, shape: &Attention) {
        let d = shape.value_dim;
        let rows = stacked.chunks_exact(d).zip(block.each_row(shape.heads));
        for (out, (stacked, row)) in out.iter_mut().zip(rows) {
            *out = dot(stacked, &x[row * d..][..d]);
        }
    }
}

vectorized! {
    /// In: scores in `p` and dP in `ds`. Out: weights in `p` and dS in `ds`, zero where a key is not visible.
    fn score_grad_tile(
        p: &mut [f32],
        ds: &mut [f32],
        lse: &[f32; ROWS],
        delta: &[f32; ROWS],
        mask: Mask<'_>,
    ) {
        let width = mask.keys.next_multiple_of(32).min(KEYS);
        for (r, (p, ds)) in p.chunks_exact_mut(KEYS).zip(ds.chunks_exact_mut(KEYS)).enumerate() {
            let visible = mask.visible(r);
            let (log, delta) = (lse[r], delta[r]);
            p[..visible.start].fill(f32::NEG_INFINITY);
            p[visible.end..width].fill(f32::NEG_INFINITY);
            ds[mask.keys..width].fill(0.0);
            for (p, ds) in p[..width].iter_mut().zip(&mut ds[..width]) {
                *p = exp(*p - log);
                *ds = *p * (*ds - delta);
            }
        }
    }
}

vectorized! {
    /// The same for scores that went through a cap.
    fn capped_grad_tile(
        p: &mut [f32],
        ds: &mut [f32],
        lse: &[f32; ROWS],
        delta: &[f32; ROWS],
        mask: Mask<'_>,
        limit: f32,
    ) {
        let width = mask.keys.next_multiple_of(32).min(KEYS);
        for (r, (p, ds)) in p.chunks_exact_mut(KEYS).zip(ds.chunks_exact_mut(KEYS)).enumerate() {
            let visible = mask.visible(r);
            let (log, delta) = (lse[r], delta[r]);
            for (p, ds) in p[visible.clone()].iter_mut().zip(&mut ds[visible.clone()]) {
                let t = tanh(*p / limit);
                *p = exp(limit * t - log);
                *ds = *p * (*ds - delta) * (1.0 - t * t);
            }
            for x in [p, ds] {
                x[..visible.start].fill(0.0);
                x[visible.end..width].fill(0.0);
            }
        }
    }
}

/// Gradient of the sinks of [`flash_attention`](super::flash_attention): `d_sinks[h] (+)= −Σ e^(sink − lse) · dO·o` over
/// the tokens, from the gradient `d_o` of the output `o`.
pub fn attention_sink_grad(
    d_sinks: &mut [f32],
    sinks: &[f32],
    d_o: &[f32],
    o: &[f32],
    lse: &[f32],
    accumulate: bool,
) {
    let heads = sinks.len();
    assert!(d_sinks.len() == heads && d_o.len() == o.len() && lse.len().is_multiple_of(heads.max(1)));
    let value_dim = o.len() / lse.len().max(1);
    assert_eq!(o.len(), lse.len() * value_dim);
    run(d_sinks.par_iter_mut().enumerate(), |(head, d_sink)| {
        let rows = (head..lse.len()).step_by(heads);
        let sum: f64 =
            rows.map(|row| sink_term(sinks[head], lse[row], d_o, o, row * value_dim, value_dim)).sum();
        *d_sink = if accumulate { *d_sink - sum as f32 } else { -sum as f32 };
    });
}

vectorized! {
    /// What one row of one head takes from its sink.
    fn sink_term(sink: f32, lse: f32, d_o: &[f32], o: &[f32], at: usize, value_dim: usize) -> f64 {
        f64::from(exp(sink - lse) * dot(&d_o[at..][..value_dim], &o[at..][..value_dim]))
    }
}

#[cfg(test)]
mod tests {
    use super::super::attention_reference::{cases, naive, operands, sinks_of};
    use super::super::flash_attention;
    use super::super::testing::{close, differences, random, same_for_any_threads, wide};
    use super::*;

    /// The gradients by the formulas on whole matrices, in f64.
    fn naive_grad(
        shape: &Attention,
        d_o: &[f64],
        q: &[f64],
        k: &[f64],
        v: &[f64],
        sinks: Option<&[f64]>,
        segments: &[u32],
    ) -> [Vec<f64>; 4] {
        let Attention { heads, kv_heads, head_dim: d, value_dim: e, window, scale, softcap } = *shape;
        let (o, lse) = naive(shape, q, k, v, sinks, segments);
        let scale = f64::from(scale);
        let mut d_sinks = vec![0.0; heads];
        let segment = |t: usize| segments.iter().filter(|&&edge| edge as usize <= t).count();
        let (mut dq, mut dk, mut dv) = (vec![0.0; q.len()], vec![0.0; k.len()], vec![0.0; v.len()]);
        for row in 0..lse.len() {
            let (s, h) = (row / heads, row % heads);
            let of = |x: usize, y: &[f64]| -> f64 { (0..e).map(|i| d_o[row * e + i] * y[x + i]).sum() };
            let delta = of(row * e, &o);
            if let Some(sinks) = sinks {
                d_sinks[h] -= (sinks[h] - lse[row]).exp() * delta;
            }
            for t in (0..=s).filter(|&t| segment(t) == segment(s) && window.is_none_or(|w| s - t < w)) {
                let key = t * kv_heads + h / (heads / kv_heads);
                let (key, value) = (key * d, key * e);
                let score: f64 = (0..d).map(|i| q[row * d + i] * k[key + i]).sum::<f64>() * scale;
                let (score, slope) = softcap.map_or((score, 1.0), |limit| {
                    let t = (score / f64::from(limit)).tanh();
                    (f64::from(limit) * t, 1.0 - t * t)
                });
                let p = (score - lse[row]).exp();
                let ds = p * (of(value, v) - delta) * slope * scale;
                for i in 0..e {
                    dv[value + i] += p * d_o[row * e + i];
                }
                for i in 0..d {
                    dk[key + i] += ds * q[row * d + i];
                    dq[row * d + i] += ds * k[key + i];
                }
            }
        }
        [dq, dk, dv, d_sinks]
    }

    #[test]
    fn the_formulas_match_finite_differences() {
        let plain = Attention {
            heads: 2,
            kv_heads: 1,
            head_dim: 4,
            value_dim: 3,
            window: Some(3),
            scale: 0.5,
            softcap: None,
        };
        for shape in [plain, Attention { softcap: Some(0.8), ..plain }] {
            let segments = [0, 4, 6];
            let (tokens, [q, k, v]) = operands(&shape, &segments);
            let sinks = random(2, 7, 1.0);
            let d_o = wide(&random(tokens * 2 * 3, 9, 1.0));
            let [q64, k64, v64, s64] = [wide(&q), wide(&k), wide(&v), wide(&sinks)];
            let loss = |q: &[f64], k: &[f64], v: &[f64], sinks: &[f64]| -> f64 {
                naive(&shape, q, k, v, Some(sinks), &segments).0.iter().zip(&d_o).map(|(o, d)| o * d).sum()
            };
            let [dq, dk, dv, ds] = naive_grad(&shape, &d_o, &q64, &k64, &v64, Some(&s64), &segments);
            let narrow = |x: Vec<f64>| x.into_iter().map(|x| x as f32).collect::<Vec<_>>();
            close("dq", &narrow(dq), &differences(&q, |q| loss(q, &k64, &v64, &s64)), 1e-6);
            close("dk", &narrow(dk), &differences(&k, |k| loss(&q64, k, &v64, &s64)), 1e-6);
            close("dv", &narrow(dv), &differences(&v, |v| loss(&q64, &k64, v, &s64)), 1e-6);
            close("d_sinks", &narrow(ds), &differences(&sinks, |s| loss(&q64, &k64, &v64, s)), 1e-6);
        }
    }

    #[test]
    fn matches_the_whole_matrix() {
        for (shape, segments) in cases() {
            let (tokens, [q, k, v]) = operands(&shape, &segments);
            let sinks = sinks_of(&shape);
            let rows = tokens * shape.heads;
            let d_o = random(rows * shape.value_dim, 9, 1.0);
            let (mut o, mut lse) = (vec![0.0; d_o.len()], vec![0.0; rows]);
            flash_attention(&shape, &mut o, &mut lse, &q, &k, &v, sinks.as_deref(), &segments);
            let got = same_for_any_threads(|| {
                let [mut dq, mut dk, mut dv] = [&q, &k, &v].map(|x| vec![f32::NAN; x.len()]);
                flash_attention_grad(
                    &shape, &mut dq, &mut dk, &mut dv, &d_o, &q, &k, &v, &o, &lse, &segments,
                );
                let mut d_sinks = vec![0.0; shape.heads];
                if let Some(sinks) = &sinks {
                    attention_sink_grad(&mut d_sinks, sinks, &d_o, &o, &lse, false);
                }
                [dq, dk, dv, d_sinks]
            });
            let wide_sinks = sinks.as_deref().map(wide);
            let (d_o, q, k, v) = (wide(&d_o), wide(&q), wide(&k), wide(&v));
            let want = naive_grad(&shape, &d_o, &q, &k, &v, wide_sinks.as_deref(), &segments);
            for ((name, got), want) in ["dq", "dk", "dv", "d_sinks"].iter().zip(&got).zip(&want) {
                close(&format!("{name} of {shape:?}"), got, want, 3e-5);
            }
        }
    }
}

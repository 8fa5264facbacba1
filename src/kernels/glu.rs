//! Gated activations of the feed-forward networks and their gradients (aclnn `SwiGlu`, `GeGlu` and their `Grad`).
//!
//! `act(g, u) = G(g) · U(u)`. With a limit L, `G` is limited from above and `U` from both sides; a sigmoid unit limits
//! its gate before the activation, the others behind it. A row of a routed expert may carry a scale, its routing weight.

use super::math::{sigmoid, sum_of};
use super::parallel::{GRAIN, rows_per_task, run};
use super::simd::vectorized;
use rayon::prelude::*;

/// The activation of the gate, and what the up projection becomes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Act {
    /// `G = g · sigmoid(g)`, `U = u`.
    Silu,
    /// `G = g / 2 · (1 + tanh(√(2/π) · (g + 0.044715 g³)))`, `U = u`.
    GeluTanh,
    /// `G = g · sigmoid(alpha · g)`, `U = u + 1`.
    Sigmoid { alpha: f32 },
}

/// A gated activation with its limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Glu {
    pub act: Act,
    pub limit: Option<f32>,
}

/// `a = scale · act(g, u)`; all three are [rows, cols], `row_scale` is `[rows]`, 1 where absent.
pub fn glu(a: &mut [f32], g: &[f32], u: &[f32], glu: Glu, row_scale: Option<&[f32]>) {
    assert!(a.len() == g.len() && g.len() == u.len());
    match row_scale {
        None => {
            let tasks = a.par_chunks_mut(GRAIN).zip(g.par_chunks(GRAIN)).zip(u.par_chunks(GRAIN));
            run(tasks, |((a, g), u)| act_rows(a, g, u, glu, &[1.0], g.len()));
        }
        Some(scale) => {
            let cols = width(a.len(), scale.len());
            let rows = rows_per_task(cols);
            let size = rows * cols;
            let tasks = a.par_chunks_mut(size).zip(g.par_chunks(size)).zip(u.par_chunks(size));
            run(tasks.zip(scale.par_chunks(rows)), |(((a, g), u), scale)| {
                act_rows(a, g, u, glu, scale, cols)
            });
        }
    }
}

/// Gradient of [`glu`] in place. In: `g`, `u` and `da`, the gradient of `a`. Out: `g` holds `dg`, `u`
/// holds `du`, `da` holds `a` again (scaled), which the gradient of the next weight needs. `d_scale`
/// `[rows]`, the gradient of `row_scale`, must be given exactly when `row_scale` is.
pub fn glu_grad(
    g: &mut [f32],
    u: &mut [f32],
    da: &mut [f32],
    glu: Glu,
    row_scale: Option<&[f32]>,
    d_scale: Option<&mut [f32]>,
    cols: usize,
) {
    assert!(da.len() == g.len() && g.len() == u.len());
    match (row_scale, d_scale) {
        (Some(scale), Some(d_scale)) => {
            assert!(scale.len() == d_scale.len() && scale.len() * cols == g.len());
            let rows = rows_per_task(cols);
            let size = rows * cols.max(1);
            let tasks = g.par_chunks_mut(size).zip(u.par_chunks_mut(size)).zip(da.par_chunks_mut(size));
            let tasks = tasks.zip(scale.par_chunks(rows)).zip(d_scale.par_chunks_mut(rows));
            run(tasks, |((((g, u), da), scale), d_scale)| grad_rows(g, u, da, glu, scale, d_scale, cols));
        }
        (None, None) => {
            let tasks = g.par_chunks_mut(GRAIN).zip(u.par_chunks_mut(GRAIN)).zip(da.par_chunks_mut(GRAIN));
            run(tasks, |((g, u), da)| {
                let cols = g.len();
                grad_rows(g, u, da, glu, &[1.0], &mut [], cols);
            });
        }
        _ => panic!("the gradient of a row scale goes with the row scale"),
    }
}

fn width(len: usize, rows: usize) -> usize {
    let cols = len.checked_div(rows).unwrap_or(0).max(1);
    assert_eq!(cols * rows, len, "{rows} rows");
    cols
}

vectorized! {
    fn act_rows(a: &mut [f32], g: &[f32], u: &[f32], glu: Glu, scale: &[f32], cols: usize) {
        let limit = glu.limit.unwrap_or(f32::INFINITY);
        match glu.act {
            Act::Silu => act_each(a, g, u, limit, scale, cols, 0.0, |g| silu(g, limit).0),
            Act::GeluTanh => act_each(a, g, u, limit, scale, cols, 0.0, |g| gelu(g, limit).0),
            Act::Sigmoid { alpha } => {
                act_each(a, g, u, limit, scale, cols, 1.0, |g| sigmoid_unit(g, limit, alpha).0)
            }
        }
    }
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn act_each(
    a: &mut [f32],
    g: &[f32],
    u: &[f32],
    limit: f32,
    scale: &[f32],
    cols: usize,
    offset: f32,
    gate: impl Fn(f32) -> f32,
) {
    let rows = g.chunks_exact(cols).zip(u.chunks_exact(cols)).zip(scale);
    for (a, ((g, u), scale)) in a.chunks_exact_mut(cols).zip(rows) {
        for ((a, &g), &u) in a.iter_mut().zip(g).zip(u) {
            *a = scale * (gate(g) * (u.clamp(-limit, limit) + offset));
        }
    }
}

vectorized! {
    /// `d_scale` is empty where nobody wants it.
    fn grad_rows(
        g: &mut [f32],
        u: &mut [f32],
        da: &mut [f32],
        glu: Glu,
        scale: &[f32],
        d_scale: &mut [f32],
        cols: usize,
    ) {
        let limit = glu.limit.unwrap_or(f32::INFINITY);
        match glu.act {
            Act::Silu => grad_each(g, u, da, limit, scale, d_scale, cols, 0.0, |g| silu(g, limit)),
            Act::GeluTanh => grad_each(g, u, da, limit, scale, d_scale, cols, 0.0, |g| gelu(g, limit)),
            Act::Sigmoid { alpha } => {
                grad_each(g, u, da, limit, scale, d_scale, cols, 1.0, |g| sigmoid_unit(g, limit, alpha))
            }
        }
    }
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn grad_each(
    g: &mut [f32],
    u: &mut [f32],
    da: &mut [f32],
    limit: f32,
    scale: &[f32],
    d_scale: &mut [f32],
    cols: usize,
    offset: f32,
    gate: impl Fn(f32) -> (f32, f32),
) {
    const STRIP: usize = 256;
    let mut products = [0.0; STRIP];
    let rows = g.chunks_exact_mut(cols).zip(u.chunks_exact_mut(cols)).zip(da.chunks_exact_mut(cols));
    for (row, (((g, u), da), &scale)) in rows.zip(scale).enumerate() {
        let mut d_row = 0.0;
        for ((g, u), da) in g.chunks_mut(STRIP).zip(u.chunks_mut(STRIP)).zip(da.chunks_mut(STRIP)) {
            let products = &mut products[..g.len()];
            for (((g, u), da), product) in g.iter_mut().zip(u).zip(da).zip(&mut *products) {
                let (x, d) = (*u, *da);
                let (value, slope) = gate(*g);
                let up = x.clamp(-limit, limit) + offset;
                let act = value * up;
                *product = act * d;
                *g = scale * d * up * slope;
                // A limit stops the gradient of what lies outside, and only of that.
                *u = if x.abs() > limit { 0.0 } else { scale * d * value };
                *da = scale * act;
            }
            if !d_scale.is_empty() {
                d_row += sum_of(products, |x| x);
            }
        }
        if let Some(d_scale) = d_scale.get_mut(row) {
            *d_scale = d_row;
        }
    }
}

/// `min(x · sigmoid(x), limit)` and its slope.
#[inline(always)]
fn silu(x: f32, limit: f32) -> (f32, f32) {
    let s = sigmoid(x);
    let silu = x * s;
    if silu > limit { (limit, 0.0) } else { (silu, s * (1.0 + x * (1.0 - s))) }
}

/// `min(gelu(x), limit)` and its slope, with `(1 + tanh z) / 2 = sigmoid(2z)`.
#[inline(always)]
fn gelu(x: f32, limit: f32) -> (f32, f32) {
    const TWICE: f32 = 1.595_769; // 2 √(2/π)
    const CUBE: f32 = 0.044_715;
    let square = x * x;
    let s = sigmoid(TWICE * x * (1.0 + CUBE * square));
    let gelu = x * s;
    let slope = s + gelu * (1.0 - s) * TWICE * (1.0 + 3.0 * CUBE * square);
    if gelu > limit { (limit, 0.0) } else { (gelu, slope) }
}

/// `y · sigmoid(alpha · y)` of `y = min(x, limit)`, and its slope.
#[inline(always)]
fn sigmoid_unit(x: f32, limit: f32, alpha: f32) -> (f32, f32) {
    let y = if x > limit { limit } else { x };
    let s = sigmoid(alpha * y);
    (y * s, if x > limit { 0.0 } else { s * (1.0 + alpha * y * (1.0 - s)) })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{close, differences, random, same_for_any_threads, wide};
    use super::*;

    fn naive(g: &[f64], u: &[f64], glu: Glu, scale: &[f64], cols: usize) -> Vec<f64> {
        let limit = glu.limit.map_or(f64::INFINITY, f64::from);
        let act = |g: f64, u: f64| match glu.act {
            Act::Silu => (g / (1.0 + (-g).exp())).min(limit) * u,
            Act::GeluTanh => {
                let z = (2.0 / std::f64::consts::PI).sqrt() * (g + 0.044715 * g.powi(3));
                (0.5 * g * (1.0 + z.tanh())).min(limit) * u
            }
            Act::Sigmoid { alpha } => {
                let g = g.min(limit);
                g / (1.0 + (-f64::from(alpha) * g).exp()) * (u + 1.0)
            }
        };
        let terms = g.iter().zip(u).enumerate();
        terms.map(|(i, (g, u))| scale[i / cols] * act(*g, u.clamp(-limit, limit))).collect()
    }

    #[test]
    fn gradient_matches_finite_differences() {
        let (rows, cols) = (4, 300);
        let n = rows * cols;
        let (g, u, da) = (random(n, 1, 2.0), random(n, 2, 2.0), random(n, 3, 1.0));
        let scales = random(rows, 4, 1.0);
        let kinds = [Act::Silu, Act::GeluTanh, Act::Sigmoid { alpha: 1.702 }];
        let limits = [(None, false), (Some(1.5), false), (None, true), (Some(1.5), true)];
        for (act, (limit, scaled)) in kinds.into_iter().flat_map(|act| limits.map(|limit| (act, limit))) {
            let kind = Glu { act, limit };
            let scale = if scaled { scales.clone() } else { vec![1.0; rows] };
            let row_scale = scaled.then_some(scale.as_slice());
            let value = |g: &[f64], u: &[f64], s: &[f64]| naive(g, u, kind, s, cols);
            let loss = |a: Vec<f64>| -> f64 { a.iter().zip(&da).map(|(a, &d)| a * f64::from(d)).sum() };

            let mut a = vec![0.0; n];
            glu(&mut a, &g, &u, kind, row_scale);
            close("a", &a, &value(&wide(&g), &wide(&u), &wide(&scale)), 1e-6);

            let (mut dg, mut du, mut again, mut ds) = (g.clone(), u.clone(), da.clone(), vec![0.0; rows]);
            let d_scale = scaled.then_some(ds.as_mut_slice());
            glu_grad(&mut dg, &mut du, &mut again, kind, row_scale, d_scale, cols);
            close("a again", &again, &wide(&a), 1e-6);
            close("dg", &dg, &differences(&g, |g| loss(value(g, &wide(&u), &wide(&scale)))), 1e-5);
            close("du", &du, &differences(&u, |u| loss(value(&wide(&g), u, &wide(&scale)))), 1e-5);
            if scaled {
                close("ds", &ds, &differences(&scale, |s| loss(value(&wide(&g), &wide(&u), s))), 1e-5);
            }
        }
    }

    #[test]
    fn any_threads_and_no_rows() {
        let (rows, cols) = (400, 176);
        let n = rows * cols;
        let (g, u, scale) = (random(n, 1, 2.0), random(n, 2, 2.0), random(rows, 4, 1.0));
        let kind = Glu { act: Act::Silu, limit: Some(7.0) };
        same_for_any_threads(|| {
            let mut a = vec![0.0; n];
            glu(&mut a, &g, &u, kind, Some(&scale));
            let (mut dg, mut du, mut ds) = (g.clone(), u.clone(), vec![0.0; rows]);
            glu_grad(&mut dg, &mut du, &mut a, kind, Some(&scale), Some(&mut ds), cols);
            (a, dg, du, ds)
        });
        glu(&mut [], &[], &[], kind, Some(&[]));
        glu_grad(&mut [], &mut [], &mut [], kind, Some(&[]), Some(&mut []), cols);
    }
}

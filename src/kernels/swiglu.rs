//! Gated activation of the feed-forward networks and its gradient (aclnn `SwiGlu`, `SwiGluGrad`).
//!
//! `act(g, u) = silu(g) · u`, and with a limit L `min(silu(g), L) · clamp(u, −L, L)`: the gate is clamped
//! after silu and from above only. A row of a routed expert may carry a scale, its routing weight.

use super::math::{sigmoid, sum_of};
use super::parallel::{GRAIN, rows_per_task, run};
use super::simd::vectorized;
use rayon::prelude::*;

/// `a = scale · act(g, u)`; all three are [rows, cols], `row_scale` is `[rows]`, 1 where absent.
pub fn swi_glu(a: &mut [f32], g: &[f32], u: &[f32], clamp: Option<f32>, row_scale: Option<&[f32]>) {
    assert!(a.len() == g.len() && g.len() == u.len());
    let limit = clamp.unwrap_or(f32::INFINITY);
    match row_scale {
        None => {
            let tasks = a.par_chunks_mut(GRAIN).zip(g.par_chunks(GRAIN)).zip(u.par_chunks(GRAIN));
            run(tasks, |((a, g), u)| act_rows(a, g, u, limit, &[1.0], g.len()));
        }
        Some(scale) => {
            let cols = width(a.len(), scale.len());
            let rows = rows_per_task(cols);
            let size = rows * cols;
            let tasks = a.par_chunks_mut(size).zip(g.par_chunks(size)).zip(u.par_chunks(size));
            run(tasks.zip(scale.par_chunks(rows)), |(((a, g), u), scale)| {
                act_rows(a, g, u, limit, scale, cols)
            });
        }
    }
}

/// Gradient of [`swi_glu`] in place. In: `g`, `u` and `da`, the gradient of `a`. Out: `g` holds `dg`, `u`
/// holds `du`, `da` holds `a` again (scaled), which the gradient of the next weight needs. `d_scale`
/// `[rows]`, the gradient of `row_scale`, must be given exactly when `row_scale` is.
pub fn swi_glu_grad(
    g: &mut [f32],
    u: &mut [f32],
    da: &mut [f32],
    clamp: Option<f32>,
    row_scale: Option<&[f32]>,
    d_scale: Option<&mut [f32]>,
    cols: usize,
) {
    assert!(da.len() == g.len() && g.len() == u.len());
    let limit = clamp.unwrap_or(f32::INFINITY);
    match (row_scale, d_scale) {
        (Some(scale), Some(d_scale)) => {
            assert!(scale.len() == d_scale.len() && scale.len() * cols == g.len());
            let rows = rows_per_task(cols);
            let size = rows * cols.max(1);
            let tasks = g.par_chunks_mut(size).zip(u.par_chunks_mut(size)).zip(da.par_chunks_mut(size));
            let tasks = tasks.zip(scale.par_chunks(rows)).zip(d_scale.par_chunks_mut(rows));
            run(tasks, |((((g, u), da), scale), d_scale)| grad_rows(g, u, da, limit, scale, d_scale, cols));
        }
        (None, None) => {
            let tasks = g.par_chunks_mut(GRAIN).zip(u.par_chunks_mut(GRAIN)).zip(da.par_chunks_mut(GRAIN));
            run(tasks, |((g, u), da)| {
                let cols = g.len();
                grad_rows(g, u, da, limit, &[1.0], &mut [], cols);
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
    fn act_rows(a: &mut [f32], g: &[f32], u: &[f32], limit: f32, scale: &[f32], cols: usize) {
        let rows = g.chunks_exact(cols).zip(u.chunks_exact(cols)).zip(scale);
        for (a, ((g, u), scale)) in a.chunks_exact_mut(cols).zip(rows) {
            for ((a, &g), &u) in a.iter_mut().zip(g).zip(u) {
                let gate = g * sigmoid(g);
                let gate = if gate > limit { limit } else { gate };
                *a = scale * (gate * u.clamp(-limit, limit));
            }
        }
    }
}

vectorized! {
    /// `d_scale` is empty where nobody wants it.
    fn grad_rows(
        g: &mut [f32],
        u: &mut [f32],
        da: &mut [f32],
        limit: f32,
        scale: &[f32],
        d_scale: &mut [f32],
        cols: usize,
    ) {
        const STRIP: usize = 256;
        let mut products = [0.0; STRIP];
        let rows = g.chunks_exact_mut(cols).zip(u.chunks_exact_mut(cols)).zip(da.chunks_exact_mut(cols));
        for (row, (((g, u), da), &scale)) in rows.zip(scale).enumerate() {
            let mut d_row = 0.0;
            for ((g, u), da) in g.chunks_mut(STRIP).zip(u.chunks_mut(STRIP)).zip(da.chunks_mut(STRIP)) {
                let products = &mut products[..g.len()];
                for (((g, u), da), product) in g.iter_mut().zip(u).zip(da).zip(&mut *products) {
                    let (x, y, d) = (*g, *u, *da);
                    let s = sigmoid(x);
                    let (silu, slope) = (x * s, s * (1.0 + x * (1.0 - s)));
                    // A clamp stops the gradient of what lies outside, and only of that.
                    let (gate, slope) = if silu > limit { (limit, 0.0) } else { (silu, slope) };
                    let up = y.clamp(-limit, limit);
                    let act = gate * up;
                    *product = act * d;
                    *g = scale * d * up * slope;
                    *u = if y.abs() > limit { 0.0 } else { scale * d * gate };
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
}

#[cfg(test)]
mod tests {
    use super::super::testing::{close, differences, random, same_for_any_threads, wide};
    use super::*;

    fn naive(g: &[f64], u: &[f64], clamp: Option<f32>, scale: &[f64], cols: usize) -> Vec<f64> {
        let limit = clamp.map_or(f64::INFINITY, f64::from);
        let terms = g.iter().zip(u).enumerate();
        terms
            .map(|(i, (g, u))| scale[i / cols] * (g / (1.0 + (-g).exp())).min(limit) * u.clamp(-limit, limit))
            .collect()
    }

    #[test]
    fn gradient_matches_finite_differences() {
        let (rows, cols) = (4, 300);
        let n = rows * cols;
        let (g, u, da) = (random(n, 1, 2.0), random(n, 2, 2.0), random(n, 3, 1.0));
        let scales = random(rows, 4, 1.0);
        for (clamp, scaled) in [(None, false), (Some(1.5), false), (None, true), (Some(1.5), true)] {
            let scale = if scaled { scales.clone() } else { vec![1.0; rows] };
            let row_scale = scaled.then_some(scale.as_slice());
            let value = |g: &[f64], u: &[f64], s: &[f64]| naive(g, u, clamp, s, cols);
            let loss = |a: Vec<f64>| -> f64 { a.iter().zip(&da).map(|(a, &d)| a * f64::from(d)).sum() };

            let mut a = vec![0.0; n];
            swi_glu(&mut a, &g, &u, clamp, row_scale);
            close("a", &a, &value(&wide(&g), &wide(&u), &wide(&scale)), 1e-6);

            let (mut dg, mut du, mut again, mut ds) = (g.clone(), u.clone(), da.clone(), vec![0.0; rows]);
            let d_scale = scaled.then_some(ds.as_mut_slice());
            swi_glu_grad(&mut dg, &mut du, &mut again, clamp, row_scale, d_scale, cols);
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
        same_for_any_threads(|| {
            let mut a = vec![0.0; n];
            swi_glu(&mut a, &g, &u, Some(7.0), Some(&scale));
            let (mut dg, mut du, mut ds) = (g.clone(), u.clone(), vec![0.0; rows]);
            swi_glu_grad(&mut dg, &mut du, &mut a, Some(7.0), Some(&scale), Some(&mut ds), cols);
            (a, dg, du, ds)
        });
        swi_glu(&mut [], &[], &[], None, Some(&[]));
        swi_glu_grad(&mut [], &mut [], &mut [], None, Some(&[]), Some(&mut []), cols);
    }
}

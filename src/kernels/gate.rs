//! Head-wise gate of attention: every head's output times the sigmoid of one scalar per token and head.

use super::math::{dot, sigmoid};
use super::parallel::{rows_per_task, run};
use super::simd::vectorized;
use rayon::prelude::*;

/// `y = o · sigmoid(g)`: `o` and `y` are [tokens, heads, head_dim], `g` is [tokens, heads].
pub fn head_gate(y: &mut [f32], o: &[f32], g: &[f32], heads: usize, head_dim: usize) {
    assert!(y.len() == o.len() && o.len() == g.len() * head_dim && g.len().is_multiple_of(heads.max(1)));
    let rows = rows_per_task(head_dim);
    let size = rows * head_dim.max(1);
    run(y.par_chunks_mut(size).zip(o.par_chunks(size)).zip(g.par_chunks(rows)), |((y, o), g)| {
        gate_rows(y, o, g, head_dim);
    });
}

/// Gradient of [`head_gate`]: overwrites `d_o` [tokens, heads, head_dim] and `dg` [tokens, heads].
pub fn head_gate_grad(
    d_o: &mut [f32],
    dg: &mut [f32],
    dy: &[f32],
    o: &[f32],
    g: &[f32],
    heads: usize,
    head_dim: usize,
) {
    assert!(d_o.len() == o.len() && dy.len() == o.len() && o.len() == g.len() * head_dim);
    assert!(dg.len() == g.len() && g.len().is_multiple_of(heads.max(1)));
    let rows = rows_per_task(head_dim);
    let size = rows * head_dim.max(1);
    let results = d_o.par_chunks_mut(size).zip(dg.par_chunks_mut(rows));
    let operands = dy.par_chunks(size).zip(o.par_chunks(size)).zip(g.par_chunks(rows));
    run(results.zip(operands), |((d_o, dg), ((dy, o), g))| grad_rows(d_o, dg, dy, o, g, head_dim));
}

vectorized! {
    fn gate_rows(y: &mut [f32], o: &[f32], g: &[f32], head_dim: usize) {
        for ((y, o), &g) in y.chunks_exact_mut(head_dim).zip(o.chunks_exact(head_dim)).zip(g) {
            let gate = sigmoid(g);
            for (y, o) in y.iter_mut().zip(o) {
                *y = o * gate;
            }
        }
    }
}

vectorized! {
    fn grad_rows(d_o: &mut [f32], dg: &mut [f32], dy: &[f32], o: &[f32], g: &[f32], head_dim: usize) {
        let rows = dy.chunks_exact(head_dim).zip(o.chunks_exact(head_dim)).zip(g);
        for ((d_o, dg), ((dy, o), &g)) in d_o.chunks_exact_mut(head_dim).zip(dg).zip(rows) {
            let gate = sigmoid(g);
            *dg = dot(dy, o) * gate * (1.0 - gate);
            for (d_o, dy) in d_o.iter_mut().zip(dy) {
                *d_o = dy * gate;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{close, differences, random, same_for_any_threads, wide};
    use super::*;

    #[test]
    fn gradient_matches_finite_differences() {
        let (tokens, heads, d) = (5, 3, 16);
        let (o, g, dy) = (
            random(tokens * heads * d, 1, 1.0),
            random(tokens * heads, 2, 2.0),
            random(tokens * heads * d, 3, 1.0),
        );
        let value = |o: &[f64], g: &[f64]| -> Vec<f64> {
            o.iter().enumerate().map(|(i, o)| o / (1.0 + (-g[i / d]).exp())).collect()
        };
        let loss = |y: Vec<f64>| -> f64 { y.iter().zip(&dy).map(|(y, &d)| y * f64::from(d)).sum() };
        let mut y = vec![0.0; o.len()];
        head_gate(&mut y, &o, &g, heads, d);
        close("y", &y, &value(&wide(&o), &wide(&g)), 1e-6);
        let (mut d_o, mut dg) = (vec![9.0; o.len()], vec![9.0; g.len()]);
        head_gate_grad(&mut d_o, &mut dg, &dy, &o, &g, heads, d);
        close("do", &d_o, &differences(&o, |o| loss(value(o, &wide(&g)))), 1e-5);
        close("dg", &dg, &differences(&g, |g| loss(value(&wide(&o), g))), 1e-5);
    }

    #[test]
    fn any_threads() {
        let (tokens, heads, d) = (500, 6, 64);
        let (o, g) = (random(tokens * heads * d, 1, 1.0), random(tokens * heads, 2, 2.0));
        same_for_any_threads(|| {
            let (mut y, mut d_o, mut dg) = (vec![0.0; o.len()], vec![0.0; o.len()], vec![0.0; g.len()]);
            head_gate(&mut y, &o, &g, heads, d);
            head_gate_grad(&mut d_o, &mut dg, &y, &o, &g, heads, d);
            (y, d_o, dg)
        });
    }
}

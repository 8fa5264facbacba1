//! Root-mean-square normalisation of rows and its gradient (aclnn `RmsNorm`, `RmsNormGrad`).
//!
//! `y = x · rstd · (gamma + offset)` with `rstd = 1 / sqrt(mean(x²) + eps)`; `offset` is 1 for weights
//! centred on zero.

use super::math::{sum_of, sum_of3};
use super::parallel::{join, rows_per_task, run};
use super::simd::vectorized;
use rayon::prelude::*;

/// Widest row whose `dgamma` is summed by several tasks: each keeps one such row on its stack.
const WIDEST_PARTIAL: usize = 1 << 14;

/// Elements one task sums into its part of `dgamma`.
const PARTIAL_GRAIN: usize = 1 << 16;

/// Normalises the rows of `x` [rows, cols] into `y`, with cols = `gamma.len()`; `rstd` `[rows]` is kept for
/// the gradient.
pub fn rms_norm(y: &mut [f32], rstd: &mut [f32], x: &[f32], gamma: &[f32], eps: f32, offset: f32) {
    let cols = gamma.len().max(1);
    assert!(y.len() == x.len() && x.len() == rstd.len() * cols);
    let rows = rows_per_task(cols);
    let tasks = y.par_chunks_mut(rows * cols).zip(rstd.par_chunks_mut(rows)).zip(x.par_chunks(rows * cols));
    run(tasks, |((y, rstd), x)| norm_rows(y, rstd, x, gamma, eps, offset));
}

/// Gradient of [`rms_norm`]: `dx` [rows, cols] and `dgamma` `[cols]`, each overwritten or added to.
#[allow(clippy::too_many_arguments)]
pub fn rms_norm_grad(
    dx: &mut [f32],
    dgamma: &mut [f32],
    dy: &[f32],
    x: &[f32],
    rstd: &[f32],
    gamma: &[f32],
    offset: f32,
    accumulate_dx: bool,
    accumulate_dgamma: bool,
) {
    let cols = gamma.len().max(1);
    assert!(dx.len() == x.len() && dy.len() == x.len() && x.len() == rstd.len() * cols);
    assert_eq!(dgamma.len(), gamma.len());
    if !accumulate_dgamma {
        dgamma.fill(0.0);
    }
    Grad { dy, x, rstd, gamma, offset, accumulate: accumulate_dx }.rows(dx, dgamma);
}

/// The operands of the gradient for some of the rows.
#[derive(Clone, Copy)]
struct Grad<'a> {
    dy: &'a [f32],
    x: &'a [f32],
    rstd: &'a [f32],
    gamma: &'a [f32],
    offset: f32,
    accumulate: bool,
}

impl<'a> Grad<'a> {
    /// Halves the rows until a task is small enough; the order of the sum in `dgamma` follows from the shape
    /// alone.
    fn rows(self, dx: &mut [f32], dgamma: &mut [f32]) {
        let cols = self.gamma.len();
        let rows = self.rstd.len();
        if rows * cols <= PARTIAL_GRAIN || rows < 2 || cols > WIDEST_PARTIAL {
            let Grad { dy, x, rstd, gamma, offset, accumulate } = self;
            return grad_rows(dx, dgamma, dy, x, rstd, gamma, offset, accumulate);
        }
        let (first, second) = self.halves(rows / 2);
        let (dx1, dx2) = dx.split_at_mut(rows / 2 * cols);
        let mut partial = [0.0; WIDEST_PARTIAL];
        let partial = &mut partial[..cols];
        join(|| first.rows(dx1, dgamma), || second.rows(dx2, partial));
        for (sum, part) in dgamma.iter_mut().zip(&*partial) {
            *sum += part;
        }
    }

    fn halves(self, row: usize) -> (Self, Self) {
        let at = row * self.gamma.len();
        let (dy, x, rstd) = (self.dy.split_at(at), self.x.split_at(at), self.rstd.split_at(row));
        (Grad { dy: dy.0, x: x.0, rstd: rstd.0, ..self }, Grad { dy: dy.1, x: x.1, rstd: rstd.1, ..self })
    }
}

vectorized! {
    fn norm_rows(y: &mut [f32], rstd: &mut [f32], x: &[f32], gamma: &[f32], eps: f32, offset: f32) {
        let cols = gamma.len();
        for ((y, rstd), x) in y.chunks_exact_mut(cols).zip(rstd).zip(x.chunks_exact(cols)) {
            let scale = 1.0 / (sum_of(x, |x| x * x) / cols as f32 + eps).sqrt();
            for ((y, x), gamma) in y.iter_mut().zip(x).zip(gamma) {
                *y = x * scale * (gamma + offset);
            }
            *rstd = scale;
        }
    }
}

vectorized! {
    fn grad_rows(
        dx: &mut [f32],
        dgamma: &mut [f32],
        dy: &[f32],
        x: &[f32],
        rstd: &[f32],
        gamma: &[f32],
        offset: f32,
        accumulate: bool,
    ) {
        let cols = gamma.len();
        let rows = dy.chunks_exact(cols).zip(x.chunks_exact(cols)).zip(rstd);
        for (dx, ((dy, x), &rstd)) in dx.chunks_exact_mut(cols).zip(rows) {
            let weighted = sum_of3(dy, x, gamma, |dy, x, gamma| dy * (gamma + offset) * x);
            // With w = dy·(gamma + offset): dx = rstd · (w − x · rstd² · mean(w·x)).
            let back = rstd * rstd * weighted / cols as f32;
            let terms = dy.iter().zip(x).zip(gamma);
            for ((dx, dgamma), ((dy, x), gamma)) in dx.iter_mut().zip(&mut *dgamma).zip(terms) {
                let value = rstd * (dy * (gamma + offset) - x * back);
                *dx = if accumulate { *dx + value } else { value };
                *dgamma += dy * x * rstd;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{close, differences, random, same_for_any_threads, wide};
    use super::*;

    const EPS: f64 = 1e-5;

    fn naive(x: &[f64], gamma: &[f64], offset: f64) -> Vec<f64> {
        let rows = x.chunks(gamma.len());
        rows.flat_map(|x| {
            let rstd = 1.0 / (x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64 + EPS).sqrt();
            x.iter().zip(gamma).map(move |(x, g)| x * rstd * (g + offset)).collect::<Vec<_>>()
        })
        .collect()
    }

    #[test]
    fn gradient_matches_finite_differences() {
        for (rows, cols, offset) in [(1, 16, 0.0), (3, 33, 1.0), (5, 100, 1.0)] {
            let (x, gamma) = (random(rows * cols, 1, 1.0), random(cols, 2, 0.5));
            let dy = random(rows * cols, 3, 1.0);
            let loss = |y: Vec<f64>| -> f64 { y.iter().zip(&dy).map(|(y, &d)| y * f64::from(d)).sum() };
            let wide_offset = f64::from(offset);

            let (mut y, mut rstd) = (vec![0.0; rows * cols], vec![0.0; rows]);
            rms_norm(&mut y, &mut rstd, &x, &gamma, EPS as f32, offset);
            close("y", &y, &naive(&wide(&x), &wide(&gamma), wide_offset), 1e-6);

            let (mut dx, mut dgamma) = (vec![1.0; rows * cols], vec![1.0; cols]);
            rms_norm_grad(&mut dx, &mut dgamma, &dy, &x, &rstd, &gamma, offset, false, false);
            close("dx", &dx, &differences(&x, |x| loss(naive(x, &wide(&gamma), wide_offset))), 1e-5);
            close("dgamma", &dgamma, &differences(&gamma, |g| loss(naive(&wide(&x), g, wide_offset))), 1e-5);

            let (once, once_gamma) = (dx.clone(), dgamma.clone());
            rms_norm_grad(&mut dx, &mut dgamma, &dy, &x, &rstd, &gamma, offset, true, true);
            assert!(dx.iter().zip(once).all(|(&twice, once)| twice == 2.0 * once));
            let twice: Vec<f64> = once_gamma.iter().map(|&x| 2.0 * f64::from(x)).collect();
            close("accumulated dgamma", &dgamma, &twice, 1e-6);
        }
    }

    #[test]
    fn many_rows_and_any_threads() {
        for (rows, cols) in [(3000, 128), (70, 4096), (3, 20_000)] {
            let (x, gamma, dy) =
                (random(rows * cols, 1, 1.0), random(cols, 2, 0.5), random(rows * cols, 3, 1.0));
            let (dgamma, rstd) = same_for_any_threads(|| {
                let (mut y, mut rstd) = (vec![0.0; rows * cols], vec![0.0; rows]);
                rms_norm(&mut y, &mut rstd, &x, &gamma, EPS as f32, 1.0);
                let (mut dx, mut dgamma) = (vec![0.0; rows * cols], vec![0.0; cols]);
                rms_norm_grad(&mut dx, &mut dgamma, &dy, &x, &rstd, &gamma, 1.0, false, false);
                (dgamma, rstd)
            });
            let mut want = vec![0.0; cols];
            for (i, (&dy, &x)) in dy.iter().zip(&x).enumerate() {
                want[i % cols] += f64::from(dy) * f64::from(x) * f64::from(rstd[i / cols]);
            }
            close("dgamma", &dgamma, &want, 1e-5);
        }
    }
}

//! AdamW with decoupled weight decay, and the sum of squares for clipping (aclnn `ApplyAdamWV2`).

use super::math::dot;
use super::parallel::{GRAIN, join, run};
use super::simd::vectorized;
use rayon::prelude::*;

/// What one step of [`adamw`] needs besides its tensors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamWStep {
    pub lr: f64,
    pub beta1: f64,
    pub beta2: f64,
    pub eps: f64,
    pub weight_decay: f64,
    /// The number of this step, from 1.
    pub step: u64,
    /// Factor on the gradient, such as the clipping coefficient.
    pub grad_scale: f32,
}

/// The scalars of a step, rounded once to `f32` as PyTorch does.
#[derive(Clone, Copy)]
struct Factors {
    decay: f32,
    beta1: f32,
    rest1: f32,
    beta2: f32,
    rest2: f32,
    /// sqrt(1 − beta2ᵗ).
    correction: f32,
    eps: f32,
    /// −lr / (1 − beta1ᵗ).
    rate: f32,
    grad_scale: f32,
}

impl AdamWStep {
    fn factors(&self) -> Factors {
        let step = self.step as f64;
        Factors {
            decay: (1.0 - self.lr * self.weight_decay) as f32,
            beta1: self.beta1 as f32,
            rest1: (1.0 - self.beta1) as f32,
            beta2: self.beta2 as f32,
            rest2: (1.0 - self.beta2) as f32,
            correction: (1.0 - self.beta2.powf(step)).sqrt() as f32,
            eps: self.eps as f32,
            rate: (-self.lr / (1.0 - self.beta1.powf(step))) as f32,
            grad_scale: self.grad_scale,
        }
    }
}

/// One step: the parameters `p`, their gradient `g`, and the moments `m` and `v`, all of one length. The
/// operations and their order are those of `torch.optim.AdamW`.
pub fn adamw(p: &mut [f32], g: &[f32], m: &mut [f32], v: &mut [f32], step: &AdamWStep) {
    assert!(p.len() == g.len() && m.len() == p.len() && v.len() == p.len());
    let factors = step.factors();
    let states = p.par_chunks_mut(GRAIN).zip(m.par_chunks_mut(GRAIN)).zip(v.par_chunks_mut(GRAIN));
    run(states.zip(g.par_chunks(GRAIN)), |(((p, m), v), g)| adamw_chunk(p, g, m, v, factors));
}

/// Σ x², added in an order that only the length decides.
pub fn sum_squares(x: &[f32]) -> f64 {
    if x.len() <= GRAIN {
        return square_chunk(x);
    }
    let (first, second) = x.split_at(x.len().div_ceil(GRAIN) / 2 * GRAIN);
    let (first, second) = join(|| sum_squares(first), || sum_squares(second));
    first + second
}

vectorized! {
    fn square_chunk(x: &[f32]) -> f64 {
        // Part whose squares are added in f32.
        const STRIP: usize = 1024;
        let mut sum = 0.0;
        for x in x.chunks(STRIP) {
            sum += f64::from(dot(x, x));
        }
        sum
    }
}

vectorized! {
    fn adamw_chunk(p: &mut [f32], g: &[f32], m: &mut [f32], v: &mut [f32], by: Factors) {
        for (((p, m), v), g) in p.iter_mut().zip(m).zip(v).zip(g) {
            let g = g * by.grad_scale;
            *p *= by.decay;
            *m = *m * by.beta1 + by.rest1 * g;
            *v = *v * by.beta2 + by.rest2 * g * g;
            let scale = v.sqrt() / by.correction + by.eps;
            *p += by.rate * *m / scale;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{close, random, same_for_any_threads, wide};
    use super::*;

    #[test]
    fn steps_match_the_formula() {
        let n = 1000;
        let start = random(n, 1, 1.0);
        let step = AdamWStep {
            lr: 1e-2,
            beta1: 0.9,
            beta2: 0.95,
            eps: 1e-8,
            weight_decay: 0.1,
            step: 0,
            grad_scale: 0.5,
        };
        let (mut p, mut m, mut v) = (start.clone(), vec![0.0; n], vec![0.0; n]);
        let (mut want_p, mut want_m, mut want_v) = (wide(&start), vec![0.0; n], vec![0.0; n]);
        for t in 1..=5 {
            let g = random(n, 10 + t, 1.0);
            adamw(&mut p, &g, &mut m, &mut v, &AdamWStep { step: t, ..step });
            for i in 0..n {
                let g = 0.5 * f64::from(g[i]);
                want_m[i] = 0.9 * want_m[i] + 0.1 * g;
                want_v[i] = 0.95 * want_v[i] + 0.05 * g * g;
                let m_hat = want_m[i] / (1.0 - 0.9f64.powi(t as i32));
                let v_hat: f64 = want_v[i] / (1.0 - 0.95f64.powi(t as i32));
                want_p[i] = want_p[i] * (1.0 - 1e-3) - 1e-2 * m_hat / (v_hat.sqrt() + 1e-8);
            }
        }
        close("p", &p, &want_p, 1e-6);
        close("m", &m, &want_m, 1e-6);
        close("v", &v, &want_v, 1e-6);
    }

    #[test]
    fn sums_for_any_threads() {
        for n in [0, 1, GRAIN + 1, 200_003] {
            let x = random(n, 1, 1.0);
            let want: f64 = x.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
            let got = same_for_any_threads(|| sum_squares(&x));
            assert!((got - want).abs() <= 1e-7 * want, "{got} for {want}");
        }
    }
}

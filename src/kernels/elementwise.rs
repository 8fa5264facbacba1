//! Sums, scaling, filling and copying of whole buffers.

use super::parallel::{GRAIN, run};
use super::simd::vectorized;
use rayon::prelude::*;

/// `out = a + b`.
pub fn add(out: &mut [f32], a: &[f32], b: &[f32]) {
    assert!(out.len() == a.len() && a.len() == b.len());
    run(out.par_chunks_mut(GRAIN).zip(a.par_chunks(GRAIN)).zip(b.par_chunks(GRAIN)), |((out, a), b)| {
        add_chunk(out, a, b);
    });
}

/// `out += a`.
pub fn add_assign(out: &mut [f32], a: &[f32]) {
    assert_eq!(out.len(), a.len());
    run(out.par_chunks_mut(GRAIN).zip(a.par_chunks(GRAIN)), |(out, a)| add_assign_chunk(out, a));
}

/// `x *= factor`.
pub fn scale(x: &mut [f32], factor: f32) {
    run(x.par_chunks_mut(GRAIN), |x| scale_chunk(x, factor));
}

/// `x = value`.
pub fn fill(x: &mut [f32], value: f32) {
    run(x.par_chunks_mut(GRAIN), |x| x.fill(value));
}

/// `out = x`.
pub fn copy(out: &mut [f32], x: &[f32]) {
    assert_eq!(out.len(), x.len());
    run(out.par_chunks_mut(GRAIN).zip(x.par_chunks(GRAIN)), |(out, x)| out.copy_from_slice(x));
}

/// `y = clamp(x, −limit, limit)`.
pub fn clip(y: &mut [f32], x: &[f32], limit: f32) {
    assert_eq!(y.len(), x.len());
    run(y.par_chunks_mut(GRAIN).zip(x.par_chunks(GRAIN)), |(y, x)| clip_chunk(y, x, limit));
}

/// Gradient of [`clip`] in place: what was cut off has none.
pub fn clip_grad(dy: &mut [f32], x: &[f32], limit: f32) {
    assert_eq!(dy.len(), x.len());
    run(dy.par_chunks_mut(GRAIN).zip(x.par_chunks(GRAIN)), |(dy, x)| clip_grad_chunk(dy, x, limit));
}

vectorized! {
    fn clip_chunk(y: &mut [f32], x: &[f32], limit: f32) {
        for (y, x) in y.iter_mut().zip(x) {
            *y = x.clamp(-limit, limit);
        }
    }
}

vectorized! {
    fn clip_grad_chunk(dy: &mut [f32], x: &[f32], limit: f32) {
        for (dy, x) in dy.iter_mut().zip(x) {
            *dy = if x.abs() <= limit { *dy } else { 0.0 };
        }
    }
}

vectorized! {
    fn add_chunk(out: &mut [f32], a: &[f32], b: &[f32]) {
        for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
            *out = a + b;
        }
    }
}

vectorized! {
    /// `out += a`, for a caller that has split the work already.
    pub(super) fn add_assign_chunk(out: &mut [f32], a: &[f32]) {
        for (out, a) in out.iter_mut().zip(a) {
            *out += a;
        }
    }
}

vectorized! {
    fn scale_chunk(x: &mut [f32], factor: f32) {
        for x in x {
            *x *= factor;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_buffers() {
        let n = 3 * GRAIN + 7;
        let a: Vec<f32> = (0..n).map(|i| i as f32).collect();
        let mut out = vec![0.0; n];
        fill(&mut out, 2.0);
        add_assign(&mut out, &a);
        scale(&mut out, 0.5);
        assert!(out.iter().enumerate().all(|(i, &x)| x == (i as f32 + 2.0) * 0.5));
        add(&mut out, &a, &a);
        assert!(out.iter().zip(&a).all(|(x, a)| *x == a + a));
        copy(&mut out, &a);
        assert_eq!(out, a);
    }
}

//! Rotary position embedding: the tables, and the rotation in place with its inverse.
//!
//! Half-split form: channel `i` pairs with `i + r/2` for the first `r` channels of a head; the others pass
//! through. Tables are `f32`, computed as Hugging Face transformers does, with the frequency rescaling of
//! Llama 3.

use super::parallel::{rows_per_task, run};
use super::simd::vectorized;
use rayon::prelude::*;
use std::f32::consts::PI;

/// The `rope_scaling` of type `llama3`: long wavelengths are stretched by `factor`, short ones kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Llama3Scaling {
    pub factor: f32,
    /// Positions the model was first trained on.
    pub original_positions: f32,
    pub low_freq_factor: f32,
    pub high_freq_factor: f32,
}

impl Llama3Scaling {
    fn apply(&self, frequency: f32) -> f32 {
        let wavelength = 2.0 * PI / frequency;
        if wavelength > self.original_positions / self.low_freq_factor {
            frequency / self.factor
        } else if wavelength < self.original_positions / self.high_freq_factor {
            frequency
        } else {
            let smooth = (self.original_positions / wavelength - self.low_freq_factor)
                / (self.high_freq_factor - self.low_freq_factor);
            (1.0 - smooth) * frequency / self.factor + smooth * frequency
        }
    }
}

/// Cosines and sines of the angles, both [positions, rot_dim / 2].
#[derive(Debug, Clone, Copy)]
pub struct RopeTable<'a> {
    pub cos: &'a [f32],
    pub sin: &'a [f32],
    /// Channels of a head that rotate; even.
    pub rot_dim: usize,
}

/// Fills `cos` and `sin` [positions, rot_dim / 2] for as many positions as they have room for.
pub fn rope_table(
    cos: &mut [f32],
    sin: &mut [f32],
    theta: f64,
    rot_dim: usize,
    scaling: Option<&Llama3Scaling>,
) {
    let half = rot_dim / 2;
    assert!(cos.len() == sin.len() && rot_dim.is_multiple_of(2) && cos.len().is_multiple_of(half.max(1)));
    let rows = rows_per_task(half);
    let tasks =
        cos.par_chunks_mut(rows * half.max(1)).zip(sin.par_chunks_mut(rows * half.max(1))).enumerate();
    run(tasks, |(task, (cos, sin))| {
        for i in 0..half {
            let frequency = frequency(theta, rot_dim, i, scaling);
            for (row, (cos, sin)) in cos.chunks_exact_mut(half).zip(sin.chunks_exact_mut(half)).enumerate() {
                // The angle is rounded to f32 as in the reference; its sine and cosine are correctly rounded.
                let angle = f64::from((task * rows + row) as f32 * frequency);
                cos[i] = angle.cos() as f32;
                sin[i] = angle.sin() as f32;
            }
        }
    });
}

/// `theta^(−2i / rot_dim)`, rescaled.
fn frequency(theta: f64, rot_dim: usize, i: usize, scaling: Option<&Llama3Scaling>) -> f32 {
    let exponent = (2 * i) as f32 / rot_dim as f32;
    let frequency = (1.0 / theta.powf(f64::from(exponent))) as f32;
    scaling.map_or(frequency, |s| s.apply(frequency))
}

/// Rotates the first channels of every head of `x` [tokens, heads, head_dim] in place, token `t` by the
/// angles of `positions[t]`; `inverse` rotates back, which is also the gradient.
pub fn rotary(
    x: &mut [f32],
    table: &RopeTable<'_>,
    positions: &[u32],
    heads: usize,
    head_dim: usize,
    inverse: bool,
) {
    let cols = (heads * head_dim).max(1);
    assert!(x.len() == positions.len() * cols && table.rot_dim <= head_dim);
    let rows = rows_per_task(cols);
    run(x.par_chunks_mut(rows * cols).zip(positions.par_chunks(rows)), |(x, positions)| {
        rotate_rows(x, table, positions, heads, head_dim, inverse);
    });
}

vectorized! {
    fn rotate_rows(
        x: &mut [f32], table: &RopeTable<'_>, positions: &[u32], heads: usize, head_dim: usize, inverse: bool,
    ) {
        let half = table.rot_dim / 2;
        let sign = if inverse { -1.0 } else { 1.0 };
        for (x, &position) in x.chunks_exact_mut(heads * head_dim).zip(positions) {
            let cos = &table.cos[position as usize * half..][..half];
            let sin = &table.sin[position as usize * half..][..half];
            for head in x.chunks_exact_mut(head_dim) {
                let (first, second) = head[..2 * half].split_at_mut(half);
                for ((a, b), (cos, sin)) in first.iter_mut().zip(second).zip(cos.iter().zip(sin)) {
                    let sin = sign * sin;
                    (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{close, random, same_for_any_threads, wide};
    use super::*;

    const SCALING: Llama3Scaling = Llama3Scaling {
        factor: 2.0,
        original_positions: 131_072.0,
        low_freq_factor: 1.0,
        high_freq_factor: 32.0,
    };

    #[test]
    fn frequencies_of_the_step_3_5_release() {
        let check = |theta, rot_dim, i, scaling, want: f32| {
            let got = frequency(theta, rot_dim, i, scaling);
            assert!((got - want).abs() <= want * 1.2e-7, "frequency {i}: {got:e} for {want:e}");
        };
        check(5e6, 64, 13, Some(&SCALING), 1.899_080_7e-3);
        check(5e6, 64, 14, Some(&SCALING), 1.030_196_1e-3);
        check(5e6, 64, 15, Some(&SCALING), 5.268_819e-4);
        check(5e6, 64, 17, Some(&SCALING), 1.592_908_7e-4);
        check(5e6, 64, 20, Some(&SCALING), 3.289_136_6e-5);
        check(5e6, 64, 21, Some(&SCALING), 2.008_033_3e-5);
        check(5e6, 64, 31, Some(&SCALING), 1.619_357_7e-7);
        check(1e4, 128, 1, None, 8.659_643_5e-1);
        check(1e4, 128, 63, None, 1.154_782e-4);
    }

    #[test]
    fn rotation_and_back() {
        let (heads, head_dim, rot_dim, tokens) = (3, 20, 12, 900);
        let half = rot_dim / 2;
        let (mut cos, mut sin) = (vec![0.0; 1000 * half], vec![0.0; 1000 * half]);
        rope_table(&mut cos, &mut sin, 1e4, rot_dim, None);
        let table = RopeTable { cos: &cos, sin: &sin, rot_dim };
        let positions: Vec<u32> = (0..tokens as u32).map(|t| t * 7 % 1000).collect();
        let x = random(tokens * heads * head_dim, 1, 1.0);

        let rotated = same_for_any_threads(|| {
            let mut y = x.clone();
            rotary(&mut y, &table, &positions, heads, head_dim, false);
            y
        });
        let mut want = wide(&x);
        for (row, head) in want.chunks_mut(head_dim).enumerate() {
            let position = f64::from(positions[row / heads]);
            for i in 0..half {
                let angle = position * 1e4f64.powf(-2.0 * i as f64 / rot_dim as f64);
                let (a, b) = (head[i], head[i + half]);
                head[i] = a * angle.cos() - b * angle.sin();
                head[i + half] = b * angle.cos() + a * angle.sin();
            }
        }
        close("rotated", &rotated, &want, 3e-5);

        let mut back = rotated;
        rotary(&mut back, &table, &positions, heads, head_dim, true);
        close("rotated back", &back, &wide(&x), 1e-6);
    }
}

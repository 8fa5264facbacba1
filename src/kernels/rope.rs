//! Rotary position embedding: the tables, and the rotation in place with its inverse.
//!
//! `r` channels of a head rotate, the others pass through. Channel `i` of them pairs with `i + r/2`, or in the
//! interleaved form with its neighbour. Tables are `f32`, computed as Hugging Face transformers does, with its
//! rescalings of frequencies.

use super::parallel::{rows_per_task, run};
use super::simd::vectorized;
use rayon::prelude::*;
use std::f32::consts::PI;

/// How frequencies are rescaled for longer contexts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RopeScaling<'a> {
    None,
    /// All are divided by this.
    Linear(f32),
    Llama3(Llama3Scaling),
    Yarn(YarnScaling),
    /// Each is divided by its own (LongRoPE).
    Divisors(&'a [f64]),
}

/// The `rope_scaling` of type `yarn` (arXiv 2309.00071): frequencies up to index `low` are kept, from `high` on divided
/// by `factor`, between interpolated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct YarnScaling {
    pub factor: f32,
    /// Ends of the ramp.
    pub low: f32,
    pub high: f32,
}

impl YarnScaling {
    /// The ramp between the frequencies with `fast` and with `slow` turns in `original` positions, of `rot_dim / 2`
    /// frequencies with base `theta`; its ends are rounded outwards to whole frequencies if `truncate`.
    pub fn new(
        factor: f64,
        original: f64,
        [fast, slow]: [f64; 2],
        truncate: bool,
        theta: f64,
        rot_dim: usize,
    ) -> Self {
        let with_turns = |turns: f64| {
            rot_dim as f64 * (original / (turns * 2.0 * std::f64::consts::PI)).ln() / (2.0 * theta.ln())
        };
        let (low, high) = (with_turns(fast), with_turns(slow));
        let (low, high) = if truncate { (low.floor(), high.ceil()) } else { (low, high) };
        let (low, high) = (low.max(0.0), high.min(rot_dim as f64 - 1.0));
        // A ramp of no length would divide by zero.
        let high = if low == high { high + 0.001 } else { high };
        YarnScaling { factor: factor as f32, low: low as f32, high: high as f32 }
    }

    fn apply(&self, frequency: f32, index: usize) -> f32 {
        let ramp = ((index as f32 - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        frequency / self.factor * ramp + frequency * (1.0 - ramp)
    }
}

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

/// Fills `cos` and `sin` [positions, rot_dim / 2] for as many positions as they have room for, times `magnitude`.
pub fn rope_table(
    cos: &mut [f32],
    sin: &mut [f32],
    theta: f64,
    rot_dim: usize,
    scaling: RopeScaling<'_>,
    magnitude: f32,
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
                cos[i] = angle.cos() as f32 * magnitude;
                sin[i] = angle.sin() as f32 * magnitude;
            }
        }
    });
}

/// `theta^(−2i / rot_dim)`, rescaled.
fn frequency(theta: f64, rot_dim: usize, i: usize, scaling: RopeScaling<'_>) -> f32 {
    let exponent = (2 * i) as f32 / rot_dim as f32;
    let frequency = (1.0 / theta.powf(f64::from(exponent))) as f32;
    match scaling {
        RopeScaling::None => frequency,
        RopeScaling::Linear(factor) => frequency / factor,
        RopeScaling::Llama3(scaling) => scaling.apply(frequency),
        RopeScaling::Yarn(scaling) => scaling.apply(frequency, i),
        RopeScaling::Divisors(divisors) => frequency / divisors[i] as f32,
    }
}

/// Which channels of `x` [tokens, heads, head_dim] rotate, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation {
    pub heads: usize,
    pub head_dim: usize,
    /// The first of the channels of a head that rotate.
    pub from: usize,
    /// Neighbours are paired instead of halves.
    pub interleaved: bool,
    /// Rotates back: the transpose of the rotation, and so its gradient.
    pub inverse: bool,
}

/// Rotates channels of every head of `x` in place, token `t` by the angles of `positions[t]`.
pub fn rotary(x: &mut [f32], table: &RopeTable<'_>, positions: &[u32], rotation: &Rotation) {
    let cols = (rotation.heads * rotation.head_dim).max(1);
    assert!(x.len() == positions.len() * cols && rotation.from + table.rot_dim <= rotation.head_dim);
    let rows = rows_per_task(cols);
    run(x.par_chunks_mut(rows * cols).zip(positions.par_chunks(rows)), |(x, positions)| {
        if rotation.interleaved {
            rotate_neighbours(x, table, positions, rotation);
        } else {
            rotate_halves(x, table, positions, rotation);
        }
    });
}

vectorized! {
    fn rotate_neighbours(x: &mut [f32], table: &RopeTable<'_>, positions: &[u32], rotation: &Rotation) {
        let (half, head_dim) = (table.rot_dim / 2, rotation.head_dim);
        let sign = if rotation.inverse { -1.0 } else { 1.0 };
        for (x, &position) in x.chunks_exact_mut(rotation.heads * head_dim).zip(positions) {
            let cos = &table.cos[position as usize * half..][..half];
            let sin = &table.sin[position as usize * half..][..half];
            for head in x.chunks_exact_mut(head_dim) {
                let (pairs, _) = head[rotation.from..][..2 * half].as_chunks_mut::<2>();
                for ([a, b], (cos, sin)) in pairs.iter_mut().zip(cos.iter().zip(sin)) {
                    let sin = sign * sin;
                    (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
                }
            }
        }
    }
}

vectorized! {
    fn rotate_halves(x: &mut [f32], table: &RopeTable<'_>, positions: &[u32], rotation: &Rotation) {
        let (half, head_dim) = (table.rot_dim / 2, rotation.head_dim);
        let sign = if rotation.inverse { -1.0 } else { 1.0 };
        for (x, &position) in x.chunks_exact_mut(rotation.heads * head_dim).zip(positions) {
            let cos = &table.cos[position as usize * half..][..half];
            let sin = &table.sin[position as usize * half..][..half];
            for head in x.chunks_exact_mut(head_dim) {
                let (first, second) = head[rotation.from..][..2 * half].split_at_mut(half);
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
        let check = |theta, rot_dim, i, scaled, want: f32| {
            let scaling = if scaled { RopeScaling::Llama3(SCALING) } else { RopeScaling::None };
            let got = frequency(theta, rot_dim, i, scaling);
            assert!((got - want).abs() <= want * 1.2e-7, "frequency {i}: {got:e} for {want:e}");
        };
        check(5e6, 64, 13, true, 1.899_080_7e-3);
        check(5e6, 64, 14, true, 1.030_196_1e-3);
        check(5e6, 64, 15, true, 5.268_819e-4);
        check(5e6, 64, 17, true, 1.592_908_7e-4);
        check(5e6, 64, 20, true, 3.289_136_6e-5);
        check(5e6, 64, 21, true, 2.008_033_3e-5);
        check(5e6, 64, 31, true, 1.619_357_7e-7);
        check(1e4, 128, 1, false, 8.659_643_5e-1);
        check(1e4, 128, 63, false, 1.154_782e-4);
    }

    /// Against frequencies of transformers for theta 150000, 16 channels, factor 32, an original context of 64 and
    /// `truncate` off; and for theta 10000, 8 channels, factor 40, an original context of 32.
    #[test]
    fn frequencies_between_kept_and_stretched() {
        let check = |yarn: YarnScaling, theta, rot_dim, want: &[f32]| {
            for (i, want) in want.iter().enumerate() {
                let got = frequency(theta, rot_dim, i, RopeScaling::Yarn(yarn));
                assert!((got - want).abs() <= want * 3e-6, "frequency {i}: {got:e} for {want:e}");
            }
        };
        const YARN_16: &[f32] = &[
            1.0,
            0.085_249_096,
            1.587_914_8e-3,
            3.579_445_8e-4,
            8.068_715_4e-5,
            1.818_833_7e-5,
            4.099_978_5e-6,
            9.242_09e-7,
        ];
        const YARN_8: &[f32] = &[1.0, 0.0025, 2.5e-4, 2.5e-5];
        let yarn = YarnScaling::new(32.0, 64.0, [32.0, 1.0], false, 15e4, 16);
        check(yarn, 15e4, 16, YARN_16);
        let yarn = YarnScaling::new(40.0, 32.0, [32.0, 1.0], true, 1e4, 8);
        check(yarn, 1e4, 8, YARN_8);
    }

    #[test]
    fn rotation_and_back() {
        for (interleaved, from) in [(false, 0), (true, 0), (true, 8), (false, 8)] {
            let (heads, head_dim, rot_dim, tokens) = (3, 20, 12, 900);
            let half = rot_dim / 2;
            let (mut cos, mut sin) = (vec![0.0; 1000 * half], vec![0.0; 1000 * half]);
            rope_table(&mut cos, &mut sin, 1e4, rot_dim, RopeScaling::None, 1.0);
            let table = RopeTable { cos: &cos, sin: &sin, rot_dim };
            let positions: Vec<u32> = (0..tokens as u32).map(|t| t * 7 % 1000).collect();
            let x = random(tokens * heads * head_dim, 1, 1.0);

            let rotation = Rotation { heads, head_dim, from, interleaved, inverse: false };
            let rotated = same_for_any_threads(|| {
                let mut y = x.clone();
                rotary(&mut y, &table, &positions, &rotation);
                y
            });
            let mut want = wide(&x);
            for (row, head) in want.chunks_mut(head_dim).enumerate() {
                let position = f64::from(positions[row / heads]);
                for i in 0..half {
                    let angle = position * 1e4f64.powf(-2.0 * i as f64 / rot_dim as f64);
                    let (i, j) = if interleaved { (2 * i, 2 * i + 1) } else { (i, i + half) };
                    let (a, b) = (head[from + i], head[from + j]);
                    head[from + i] = a * angle.cos() - b * angle.sin();
                    head[from + j] = b * angle.cos() + a * angle.sin();
                }
            }
            close("rotated", &rotated, &want, 3e-5);

            let mut back = rotated;
            rotary(&mut back, &table, &positions, &Rotation { inverse: true, ..rotation });
            close("rotated back", &back, &wide(&x), 1e-6);
        }
    }
}

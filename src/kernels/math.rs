//! Element-wise functions and row sums that the compiler turns into vector code.
//!
//! Only additions, multiplications, divisions and bit operations are used, in one fixed order, so that a
//! result does not depend on the instruction set.

use std::array::from_fn;

/// Partial sums kept side by side; two AVX-512 registers.
const LANES: usize = 32;

/// eˣ with a relative error below 2e-7; 0 below the smallest normal result, e^88.37 above it.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    const LOWEST: f32 = -87.336_54;
    const HIGHEST: f32 = 88.37;
    // Adding 1.5·2²³ rounds to an integer and leaves it in the low bits of the sum.
    const ROUND: f32 = 12_582_912.0;
    // ln 2 in two parts, the first short enough that its product with the exponent is exact.
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;

    // Written as comparisons so that a NaN stays one.
    let clamped = if x > HIGHEST { HIGHEST } else { x };
    let clamped = if clamped < LOWEST { LOWEST } else { clamped };
    let shifted = clamped * std::f32::consts::LOG2_E + ROUND;
    let exponent = shifted - ROUND;
    let r = (clamped - exponent * LN2_HIGH) - exponent * LN2_LOW;
    // Minimax polynomial of (eʳ − 1 − r) / r² on |r| ≤ ln 2 / 2 (Cephes, expf).
    let p = 1.987_569_1e-4;
    let p = p * r + 1.398_199_9e-3;
    let p = p * r + 8.333_452e-3;
    let p = p * r + 4.166_579_6e-2;
    let p = p * r + 1.666_666_5e-1;
    let p = p * r + 0.5;
    let mantissa = p * (r * r) + r + 1.0;
    let power = f32::from_bits(shifted.to_bits().wrapping_add(127) << 23);
    if x < LOWEST { 0.0 } else { mantissa * power }
}

/// 1 / (1 + e⁻ˣ).
#[inline(always)]
pub(super) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// tanh x with a relative error below 3e-7.
#[inline(always)]
pub(super) fn tanh(x: f32) -> f32 {
    let z = x * x;
    // Minimax polynomial of (tanh x − x) / x³ in x² on |x| ≤ 0.625 (Cephes, tanhf); beyond, 1 − 2 / (e²ˣ + 1).
    let p = -5.704_988_7e-3;
    let p = p * z + 2.063_909e-2;
    let p = p * z - 5.373_971_6e-2;
    let p = p * z + 1.333_144_2e-1;
    let p = p * z - 3.333_328e-1;
    let near = p * z * x + x;
    let far = 1.0 - 2.0 / (exp(2.0 * x.abs()) + 1.0);
    let far = if x < 0.0 { -far } else { far };
    if x.abs() < 0.625 { near } else { far }
}

/// Combines the lanes pairwise.
#[inline(always)]
fn fold(lanes: [f32; LANES], with: impl Fn(f32, f32) -> f32) -> f32 {
    // One array for each step, because a single one would be kept in memory instead of registers.
    let x: [f32; 16] = from_fn(|i| with(lanes[i], lanes[i + 16]));
    let x: [f32; 8] = from_fn(|i| with(x[i], x[i + 8]));
    let x: [f32; 4] = from_fn(|i| with(x[i], x[i + 4]));
    with(with(x[0], x[2]), with(x[1], x[3]))
}

/// Σ f(x).
#[inline(always)]
pub(super) fn sum_of(x: &[f32], f: impl Fn(f32) -> f32) -> f32 {
    let mut lanes = [0.0; LANES];
    let (chunks, rest) = x.as_chunks::<LANES>();
    for chunk in chunks {
        for i in 0..LANES {
            lanes[i] += f(chunk[i]);
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane += f(x);
    }
    fold(lanes, |a, b| a + b)
}

/// Replaces x by e^(x − base) and returns the sum.
#[inline(always)]
pub(super) fn exp_sum(x: &mut [f32], base: f32) -> f32 {
    let mut lanes = [0.0; LANES];
    let (chunks, rest) = x.as_chunks_mut::<LANES>();
    for chunk in chunks {
        for i in 0..LANES {
            chunk[i] = exp(chunk[i] - base);
            lanes[i] += chunk[i];
        }
    }
    for (lane, x) in lanes.iter_mut().zip(rest) {
        *x = exp(*x - base);
        *lane += *x;
    }
    fold(lanes, |a, b| a + b)
}

/// Σ x·y.
#[inline(always)]
pub(super) fn dot(x: &[f32], y: &[f32]) -> f32 {
    let mut lanes = [0.0; LANES];
    let (xs, x_rest) = x.as_chunks::<LANES>();
    let (ys, y_rest) = y.as_chunks::<LANES>();
    for (x, y) in xs.iter().zip(ys) {
        for i in 0..LANES {
            lanes[i] += x[i] * y[i];
        }
    }
    for (lane, (&x, &y)) in lanes.iter_mut().zip(x_rest.iter().zip(y_rest)) {
        *lane += x * y;
    }
    fold(lanes, |a, b| a + b)
}

/// Σ f(x, y, z).
#[inline(always)]
pub(super) fn sum_of3(x: &[f32], y: &[f32], z: &[f32], f: impl Fn(f32, f32, f32) -> f32) -> f32 {
    let mut lanes = [0.0; LANES];
    let (xs, x_rest) = x.as_chunks::<LANES>();
    let (ys, y_rest) = y.as_chunks::<LANES>();
    let (zs, z_rest) = z.as_chunks::<LANES>();
    for ((x, y), z) in xs.iter().zip(ys).zip(zs) {
        for i in 0..LANES {
            lanes[i] += f(x[i], y[i], z[i]);
        }
    }
    for (lane, ((&x, &y), &z)) in lanes.iter_mut().zip(x_rest.iter().zip(y_rest).zip(z_rest)) {
        *lane += f(x, y, z);
    }
    fold(lanes, |a, b| a + b)
}

/// The largest element, −∞ for none. A NaN is passed over.
#[inline(always)]
pub(super) fn max(x: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let (chunks, rest) = x.as_chunks::<LANES>();
    for chunk in chunks {
        for i in 0..LANES {
            lanes[i] = larger(lanes[i], chunk[i]);
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane = larger(*lane, x);
    }
    fold(lanes, larger)
}

#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if b > a { b } else { a }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_accurate_to_two_ulp() {
        let mut worst: f64 = 0.0;
        for i in 0..2_000_000 {
            let x = -87.3 + i as f32 * (175.6 / 2_000_000.0);
            let exact = f64::from(x).exp();
            worst = worst.max(((f64::from(exp(x)) - exact) / exact).abs());
        }
        assert!(worst < 2e-7, "{worst:e}");
    }

    #[test]
    fn exp_at_the_ends() {
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp(-1e30), 0.0);
        assert_eq!(exp(0.0), 1.0);
        assert!(exp(f32::INFINITY).is_finite());
        assert!(exp(f32::NAN).is_nan(), "a NaN must not be hidden");
    }

    #[test]
    fn tanh_is_accurate_everywhere() {
        for i in 0..400_000 {
            let x = (i as f32 - 200_000.0) * 1e-4;
            let exact = f64::from(x).tanh();
            assert!((f64::from(tanh(x)) - exact).abs() <= 3e-7 * exact.abs(), "tanh({x})");
        }
        assert_eq!((tanh(100.0), tanh(-100.0), tanh(0.0)), (1.0, -1.0, 0.0));
    }

    #[test]
    fn sigmoid_saturates() {
        assert_eq!(sigmoid(-200.0), 1.0 / (1.0 + exp(200.0)));
        assert!(sigmoid(-200.0) < 1e-37);
        assert_eq!(sigmoid(200.0), 1.0);
        assert_eq!(sigmoid(0.0), 0.5);
    }

    #[test]
    fn sums_of_any_length() {
        for n in [0, 1, 31, 32, 33, 100] {
            let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
            let want: f32 = x.iter().map(|x| x * x).sum();
            assert_eq!(dot(&x, &x), want);
            assert_eq!(sum_of(&x, |x| x * x), want);
            assert_eq!(max(&x), x.last().copied().unwrap_or(f32::NEG_INFINITY));
        }
    }
}

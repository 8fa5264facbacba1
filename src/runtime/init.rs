//! Parameters of a model that is trained from scratch.
//!
//! An element's value depends on the seed, the parameter's label and the element's index alone, so every way of dividing
//! a model over ranks starts from the same numbers.

use crate::base::hash::fnv1a;
use crate::model::{Init, Parameter};
use rayon::prelude::*;
use std::f64::consts::TAU;
use std::ops::Range;

/// Elements that one task makes; even, since normal numbers come in pairs.
const CHUNK: usize = 4096;

/// Writes elements `range` of the flattened parameter to `out`.
pub fn initialise(parameter: &Parameter, seed: u64, range: Range<u64>, out: &mut [f32]) {
    match parameter.init {
        Init::Constant(value) => out.fill(value as f32),
        Init::Normal { std } => {
            let key = mix(seed ^ fnv1a(&parameter.label()));
            out.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, out)| {
                let first = range.start + (chunk * CHUNK) as u64;
                for (index, out) in (first..).zip(out) {
                    *out = (normal(key, index) * std) as f32;
                }
            });
        }
    }
}

/// Element `index` of a sequence of standard normal numbers (Box–Muller on a pair of uniform ones).
fn normal(key: u64, index: u64) -> f64 {
    let pair = index / 2;
    let [a, b] = [2 * pair, 2 * pair + 1].map(|i| mix(key.wrapping_add(i.wrapping_mul(GOLDEN))));
    // 53 random bits each; the radius needs a number above zero.
    let radius = (-2.0 * (((a >> 11) + 1) as f64 * 2f64.powi(-53)).ln()).sqrt();
    let angle = TAU * ((b >> 11) as f64 * 2f64.powi(-53));
    if index.is_multiple_of(2) { radius * angle.cos() } else { radius * angle.sin() }
}

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::DType;
    use crate::model::Part;

    fn parameter(name: &str) -> Parameter {
        Parameter {
            name: name.into(),
            shape: vec![300, 100],
            dtype: DType::F32,
            part: Part::Body,
            trainable: true,
            init: Init::Normal { std: 0.02 },
            slice: None,
        }
    }

    #[test]
    fn moments_are_those_of_a_normal_distribution() {
        let mut x = vec![0.0; 30_000];
        initialise(&parameter("a"), 1, 0..30_000, &mut x);
        let moment = |p: i32| x.iter().map(|v| (f64::from(*v) / 0.02).powi(p)).sum::<f64>() / 30_000.0;
        assert!(moment(1).abs() < 0.02, "mean {}", moment(1));
        assert!((moment(2) - 1.0).abs() < 0.03, "variance {}", moment(2));
        assert!((moment(4) - 3.0).abs() < 0.2, "kurtosis {}", moment(4));
    }

    #[test]
    fn a_shard_starts_with_the_same_numbers_as_the_whole() {
        let (mut whole, mut part) = (vec![0.0; 30_000], vec![0.0; 9_001]);
        initialise(&parameter("a"), 7, 0..30_000, &mut whole);
        initialise(&parameter("a"), 7, 5_001..14_002, &mut part);
        assert_eq!(whole[5_001..14_002], part);
        initialise(&parameter("b"), 7, 5_001..14_002, &mut part);
        assert_ne!(whole[5_001..14_002], part);
    }
}

//! Attention on whole matrices in f64, and the cases its kernels are held to it in.

use super::attention::Attention;
use super::testing::random;

/// Shapes with odd sizes, shared heads, windows and documents: (shape, segments).
pub(super) fn cases() -> Vec<(Attention, Vec<u32>)> {
    let shape = |heads, kv_heads, head_dim, window| Attention {
        heads,
        kv_heads,
        head_dim,
        value_dim: head_dim,
        window,
        scale: 1.0 / (head_dim as f32).sqrt(),
        softcap: None,
    };
    let capped = |limit, shape| Attention { softcap: Some(limit), ..shape };
    let valued = |value_dim, shape| Attention { value_dim, ..shape };
    vec![
        (shape(1, 1, 16, None), vec![0, 1]),
        (shape(2, 1, 32, None), vec![0, 37]),
        (shape(4, 2, 64, Some(8)), vec![0, 5, 5, 37, 38, 150]),
        (shape(3, 3, 128, Some(1)), vec![0, 20]),
        (shape(6, 2, 16, Some(128)), vec![0, 300]),
        (shape(4, 2, 16, None), vec![0, 400]),
        (shape(12, 1, 128, None), vec![0, 90, 140]),
        (shape(160, 1, 8, Some(5)), vec![0, 11]),
        (shape(2, 2, 300, None), vec![0, 130, 200]),
        (capped(0.7, shape(4, 2, 16, Some(20))), vec![0, 7, 150]),
        (valued(16, shape(4, 4, 24, None)), vec![0, 50, 190]),
        (capped(2.0, valued(200, shape(2, 1, 8, None))), vec![0, 140]),
    ]
}

/// Sinks for the heads of every other case.
pub(super) fn sinks_of(shape: &Attention) -> Option<Vec<f32>> {
    shape.heads.is_multiple_of(4).then(|| random(shape.heads, 7, 2.0))
}

/// The output and the logarithms of the denominators, in f64.
pub(super) fn naive(
    shape: &Attention,
    q: &[f64],
    k: &[f64],
    v: &[f64],
    sinks: Option<&[f64]>,
    segments: &[u32],
) -> (Vec<f64>, Vec<f64>) {
    let Attention { heads, kv_heads, head_dim: d, value_dim: e, window, scale, softcap } = *shape;
    let tokens = q.len() / heads / d;
    let segment = |t: usize| segments.iter().filter(|&&edge| edge as usize <= t).count();
    let (mut o, mut lse) = (vec![0.0; tokens * heads * e], vec![0.0; tokens * heads]);
    for s in 0..tokens {
        for h in 0..heads {
            let row = s * heads + h;
            let of = |t: usize| t * kv_heads + h / (heads / kv_heads);
            let keys: Vec<usize> =
                (0..=s).filter(|&t| segment(t) == segment(s) && window.is_none_or(|w| s - t < w)).collect();
            let score = |t: usize| {
                let s = (0..d).map(|i| q[row * d + i] * k[of(t) * d + i]).sum::<f64>() * f64::from(scale);
                softcap.map_or(s, |limit| f64::from(limit) * (s / f64::from(limit)).tanh())
            };
            let weights: Vec<f64> = keys.iter().map(|&t| score(t).exp()).collect();
            let total: f64 = weights.iter().sum::<f64>() + sinks.map_or(0.0, |sinks| sinks[h].exp());
            for (&t, weight) in keys.iter().zip(&weights) {
                for i in 0..e {
                    o[row * e + i] += weight / total * v[of(t) * e + i];
                }
            }
            lse[row] = total.ln();
        }
    }
    (o, lse)
}

/// Random queries, keys and values.
pub(super) fn operands(shape: &Attention, segments: &[u32]) -> (usize, [Vec<f32>; 3]) {
    let tokens = segments[segments.len() - 1] as usize;
    let Attention { heads, kv_heads, head_dim, value_dim, .. } = *shape;
    let make = |width: usize, seed| random(tokens * width, seed, 1.0);
    (tokens, [make(heads * head_dim, 1), make(kv_heads * head_dim, 2), make(kv_heads * value_dim, 3)])
}

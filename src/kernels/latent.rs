//! Keys and values of multi-head latent attention: every head's own channels beside those that all heads share.

use super::parallel::{rows_per_task, run};
use rayon::prelude::*;

/// Takes apart what the latents `kv` [tokens, heads, nope + value_dim] were projected to: `k` [tokens, heads, nope +
/// shared] gets the first channels of a head and behind them `rope` [tokens, shared], `v` [tokens, heads, value_dim] the
/// others.
pub fn latent_key_value(k: &mut [f32], v: &mut [f32], kv: &[f32], rope: &[f32], tokens: usize, heads: usize) {
    let w = Widths::new(k.len(), v.len(), kv.len(), rope.len(), tokens, heads);
    let rows = rows_per_task(heads * (w.key + w.value));
    let results = k.par_chunks_mut(rows * heads * w.key).zip(v.par_chunks_mut(rows * heads * w.value));
    let operands = kv.par_chunks(rows * heads * w.both).zip(rope.par_chunks(rows * w.shared));
    run(results.zip(operands), |((k, v), (kv, rope))| {
        let by_head = k.chunks_exact_mut(w.key).zip(v.chunks_exact_mut(w.value)).zip(kv.chunks_exact(w.both));
        for (row, ((k, v), kv)) in by_head.enumerate() {
            let (own, shared) = k.split_at_mut(w.key - w.shared);
            own.copy_from_slice(&kv[..own.len()]);
            shared.copy_from_slice(&rope[row / heads * w.shared..][..w.shared]);
            v.copy_from_slice(&kv[own.len()..]);
        }
    });
}

/// Gradient of [`latent_key_value`]: overwrites `d_kv` and `d_rope`, the latter summed over the heads.
pub fn latent_key_value_grad(
    d_kv: &mut [f32],
    d_rope: &mut [f32],
    dk: &[f32],
    dv: &[f32],
    tokens: usize,
    heads: usize,
) {
    let w = Widths::new(dk.len(), dv.len(), d_kv.len(), d_rope.len(), tokens, heads);
    let rows = rows_per_task(heads * (w.key + w.value));
    let results = d_kv.par_chunks_mut(rows * heads * w.both).zip(d_rope.par_chunks_mut(rows * w.shared));
    let operands = dk.par_chunks(rows * heads * w.key).zip(dv.par_chunks(rows * heads * w.value));
    run(results.zip(operands), |((d_kv, d_rope), (dk, dv))| {
        d_rope.fill(0.0);
        let by_head = d_kv.chunks_exact_mut(w.both).zip(dk.chunks_exact(w.key)).zip(dv.chunks_exact(w.value));
        for (row, ((d_kv, dk), dv)) in by_head.enumerate() {
            let (own, shared) = dk.split_at(w.key - w.shared);
            d_kv[..own.len()].copy_from_slice(own);
            d_kv[own.len()..].copy_from_slice(dv);
            for (sum, d) in d_rope[row / heads * w.shared..][..w.shared].iter_mut().zip(shared) {
                *sum += d;
            }
        }
    });
}

/// Channels of a head.
struct Widths {
    key: usize,
    value: usize,
    /// Of keys, those that heads share.
    shared: usize,
    /// As projected: of keys those that heads do not share, and of values.
    both: usize,
}

impl Widths {
    fn new(k: usize, v: usize, kv: usize, rope: usize, tokens: usize, heads: usize) -> Self {
        let rows = (tokens * heads).max(1);
        let w = Widths { key: k / rows, value: v / rows, shared: rope / tokens.max(1), both: kv / rows };
        assert!(k == tokens * heads * w.key && v == tokens * heads * w.value && rope == tokens * w.shared);
        assert!(kv == tokens * heads * w.both && w.key + w.value == w.both + w.shared);
        assert!(tokens == 0 || [w.key, w.value, w.shared, w.both].iter().all(|width| *width > 0));
        w
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{random, same_for_any_threads};
    use super::*;

    #[test]
    fn every_channel_has_its_place_and_the_gradient_is_the_transpose() {
        let (tokens, heads, nope, shared, value) = (700, 3, 5, 4, 6);
        let (kv, rope) = (random(tokens * heads * (nope + value), 1, 1.0), random(tokens * shared, 2, 1.0));
        let (k, v) = same_for_any_threads(|| {
            let mut k = vec![f32::NAN; tokens * heads * (nope + shared)];
            let mut v = vec![f32::NAN; tokens * heads * value];
            latent_key_value(&mut k, &mut v, &kv, &rope, tokens, heads);
            (k, v)
        });
        for row in 0..tokens * heads {
            let (k, v) = (&k[row * (nope + shared)..], &v[row * value..]);
            let kv = &kv[row * (nope + value)..][..nope + value];
            assert_eq!((&k[..nope], &v[..value]), (&kv[..nope], &kv[nope..]));
            assert_eq!(k[nope..nope + shared], rope[row / heads * shared..][..shared]);
        }

        // ⟨A x, y⟩ = ⟨x, Aᵀ y⟩
        let (dk, dv) = (random(k.len(), 3, 1.0), random(v.len(), 4, 1.0));
        let (d_kv, d_rope) = same_for_any_threads(|| {
            let (mut d_kv, mut d_rope) = (vec![f32::NAN; kv.len()], vec![f32::NAN; rope.len()]);
            latent_key_value_grad(&mut d_kv, &mut d_rope, &dk, &dv, tokens, heads);
            (d_kv, d_rope)
        });
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum::<f64>();
        let (there, back) = (dot(&k, &dk) + dot(&v, &dv), dot(&kv, &d_kv) + dot(&rope, &d_rope));
        assert!((there - back).abs() < 1e-3, "{there} and {back}");
    }
}

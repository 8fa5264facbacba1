//! What the tests of the kernels share: random data, comparison, and a naive gradient check in `f64`.

/// `n` reproducible numbers, roughly normal with the given deviation.
pub(super) fn random(n: usize, seed: u64, deviation: f32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut uniform = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 24) as f32
    };
    (0..n).map(|_| ((0..6).map(|_| uniform()).sum::<f32>() - 3.0) * 1.414 * deviation).collect()
}

/// Fails when any element is further away than `tolerance` times the largest magnitude of the reference,
/// taken as 0.1 at least: the operands are of order 1, and what cancels to nothing keeps their rounding
/// errors.
#[track_caller]
pub(super) fn close(what: &str, got: &[f32], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len(), "{what}: lengths");
    let size = want.iter().fold(0.1, |m: f64, x| m.max(x.abs()));
    for (i, (&got, &want)) in got.iter().zip(want).enumerate() {
        let error = (f64::from(got) - want).abs();
        assert!(error <= tolerance * size, "{what}[{i}]: {got} for {want}, largest {size}");
    }
}

/// As `f64`.
pub(super) fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&x| f64::from(x)).collect()
}

/// Central finite differences of `f` at `x`.
pub(super) fn differences(x: &[f32], mut f: impl FnMut(&[f64]) -> f64) -> Vec<f64> {
    const STEP: f64 = 1e-5;
    let mut x = wide(x);
    (0..x.len())
        .map(|i| {
            let at = x[i];
            x[i] = at + STEP;
            let above = f(&x);
            x[i] = at - STEP;
            let below = f(&x);
            x[i] = at;
            (above - below) / (2.0 * STEP)
        })
        .collect()
}

/// Runs `f` in a pool of one and a pool of two threads and of three, and expects the same bits.
pub(super) fn same_for_any_threads<T: PartialEq + std::fmt::Debug + Send>(
    f: impl Fn() -> T + Send + Sync,
) -> T {
    let with = |n| rayon::ThreadPoolBuilder::new().num_threads(n).build().expect("a pool").install(&f);
    let one = with(1);
    for threads in [2, 3] {
        assert!(one == with(threads), "{threads} threads give another result");
    }
    one
}

//! Products of rows grouped by expert with the weights of their expert (aclnn `GroupedMatmul`).
//!
//! Rows are sorted by expert: expert `e` owns `counts[e]` rows, in order, and none is a legal number. Work is
//! cut into blocks of the rows (or of the gradient) of one expert, so that a popular expert does not hold up
//! the others.

use super::gemm::{View, product};
use super::parallel::{Shared, run};
use rayon::prelude::*;

/// Rows of one task: enough that packing the weights again for every block stays cheap.
const BLOCK: usize = 256;

/// `out[R, n] (+)= x[R, k] · w`, where `w` is [E, n, k] with `trans_w` (`y = x wᵀ`), else [E, k, n].
#[allow(clippy::too_many_arguments)]
pub fn grouped_matmul(
    out: &mut [f32],
    x: &[f32],
    w: &[f32],
    counts: &[u32],
    n: usize,
    k: usize,
    trans_w: bool,
    accumulate: bool,
) {
    let rows = total(counts);
    assert!(out.len() == rows * n && x.len() == rows * k && w.len() == counts.len() * n * k);
    let blocks: usize = counts.iter().map(|&c| (c as usize).div_ceil(BLOCK)).sum();
    let out = Shared::new(out);
    run((0..blocks).into_par_iter(), |task| {
        let (expert, first, count) = row_block(counts, task);
        let w = &w[expert * n * k..][..n * k];
        let w = if trans_w { View::rows(w, k).transposed() } else { View::rows(w, n) };
        let block = out.matrix(first * n, count, n, n);
        // SAFETY: inside `out`, and every row belongs to one block.
        unsafe { product(block, n, View::rows(&x[first * k..], k), w, [count, n, k], 1.0, accumulate) };
    });
}

/// `dw[E, n, k] (+)= dyᵀ · x` of each expert, for `dy` [R, n] and `x` [R, k]. An expert without rows gets
/// zeros unless `accumulate`.
pub fn grouped_matmul_weight_grad(
    dw: &mut [f32],
    dy: &[f32],
    x: &[f32],
    counts: &[u32],
    n: usize,
    k: usize,
    accumulate: bool,
) {
    let rows = total(counts);
    assert!(dy.len() == rows * n && x.len() == rows * k && dw.len() == counts.len() * n * k);
    let blocks = n.div_ceil(BLOCK);
    let dw = Shared::new(dw);
    run((0..counts.len() * blocks).into_par_iter(), |task| {
        let (expert, from) = (task / blocks, task % blocks * BLOCK);
        let (first, count) = (total(&counts[..expert]), counts[expert] as usize);
        let size = [BLOCK.min(n - from), k, count];
        if count == 0 && accumulate {
            return;
        }
        let dy = if count == 0 { &[] } else { &dy[first * n + from..] };
        let block = dw.matrix((expert * n + from) * k, size[0], k, k);
        // SAFETY: inside `dw`, and every row of every expert's weight belongs to one task.
        unsafe {
            product(
                block,
                k,
                View::rows(dy, n).transposed(),
                View::rows(&x[first * k..], k),
                size,
                1.0,
                accumulate,
            )
        };
    });
}

fn total(counts: &[u32]) -> usize {
    counts.iter().map(|&c| c as usize).sum()
}

/// The expert, first row and number of rows of block `task`.
fn row_block(counts: &[u32], mut task: usize) -> (usize, usize, usize) {
    let mut first = 0;
    for (expert, &count) in counts.iter().enumerate() {
        let count = count as usize;
        let blocks = count.div_ceil(BLOCK);
        if task < blocks {
            let from = task * BLOCK;
            return (expert, first + from, BLOCK.min(count - from));
        }
        task -= blocks;
        first += count;
    }
    unreachable!("a block beyond the last expert");
}

#[cfg(test)]
mod tests {
    use super::super::gemm::matmul;
    use super::super::testing::{close, random, same_for_any_threads, wide};
    use super::*;

    const COUNTS: [u32; 6] = [0, 3, 300, 0, 1, 0];
    const N: usize = 40;
    const K: usize = 24;
    const ROWS: usize = 304;

    /// The same through one ordinary product an expert.
    fn each_expert(mut f: impl FnMut(usize, usize, usize)) {
        let mut first = 0;
        for (e, &c) in COUNTS.iter().enumerate() {
            f(e, first, c as usize);
            first += c as usize;
        }
    }

    #[test]
    fn forward_matches_single_products() {
        let (x, w) = (random(ROWS * K, 1, 1.0), random(COUNTS.len() * N * K, 2, 1.0));
        for trans_w in [false, true] {
            let mut want = vec![0.0; ROWS * N];
            each_expert(|e, first, c| {
                let (out, x) = (&mut want[first * N..][..c * N], &x[first * K..][..c * K]);
                matmul(out, x, &w[e * N * K..][..N * K], c, N, K, false, trans_w, false);
            });
            let got = same_for_any_threads(|| {
                let mut out = vec![1.0; ROWS * N];
                grouped_matmul(&mut out, &x, &w, &COUNTS, N, K, trans_w, true);
                out.iter_mut().for_each(|x| *x -= 1.0);
                out
            });
            close("out", &got, &wide(&want), 1e-5);
        }
    }

    #[test]
    fn weight_gradient_matches_single_products() {
        let (x, dy) = (random(ROWS * K, 1, 1.0), random(ROWS * N, 2, 1.0));
        let mut want = vec![0.0; COUNTS.len() * N * K];
        each_expert(|e, first, c| {
            let (dy, x) = (&dy[first * N..][..c * N], &x[first * K..][..c * K]);
            matmul(&mut want[e * N * K..][..N * K], dy, x, N, K, c, true, false, false);
        });
        let got = same_for_any_threads(|| {
            let mut dw = vec![f32::NAN; want.len()];
            grouped_matmul_weight_grad(&mut dw, &dy, &x, &COUNTS, N, K, false);
            dw
        });
        close("dw", &got, &wide(&want), 1e-5);
        assert!(got[..N * K].iter().all(|&x| x == 0.0), "an expert without rows");

        let mut twice = got.clone();
        grouped_matmul_weight_grad(&mut twice, &dy, &x, &COUNTS, N, K, true);
        let want: Vec<f64> = want.iter().map(|&x| 2.0 * f64::from(x)).collect();
        close("accumulated", &twice, &want, 1e-5);
    }

    #[test]
    fn no_rows_at_all() {
        let mut dw = vec![f32::NAN; 2 * 6];
        grouped_matmul(&mut [], &[], &[0.0; 12], &[0, 0], 2, 3, true, false);
        grouped_matmul_weight_grad(&mut dw, &[], &[], &[0, 0], 2, 3, false);
        assert_eq!(dw, [0.0; 12]);
    }
}

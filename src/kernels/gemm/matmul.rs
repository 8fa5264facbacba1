//! The products that the other kernels call, and how a large one is shared between threads: the result is cut into
//! blocks, `k` never.

use super::super::parallel::{Shared, run};
#[cfg(target_arch = "x86_64")]
use super::super::simd::{LEVEL, Level};
use super::block;
use super::tile::Kernel;
use rayon::prelude::*;

/// Multiplications a thread should have at least to be worth waking.
const WORTH_A_TASK: usize = 1 << 19;

/// Rows and columns of the smallest block: below, packing and waking cost more than they share.
const LEAST_BLOCK: usize = 96;

/// A matrix inside a slice: element (i, j) is `data[i * row + j * col]`.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    pub data: &'a [f32],
    pub row: usize,
    pub col: usize,
}

impl<'a> View<'a> {
    /// Rows that start `stride` elements apart.
    pub fn rows(data: &'a [f32], stride: usize) -> Self {
        View { data, row: stride, col: 1 }
    }

    /// The transposed matrix, in place.
    pub fn transposed(self) -> Self {
        View { data: self.data, row: self.col, col: self.row }
    }

    /// The matrix without its first rows and columns.
    pub(super) fn from(self, row: usize, col: usize) -> Self {
        View { data: &self.data[row * self.row + col * self.col..], ..self }
    }

    pub(super) fn check(&self, rows: usize, cols: usize) {
        if rows > 0 && cols > 0 {
            let last = (rows - 1) * self.row + (cols - 1) * self.col;
            assert!(last < self.data.len(), "a {rows}x{cols} view needs {last} < {}", self.data.len());
        }
    }
}

/// `out[m, n] (+)= op(a) · op(b)`, all row-major: `a` is [m, k], or [k, m] with `trans_a`; `b` is [k, n], or
/// [n, k] with `trans_b`. Overwrites `out` unless `accumulate`.
#[allow(clippy::too_many_arguments)]
pub fn matmul(
    out: &mut [f32],
    a: &[f32],
    b: &[f32],
    m: usize,
    n: usize,
    k: usize,
    trans_a: bool,
    trans_b: bool,
    accumulate: bool,
) {
    assert!(out.len() == m * n && a.len() == m * k && b.len() == k * n, "product of {m}x{k} and {k}x{n}");
    let a = if trans_a { View::rows(a, m).transposed() } else { View::rows(a, k) };
    let b = if trans_b { View::rows(b, k).transposed() } else { View::rows(b, n) };
    let (row_blocks, col_blocks) = cut(m, n, k, rayon::current_num_threads());
    if row_blocks * col_blocks == 1 {
        return matmul_strided(out, n, a, b, [m, n, k], 1.0, accumulate);
    }
    let out = Shared::new(out);
    run((0..row_blocks * col_blocks).into_par_iter(), |task| {
        let rows = part(m, row_blocks, task / col_blocks);
        let cols = part(n, col_blocks, task % col_blocks);
        let size = [rows.len(), cols.len(), k];
        let block = out.matrix(rows.start * n + cols.start, size[0], size[1], n);
        // SAFETY: inside `out`, and the blocks of two tasks share no element.
        unsafe { product(block, n, a.from(rows.start, 0), b.from(0, cols.start), size, 1.0, accumulate) };
    });
}

/// `out (+)= factor · a · b` on the calling thread: `out` is [m, n] with rows `stride` apart, `size` is [m,
/// n, k].
pub fn matmul_strided(
    out: &mut [f32],
    stride: usize,
    a: View<'_>,
    b: View<'_>,
    size: [usize; 3],
    factor: f32,
    accumulate: bool,
) {
    let block = Shared::new(out).matrix(0, size[0], size[1], stride);
    // SAFETY: `matrix` has checked that the block lies inside `out`, which is borrowed for the call.
    unsafe { product(block, stride, a, b, size, factor, accumulate) }
}

/// As [`matmul_strided`], writing to an address.
///
/// # Safety
/// The [m, n] block at `out` must be valid for writes and used by nobody else during the call.
pub(in super::super) unsafe fn product(
    out: *mut f32,
    stride: usize,
    a: View<'_>,
    b: View<'_>,
    size: [usize; 3],
    factor: f32,
    accumulate: bool,
) {
    let [m, n, k] = size;
    a.check(m, k);
    b.check(k, n);
    if k == 0 {
        if !accumulate {
            for i in 0..m {
                // SAFETY: rows of `out`.
                unsafe { std::slice::from_raw_parts_mut(out.add(i * stride), n) }.fill(0.0);
            }
        }
        return;
    }
    // SAFETY: the views were checked, the kernel fits this CPU, and the caller vouches for `out`.
    unsafe { block::product(kernel(), out, stride, a, b, size, factor, accumulate) }
}

/// The tiles for this CPU.
pub(super) fn kernel() -> &'static Kernel {
    #[cfg(target_arch = "x86_64")]
    match *LEVEL {
        Level::Avx512 => return &super::avx512::KERNEL,
        Level::Avx2 => return &super::avx2::KERNEL,
        Level::Baseline => {}
    }
    &super::portable::KERNEL
}

/// Into how many blocks of rows and of columns to cut a result, for twice as many blocks as threads.
fn cut(m: usize, n: usize, k: usize, threads: usize) -> (usize, usize) {
    let work = m.saturating_mul(n).saturating_mul(k);
    let wanted = (threads * 2).min(work / WORTH_A_TASK).max(1);
    if threads == 1 || wanted == 1 {
        return (1, 1);
    }
    // Columns first: only `b` gets packed, and blocks of rows would each pack all of it.
    let cols = (n / LEAST_BLOCK).clamp(1, wanted);
    let rows = (m / LEAST_BLOCK).clamp(1, wanted.div_ceil(cols));
    (rows, cols)
}

/// The `index`-th of `parts` nearly equal ranges of `0..n`, cut at multiples of 16 where there is room.
fn part(n: usize, parts: usize, index: usize) -> std::ops::Range<usize> {
    let edge = |i: usize| if i == parts { n } else { n * i / parts / 16 * 16 };
    edge(index)..edge(index + 1)
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{close, random, same_for_any_threads};
    use super::*;

    fn naive(a: &[f32], b: &[f32], [m, n, k]: [usize; 3], trans_a: bool, trans_b: bool) -> Vec<f64> {
        let mut out = vec![0.0; m * n];
        for i in 0..m {
            for j in 0..n {
                for l in 0..k {
                    let a = if trans_a { a[l * m + i] } else { a[i * k + l] };
                    let b = if trans_b { b[j * k + l] } else { b[l * n + j] };
                    out[i * n + j] += f64::from(a) * f64::from(b);
                }
            }
        }
        out
    }

    #[test]
    fn every_layout_and_size() {
        for size in
            [[1, 1, 1], [1, 40, 7], [37, 1, 16], [5, 3, 2], [37, 53, 29], [200, 230, 70], [400, 50, 300]]
        {
            let [m, n, k] = size;
            let (a, b) = (random(m * k, 1, 1.0), random(k * n, 2, 1.0));
            for (ta, tb) in [(false, false), (false, true), (true, false), (true, true)] {
                let want = naive(&a, &b, size, ta, tb);
                let got = same_for_any_threads(|| {
                    let mut out = vec![f32::NAN; m * n];
                    matmul(&mut out, &a, &b, m, n, k, ta, tb, false);
                    matmul(&mut out, &a, &b, m, n, k, ta, tb, true);
                    out
                });
                let twice: Vec<f64> = want.iter().map(|x| 2.0 * x).collect();
                close(&format!("{size:?} {ta} {tb}"), &got, &twice, 1e-5);
            }
        }
    }

    #[test]
    fn long_sums_do_not_depend_on_threads() {
        let (m, n, k) = (130, 250, 1500);
        let (a, b) = (random(m * k, 1, 1.0), random(k * n, 2, 1.0));
        same_for_any_threads(|| {
            let mut out = vec![0.0; m * n];
            matmul(&mut out, &a, &b, m, n, k, false, true, false);
            out
        });
    }

    #[test]
    fn an_empty_sum_is_zero() {
        let mut out = vec![f32::NAN; 6];
        matmul(&mut out, &[], &[], 2, 3, 0, false, false, false);
        assert_eq!(out, [0.0; 6]);
        matmul(&mut [], &[], &[1.0], 0, 1, 1, false, false, false);
    }

    #[test]
    fn strided_and_scaled() {
        let (a, b) = (random(4 * 9, 3, 1.0), random(5 * 8, 4, 1.0));
        let mut out = vec![7.0; 4 * 6];
        let size = [4, 5, 8];
        matmul_strided(&mut out, 6, View::rows(&a[1..], 9), View::rows(&b, 8).transposed(), size, 0.5, false);
        for i in 0..4 {
            for j in 0..5 {
                let want: f64 =
                    (0..8).map(|l| f64::from(a[1 + i * 9 + l]) * f64::from(b[j * 8 + l]) * 0.5).sum();
                assert!((f64::from(out[i * 6 + j]) - want).abs() < 1e-5);
            }
            assert_eq!(out[i * 6 + 5], 7.0, "outside the result");
        }
    }
}

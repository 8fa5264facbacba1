//! One product on one thread: cuts it into blocks that fit the caches, packs their operands on the stack and runs the
//! tiles.
//!
//! The cuts along `k` depend on `k` alone, so an element of the result is the same sum wherever its block lies.

use super::matmul::View;
use super::pack::{fill, pack};
use super::tile::{Kernel, Tile};
use std::mem::MaybeUninit;
use std::ops::Range;

/// Most terms that are summed in registers: then a panel of the left operand fills half of a first-level cache.
const DEPTH: usize = 256;

/// Most columns of a block: then the right operand takes a quarter of a second-level cache of 1 MiB.
const COLS: usize = 256;

/// Rows this many elements apart, or a multiple, compete for the same few lines of a first-level cache, whose ways are
/// 4 KiB each: such a left operand is packed, while any other is read where it is.
const ALIAS: usize = 1024;

/// Rows of the result from which on packing a right operand with such rows pays. Other contiguous rows are never
/// packed; columns always are.
const WORTH_PACKING: usize = 96;

/// Most rows of a tile.
const ROWS: usize = 14;

/// Distance of the rows of a packed left operand: one cache line more than their length, so that they do not compete.
const LINE: usize = DEPTH + 16;

/// Packed operands, on the stack of the task.
struct Scratch {
    a: [[MaybeUninit<f32>; LINE]; ROWS],
    b: [MaybeUninit<f32>; COLS * DEPTH],
}

/// `out (+)= factor · a · b`; see [`product`](super::matmul::product).
///
/// # Safety
/// The CPU must have the instructions of the kernel; [m, n] elements at `out` must be valid for reads and writes and
/// used by nobody else during the call.
#[allow(clippy::too_many_arguments)]
pub(super) unsafe fn product(
    kernel: &Kernel,
    out: *mut f32,
    stride: usize,
    a: View<'_>,
    b: View<'_>,
    [m, n, k]: [usize; 3],
    factor: f32,
    accumulate: bool,
) {
    let mut scratch = MaybeUninit::<Scratch>::uninit();
    // SAFETY: an array of `MaybeUninit` is never uninitialised.
    let scratch = unsafe { scratch.assume_init_mut() };
    let pack_a = a.col == 1 && a.row.is_multiple_of(ALIAS);
    let pack_b = b.col != 1 || (b.row.is_multiple_of(ALIAS) && m >= WORTH_PACKING);
    let panels = m.div_ceil(kernel.rows());
    for depth in parts(k, DEPTH, 1) {
        let (first, terms) = (depth.start, depth.len());
        let accumulate = accumulate || first > 0;
        for cols in parts(n, COLS, kernel.cols) {
            if pack_b {
                for (j, width) in pieces(&cols, kernel.cols) {
                    let panel = &mut scratch.b[(j - cols.start) * terms..];
                    // SAFETY: the caller's promise about the CPU.
                    unsafe { pack(panel, kernel.cols, b.from(first, j), terms, width, kernel.transpose) };
                }
            }
            for panel in 0..panels {
                let rows = m * panel / panels..m * (panel + 1) / panels;
                let left = a.from(rows.start, first);
                let (left, a_row, a_col) = if pack_a {
                    for (i, to) in scratch.a[..rows.len()].iter_mut().enumerate() {
                        fill(to, &left.data[i * a.row..][..terms]);
                    }
                    (scratch.a.as_ptr().cast(), LINE, 1)
                } else {
                    (left.data.as_ptr(), a.row, a.col)
                };
                for (j, width) in pieces(&cols, kernel.cols) {
                    let (right, b_row) = match pack_b {
                        true => (scratch.b[(j - cols.start) * terms..].as_ptr().cast(), kernel.cols),
                        false => (b.from(first, j).data.as_ptr(), b.row),
                    };
                    let tile = Tile {
                        a: left,
                        a_row,
                        a_col,
                        b: right,
                        b_row,
                        k: terms,
                        out: out.wrapping_add(rows.start * stride + j),
                        out_row: stride,
                        cols: width,
                        factor,
                        accumulate,
                    };
                    // SAFETY: the operands were checked, packed panels have just been filled, and the caller vouches
                    // for `out`.
                    unsafe { kernel.tile(rows.len(), width, a_row == 1)(&tile) };
                }
            }
        }
    }
}

/// Nearly equal ranges of `0..n` of at most `most` elements, cut at multiples of `step`.
fn parts(n: usize, most: usize, step: usize) -> impl Iterator<Item = Range<usize>> {
    let steps = n.div_ceil(step);
    let count = steps.div_ceil(most / step);
    let edge = move |i: usize| (steps * i / count.max(1) * step).min(n);
    (0..count).map(move |i| edge(i)..edge(i + 1))
}

/// Start and width of the pieces of a range, all `width` wide but the last.
fn pieces(range: &Range<usize>, width: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
    let end = range.end;
    range.clone().step_by(width).map(move |from| (from, width.min(end - from)))
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{close, random};
    use super::super::{matmul, portable};
    use super::*;

    /// All kernels that this CPU can run.
    fn kernels() -> Vec<(&'static str, &'static Kernel)> {
        let mut kernels = vec![("portable", &portable::KERNEL), ("chosen", matmul::kernel())];
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            kernels.push(("avx2", &super::super::avx2::KERNEL));
        }
        kernels
    }

    /// An operand of `rows` x `cols`, in rows or in columns `stride` apart, that ends with its last element.
    fn operand(data: &[f32], rows: usize, cols: usize, stride: usize, transposed: bool) -> View<'_> {
        let (across, along) = if transposed { (cols, rows) } else { (rows, cols) };
        let view = View::rows(&data[..(across - 1) * stride + along], stride);
        if transposed { view.transposed() } else { view }
    }

    #[test]
    fn every_kernel_with_every_stride() {
        let data = [random(300 * 1024, 1, 1.0), random(300 * 1024, 2, 1.0)];
        for [m, n, k] in [[1, 1, 1], [3, 70, 20], [29, 33, 9], [100, 37, 270], [15, 300, 8]] {
            for (stride, layout) in [300, 1024].into_iter().flat_map(|s| (0..4).map(move |l| (s, l))) {
                let a = operand(&data[0], m, k, stride, layout & 1 > 0);
                let b = operand(&data[1], k, n, stride, layout & 2 > 0);
                let at = |x: View<'_>, i: usize, j: usize| f64::from(x.data[i * x.row + j * x.col]);
                let each = (0..m).flat_map(|i| (0..n + 2).map(move |j| (i, j)));
                let product = |i, j| (0..k).map(|l| at(a, i, l) * at(b, l, j)).sum::<f64>();
                let want: Vec<f64> =
                    each.map(|(i, j)| 3.0 + if j < n { 0.5 * product(i, j) } else { 0.0 }).collect();
                for (name, kernel) in kernels() {
                    let mut out = vec![3.0; m * (n + 2)];
                    // SAFETY: the CPU has the kernel's instructions, and `out` has m rows of n elements.
                    unsafe { super::product(kernel, out.as_mut_ptr(), n + 2, a, b, [m, n, k], 0.5, true) };
                    close(&format!("{name} {m}x{n}x{k} {stride} {layout}"), &out, &want, 1e-5);
                }
            }
        }
    }

    #[test]
    fn parts_cover_the_whole() {
        for (n, most, step) in [(0, 8, 1), (1, 8, 4), (8, 8, 4), (9, 8, 4), (257, 256, 32), (704, 256, 32)] {
            let ranges: Vec<_> = parts(n, most, step).collect();
            assert!(ranges.iter().all(|r| !r.is_empty() && r.len() <= most && r.start % step == 0));
            assert_eq!(ranges.iter().map(|r| r.len()).sum::<usize>(), n);
        }
    }
}

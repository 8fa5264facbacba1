//! Copies operands into panels: a few columns of a matrix side by side, row after row, as a tile reads them.

use super::matmul::View;
use std::mem::MaybeUninit;

/// Rows and columns that are transposed at once; panels are this wide or a multiple.
pub(super) const SQUARE: usize = 8;

/// Transposes a square: element (i, j) is read at `j * stride + i` and written at `i * width + j`. Columns from
/// `cols` on are filled with anything.
///
/// # Safety
/// The CPU must have the instructions it is compiled for; `cols` (at least 1) columns must be valid for reads and
/// the whole square for writes.
pub(super) type Transpose =
    unsafe fn(to: *mut f32, width: usize, from: *const f32, stride: usize, cols: usize);

/// Packs the first `rows` x `cols` elements of a view: element (i, j) goes to `to[i * width + j]`. What lies between
/// `cols` and `width`, a multiple of [`SQUARE`], becomes anything.
///
/// # Safety
/// The CPU must have the instructions that `transpose` is compiled for.
pub(super) unsafe fn pack(
    to: &mut [MaybeUninit<f32>],
    width: usize,
    from: View<'_>,
    rows: usize,
    cols: usize,
    transpose: Transpose,
) {
    from.check(rows, cols);
    let to = &mut to[..rows * width];
    match (from.col, width) {
        (1, 8) => copy::<8>(to, from, cols),
        (1, 16) => copy::<16>(to, from, cols),
        (1, 32) => copy::<32>(to, from, cols),
        _ => {
            let squares = if from.row == 1 { rows / SQUARE * SQUARE } else { 0 };
            for j in (0..cols).step_by(SQUARE) {
                for i in (0..squares).step_by(SQUARE) {
                    let square = to[i * width + j..].as_mut_ptr().cast();
                    let (columns, left) = (from.data[i + j * from.col..].as_ptr(), SQUARE.min(cols - j));
                    // SAFETY: the rows are below `rows`, the columns below `cols`, and the panel is a multiple of the
                    // square wide; the view was checked.
                    unsafe { transpose(square, width, columns, from.col, left) };
                }
            }
            for i in squares..rows {
                for j in 0..cols {
                    to[i * width + j].write(from.data[i * from.row + j * from.col]);
                }
            }
        }
    }
}

/// Copies rows that are contiguous. A length known to the compiler is worth reading beyond `cols`, which only the last
/// rows of a matrix do not allow.
fn copy<const WIDTH: usize>(to: &mut [MaybeUninit<f32>], from: View<'_>, cols: usize) {
    for (i, to) in to.chunks_exact_mut(WIDTH).enumerate() {
        let from = &from.data[i * from.row..];
        match from.first_chunk::<WIDTH>() {
            Some(from) => fill(to, from),
            None => fill(to, &from[..cols]),
        }
    }
}

/// Copies all of `from` to the start of `to`.
#[inline(always)]
pub(super) fn fill(to: &mut [MaybeUninit<f32>], from: &[f32]) {
    for (to, from) in to[..from.len()].iter_mut().zip(from) {
        to.write(*from);
    }
}

/// Needs AVX2. See [`Transpose`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn transpose_avx2(
    to: *mut f32,
    width: usize,
    from: *const f32,
    stride: usize,
    cols: usize,
) {
    use std::arch::x86_64::*;
    // SAFETY: the addresses are of the square, save that a column that is not there is replaced by the last.
    unsafe {
        let column = |j: usize| from.add(j.min(cols - 1) * stride);
        for half in [0, 4] {
            let pair = |j: usize| _mm256_loadu2_m128(column(j + 4).add(half), column(j).add(half));
            let columns = [pair(0), pair(1), pair(2), pair(3)];
            let low =
                [_mm256_unpacklo_ps(columns[0], columns[1]), _mm256_unpacklo_ps(columns[2], columns[3])];
            let high =
                [_mm256_unpackhi_ps(columns[0], columns[1]), _mm256_unpackhi_ps(columns[2], columns[3])];
            let rows = [
                _mm256_shuffle_ps::<0x44>(low[0], low[1]),
                _mm256_shuffle_ps::<0xee>(low[0], low[1]),
                _mm256_shuffle_ps::<0x44>(high[0], high[1]),
                _mm256_shuffle_ps::<0xee>(high[0], high[1]),
            ];
            for (i, row) in rows.into_iter().enumerate() {
                _mm256_storeu_ps(to.add((half + i) * width), row);
            }
        }
    }
}

/// For any CPU. See [`Transpose`].
pub(super) unsafe fn transpose_portable(
    to: *mut f32,
    width: usize,
    from: *const f32,
    stride: usize,
    cols: usize,
) {
    for j in 0..cols {
        for i in 0..SQUARE {
            // SAFETY: the addresses are of the square.
            unsafe { *to.add(i * width + j) = *from.add(j * stride + i) };
        }
    }
}

//! The inner loop: a few rows times a few vectors of the result, kept in registers while `k` runs.
//!
//! It is written once over [`Simd`] and compiled for every instruction set and every number of rows. Each element
//! is one chain of multiply-adds over `k`, so it does not matter which tile, or which lane, it falls into.

use super::pack::Transpose;

/// The vectors of one instruction set.
///
/// # Safety
/// Every function needs a CPU that has the instructions; those that read or write need an address that is valid for
/// the lanes they touch, at any alignment.
pub(super) trait Simd {
    type Vector: Copy;
    /// The first lanes of a vector.
    type Mask: Copy;
    const LANES: usize;

    unsafe fn mask(lanes: usize) -> Self::Mask;
    unsafe fn splat(x: f32) -> Self::Vector;
    unsafe fn load(from: *const f32) -> Self::Vector;
    /// Lanes outside the mask are not read and become zero.
    unsafe fn load_some(from: *const f32, mask: Self::Mask) -> Self::Vector;
    /// Lanes outside the mask are not written.
    unsafe fn store_some(to: *mut f32, x: Self::Vector, mask: Self::Mask);
    /// `a · b + c`.
    unsafe fn mul_add(a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;
    unsafe fn mul(a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Fetches the cache line of an address into the cache. Does nothing for an address that is not valid.
    unsafe fn prefetch(at: *const f32);
}

/// The operands of a tile. Strides count elements.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    /// Element (i, l) of the left operand is at `i * a_row + l * a_col`.
    pub a: *const f32,
    pub a_row: usize,
    pub a_col: usize,
    /// Element (l, j) of the right operand is at `l * b_row + j`.
    pub b: *const f32,
    pub b_row: usize,
    pub k: usize,
    pub out: *mut f32,
    pub out_row: usize,
    pub cols: usize,
    pub factor: f32,
    pub accumulate: bool,
}

/// A compiled tile.
///
/// # Safety
/// The CPU must have the instructions it is compiled for, and all elements of the tile's operands must be valid;
/// those of `out` are used by nobody else during the call.
pub(super) type Run = unsafe fn(&Tile);

/// The tiles of one instruction set.
pub(super) struct Kernel {
    /// Columns of a tile at most: two vectors.
    pub cols: usize,
    /// Copies squares of transposed operands.
    pub transpose: Transpose,
    /// Indexed by the number of rows less one, vectors of columns less one, and whether `a_row` is 1.
    pub tiles: &'static [[[Run; 2]; 2]],
}

impl Kernel {
    /// Rows of a tile at most.
    pub fn rows(&self) -> usize {
        self.tiles.len()
    }

    /// The tile of `rows` x `cols`.
    pub fn tile(&self, rows: usize, cols: usize, packed: bool) -> Run {
        self.tiles[rows - 1][usize::from(cols > self.cols / 2)][usize::from(packed)]
    }
}

/// Tiles of 1 to the given number of rows, from a function generic over rows, vectors and packing.
macro_rules! tiles {
    ($run:ident: $($rows:literal)*) => {
        &[$([
            [$run::<$rows, 1, false>, $run::<$rows, 1, true>],
            [$run::<$rows, 2, false>, $run::<$rows, 2, true>],
        ]),*]
    };
}
pub(super) use tiles;

/// Repeats a block for every `$i` below `$end`, at most 14. Written out, so that the sums stay in registers even where
/// the compiler is told not to unroll loops.
macro_rules! each {
    ($i:ident < $end:ident $body:block) => {
        each!($i < $end $body: 0 1 2 3 4 5 6 7 8 9 10 11 12 13)
    };
    ($i:ident < $end:ident $body:block: $($n:literal)*) => {
        $(if $n < $end {
            const $i: usize = $n;
            $body
        })*
    };
}

/// Computes a tile of `M` rows and `V` (one or two) vectors, the last of which may be cut short.
///
/// # Safety
/// As of [`Run`]; with `PACKED`, `a_row` is 1.
#[inline(always)]
pub(super) unsafe fn tile<S: Simd, const M: usize, const V: usize, const PACKED: bool>(tile: &Tile) {
    let Tile { mut a, a_row, a_col, mut b, b_row, k, out, out_row, cols, factor, accumulate } = *tile;
    let a_row = if PACKED { 1 } else { a_row };
    // SAFETY: all addresses are of elements that the caller vouches for: lanes behind `cols` are masked out. The
    // last step of `a` and `b` may leave the operands, but nothing is read there.
    unsafe {
        let mask = S::mask(cols - (V - 1) * S::LANES);
        let zero = S::splat(0.0);
        let mut sum = [[zero; 2]; M];
        each!(I < M {
            S::prefetch(out.wrapping_add(I * out_row));
            if V == 2 {
                S::prefetch(out.wrapping_add(I * out_row + S::LANES));
            }
        });
        for _ in 0..k {
            let right = if V == 2 { S::load(b) } else { zero };
            let last = S::load_some(b.add((V - 1) * S::LANES), mask);
            each!(I < M {
                let left = S::splat(*a.add(I * a_row));
                if V == 2 {
                    sum[I][0] = S::mul_add(left, right, sum[I][0]);
                }
                sum[I][1] = S::mul_add(left, last, sum[I][1]);
            });
            a = a.wrapping_add(a_col);
            b = b.wrapping_add(b_row);
        }
        let factor = S::splat(factor);
        let all = S::mask(S::LANES);
        let finish = |to: *mut f32, sum: S::Vector, mask: S::Mask| {
            let new = if accumulate {
                S::mul_add(factor, sum, S::load_some(to, mask))
            } else {
                S::mul(factor, sum)
            };
            S::store_some(to, new, mask);
        };
        each!(I < M {
            let to = out.add(I * out_row);
            if V == 2 {
                finish(to, sum[I][0], all);
            }
            finish(to.add((V - 1) * S::LANES), sum[I][1], mask);
        });
    }
}

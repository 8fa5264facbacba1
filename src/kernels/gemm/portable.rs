//! Tiles for any CPU: arrays of four lanes, which the compiler turns into the vectors that every target has.

use super::pack::transpose_portable;
use super::tile::{Kernel, Simd, Tile, tile, tiles};

pub(super) static KERNEL: Kernel =
    Kernel { cols: 8, transpose: transpose_portable, tiles: tiles!(run: 1 2 3 4 5 6) };

unsafe fn run<const M: usize, const V: usize, const PACKED: bool>(operands: &Tile) {
    // SAFETY: the caller's promise is passed on.
    unsafe { tile::<Four, M, V, PACKED>(operands) }
}

struct Four;

// SAFETY of all blocks: the callers of the trait promise valid lanes.
impl Simd for Four {
    type Vector = [f32; 4];
    type Mask = usize;
    const LANES: usize = 4;

    #[inline(always)]
    unsafe fn mask(lanes: usize) -> usize {
        lanes
    }

    #[inline(always)]
    unsafe fn splat(x: f32) -> [f32; 4] {
        [x; 4]
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> [f32; 4] {
        unsafe { from.cast::<[f32; 4]>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn load_some(from: *const f32, lanes: usize) -> [f32; 4] {
        let mut to = [0.0; 4];
        if lanes == 4 {
            to = unsafe { Self::load(from) };
        } else {
            for (i, to) in to.iter_mut().take(lanes).enumerate() {
                *to = unsafe { *from.add(i) };
            }
        }
        to
    }

    #[inline(always)]
    unsafe fn store_some(to: *mut f32, x: [f32; 4], lanes: usize) {
        if lanes == 4 {
            unsafe { to.cast::<[f32; 4]>().write_unaligned(x) }
        } else {
            for (i, x) in x.into_iter().take(lanes).enumerate() {
                unsafe { *to.add(i) = x };
            }
        }
    }

    #[inline(always)]
    unsafe fn mul_add(a: [f32; 4], b: [f32; 4], c: [f32; 4]) -> [f32; 4] {
        // A fused instruction where the target always has one; elsewhere it would be a call of a function.
        let one = |i: usize| match cfg!(target_arch = "aarch64") {
            true => a[i].mul_add(b[i], c[i]),
            false => a[i] * b[i] + c[i],
        };
        [one(0), one(1), one(2), one(3)]
    }

    #[inline(always)]
    unsafe fn mul(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        [a[0] * b[0], a[1] * b[1], a[2] * b[2], a[3] * b[3]]
    }

    /// There is no portable way.
    #[inline(always)]
    unsafe fn prefetch(_: *const f32) {}
}

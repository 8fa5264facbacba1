//! Tiles for AVX-512: 14 x 32, so 28 of the 32 registers hold sums.

use super::pack::transpose_avx2;
use super::tile::{Kernel, Simd, Tile, tile, tiles};
use std::arch::x86_64::*;

/// Needs AVX-512F.
pub(super) static KERNEL: Kernel =
    Kernel { cols: 32, transpose: transpose_avx2, tiles: tiles!(run: 1 2 3 4 5 6 7 8 9 10 11 12 13 14) };

#[target_feature(enable = "avx512f")]
unsafe fn run<const M: usize, const V: usize, const PACKED: bool>(operands: &Tile) {
    // SAFETY: the caller's promise is passed on.
    unsafe { tile::<Avx512, M, V, PACKED>(operands) }
}

struct Avx512;

// SAFETY of all blocks: the callers of the trait promise AVX-512F and valid lanes.
impl Simd for Avx512 {
    type Vector = __m512;
    type Mask = __mmask16;
    const LANES: usize = 16;

    #[inline(always)]
    unsafe fn mask(lanes: usize) -> __mmask16 {
        (u32::MAX >> (32 - lanes)) as __mmask16
    }

    #[inline(always)]
    unsafe fn splat(x: f32) -> __m512 {
        unsafe { _mm512_set1_ps(x) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> __m512 {
        unsafe { _mm512_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn load_some(from: *const f32, mask: __mmask16) -> __m512 {
        unsafe { _mm512_maskz_loadu_ps(mask, from) }
    }

    #[inline(always)]
    unsafe fn store_some(to: *mut f32, x: __m512, mask: __mmask16) {
        unsafe { _mm512_mask_storeu_ps(to, mask, x) }
    }

    #[inline(always)]
    unsafe fn mul_add(a: __m512, b: __m512, c: __m512) -> __m512 {
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    unsafe fn mul(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_mul_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn prefetch(at: *const f32) {
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }
}

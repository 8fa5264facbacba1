//! Tiles for AVX2 with FMA: 6 x 16, so 12 of the 16 registers hold sums.

use super::pack::transpose_avx2;
use super::tile::{Kernel, Simd, Tile, tile, tiles};
use std::arch::x86_64::*;

/// Needs AVX2 and FMA.
pub(super) static KERNEL: Kernel =
    Kernel { cols: 16, transpose: transpose_avx2, tiles: tiles!(run: 1 2 3 4 5 6) };

#[target_feature(enable = "avx2,fma")]
unsafe fn run<const M: usize, const V: usize, const PACKED: bool>(operands: &Tile) {
    // SAFETY: the caller's promise is passed on.
    unsafe { tile::<Avx2, M, V, PACKED>(operands) }
}

struct Avx2;

// SAFETY of all blocks: the callers of the trait promise AVX2, FMA and valid lanes.
impl Simd for Avx2 {
    type Vector = __m256;
    type Mask = __m256i;
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn mask(lanes: usize) -> __m256i {
        unsafe {
            let lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            _mm256_cmpgt_epi32(_mm256_set1_epi32(lanes as i32), lane)
        }
    }

    #[inline(always)]
    unsafe fn splat(x: f32) -> __m256 {
        unsafe { _mm256_set1_ps(x) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> __m256 {
        unsafe { _mm256_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn load_some(from: *const f32, mask: __m256i) -> __m256 {
        unsafe { _mm256_maskload_ps(from, mask) }
    }

    #[inline(always)]
    unsafe fn store_some(to: *mut f32, x: __m256, mask: __m256i) {
        unsafe { _mm256_maskstore_ps(to, mask, x) }
    }

    #[inline(always)]
    unsafe fn mul_add(a: __m256, b: __m256, c: __m256) -> __m256 {
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    unsafe fn mul(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_mul_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn prefetch(at: *const f32) {
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }
}

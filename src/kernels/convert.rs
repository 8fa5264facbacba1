//! Between f32 and the half-precision types.

use super::parallel::{GRAIN, run};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use rayon::iter::IndexedParallelIterator;
use rayon::slice::{ParallelSlice, ParallelSliceMut};

/// A 16-bit floating-point type.
pub trait Half: Copy + Send + Sync {
    /// Exactly.
    fn widen(x: &[Self], y: &mut [f32]);
    /// To the nearest, ties to even.
    fn narrow(x: &[f32], y: &mut [Self]);
}

macro_rules! half {
    ($($half:ty),*) => {$(
        impl Half for $half {
            fn widen(x: &[Self], y: &mut [f32]) {
                x.convert_to_f32_slice(y);
            }

            fn narrow(x: &[f32], y: &mut [Self]) {
                y.convert_from_f32_slice(x);
            }
        }
    )*};
}

half!(bf16, f16);

/// `y = x`
pub fn widen<H: Half>(y: &mut [f32], x: &[H]) {
    assert_eq!(y.len(), x.len());
    run(y.par_chunks_mut(GRAIN).zip(x.par_chunks(GRAIN)), |(y, x)| H::widen(x, y));
}

/// `y = x`, rounded
pub fn narrow<H: Half>(y: &mut [H], x: &[f32]) {
    assert_eq!(y.len(), x.len());
    run(y.par_chunks_mut(GRAIN).zip(x.par_chunks(GRAIN)), |(y, x)| H::narrow(x, y));
}

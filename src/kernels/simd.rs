//! Compiles a loop for several instruction sets and picks one when it is called.
//!
//! A kernel is an ordinary function over slices, written so that the compiler can vectorise it: lanes are
//! explicit only where a sum needs a fixed order. No function here rounds differently on another instruction
//! set, because the compiler never contracts or reorders floating-point arithmetic by itself.

/// Defines a function whose body is compiled for AVX-512, for AVX2 and for the baseline of the target.
macro_rules! vectorized {
    (
        $(#[$meta:meta])*
        $vis:vis fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $ret:ty)? $body:block
    ) => {
        $(#[$meta])*
        #[allow(clippy::too_many_arguments)]
        $vis fn $name($($arg: $type),*) $(-> $ret)? {
            #[inline(always)]
            fn portable($($arg: $type),*) $(-> $ret)? $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,bmi1,bmi2")]
                fn avx512($($arg: $type),*) $(-> $ret)? {
                    portable($($arg),*)
                }
                #[target_feature(enable = "avx2,fma,bmi1,bmi2")]
                fn avx2($($arg: $type),*) $(-> $ret)? {
                    portable($($arg),*)
                }
                match *$crate::kernels::simd::LEVEL {
                    // SAFETY: `detect` found every feature the function is compiled for.
                    $crate::kernels::simd::Level::Avx512 => return unsafe { avx512($($arg),*) },
                    // SAFETY: as above.
                    $crate::kernels::simd::Level::Avx2 => return unsafe { avx2($($arg),*) },
                    $crate::kernels::simd::Level::Baseline => {}
                }
            }
            portable($($arg),*)
        }
    };
}
pub(super) use vectorized;

/// The instruction sets a kernel is compiled for.
#[cfg(target_arch = "x86_64")]
pub(super) enum Level {
    Baseline,
    Avx2,
    Avx512,
}

/// The best instruction set of this CPU.
#[cfg(target_arch = "x86_64")]
pub(super) static LEVEL: std::sync::LazyLock<Level> = std::sync::LazyLock::new(detect);

#[cfg(target_arch = "x86_64")]
fn detect() -> Level {
    let avx2 = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2");
    let avx512 = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512cd")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl");
    match (avx2, avx512) {
        (true, true) => Level::Avx512,
        (true, false) => Level::Avx2,
        _ => Level::Baseline,
    }
}

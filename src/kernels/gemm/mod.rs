//! Matrix products: `out (+)= factor · op(a) · op(b)` on row-major slices, and on strided views for the tiles of
//! attention.
//!
//! ```text
//! matmul    blocks of the result, one a thread
//! block     256 terms, 256 columns, up to 14 rows at a time: sized for the caches
//! tile      14 x 32 sums in registers; avx512, avx2 and portable say what a vector is
//! ```
//!
//! Operands are read where they are: the left one through broadcasts, the rows of the right one as vectors. Only a right
//! operand in columns, or rows that would collide in the cache, are packed, into scratch on the stack. So a product
//! allocates nothing, and a small one has next to no cost beside its arithmetic.
//!
//! Every element is summed in the same order for any number of threads and any cut: a chain of multiply-adds over each
//! block of terms, blocks added in order.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod block;
mod matmul;
mod pack;
mod portable;
mod tile;

pub(super) use matmul::product;
pub use matmul::{View, matmul, matmul_strided};

//! What operators compute: reference loops over 32-bit numbers, rounded to the type of the result once. They share nothing with the kernels that the
//! CPU device runs, so that one is held against the other.

mod attention;
mod elementwise;
mod grouped;
mod index;
mod matmul;
mod norm;
mod optimizer;
mod rope;
mod softmax;
mod view;

use crate::executor::{Arguments, Refusal, Run};

/// Checks arguments and gives what is to be run.
pub type Kernel = fn(&Arguments) -> Result<Run, Refusal>;

const TABLES: [&[(&str, Kernel)]; 9] = [
    attention::KERNELS,
    elementwise::KERNELS,
    grouped::KERNELS,
    index::KERNELS,
    matmul::KERNELS,
    norm::KERNELS,
    optimizer::KERNELS,
    rope::KERNELS,
    softmax::KERNELS,
];

pub fn find(operator: &str) -> Option<Kernel> {
    TABLES.into_iter().flatten().find(|(name, _)| *name == operator).map(|(_, kernel)| *kernel)
}

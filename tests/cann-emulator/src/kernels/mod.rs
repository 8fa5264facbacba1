//! What operators compute: reference loops over 32-bit numbers, rounded to the type of the result once.

mod elementwise;
mod matmul;
mod norm;
mod view;

use crate::executor::{Arguments, Refusal, Run};

/// Checks arguments and gives what is to be run.
pub type Kernel = fn(&Arguments) -> Result<Run, Refusal>;

pub fn find(operator: &str) -> Option<Kernel> {
    let tables = [elementwise::KERNELS, matmul::KERNELS, norm::KERNELS];
    tables.into_iter().flatten().find(|(name, _)| *name == operator).map(|(_, kernel)| *kernel)
}

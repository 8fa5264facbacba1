//! Tables of rotary positions, the same on every device.

use crate::kernels;
use crate::plan::Rope;
use crate::recipe::{self, Scaling};

/// Writes the cosines and sines of a table for sequences of so many tokens.
pub(super) fn fill(cos: &mut [f32], sin: &mut [f32], table: &Rope, sequence: u64) {
    let (theta, rotary) = (table.config.theta, table.rotary as usize);
    let (scaling, magnitude) = scaling(&table.config, rotary, sequence);
    kernels::rope_table(cos, sin, theta, rotary, scaling, magnitude);
}

/// How the kernels scale `rotary / 2` frequencies of `rope` for sequences of so many tokens, and the factor on the tables.
fn scaling(rope: &recipe::Rope, rotary: usize, sequence: u64) -> (kernels::RopeScaling<'_>, f32) {
    use kernels::RopeScaling as Kernel;
    match &rope.scaling {
        Scaling::None => (Kernel::None, 1.0),
        Scaling::Linear(s) => (Kernel::Linear(s.factor as f32), 1.0),
        Scaling::Llama3(s) => {
            let scaling = kernels::Llama3Scaling {
                factor: s.factor as f32,
                original_positions: s.original as f32,
                low_freq_factor: s.low as f32,
                high_freq_factor: s.high as f32,
            };
            (Kernel::Llama3(scaling), 1.0)
        }
        Scaling::Yarn(s) => {
            let (original, turns) = (s.original as f64, [s.fast, s.slow]);
            let yarn = kernels::YarnScaling::new(s.factor, original, turns, s.truncate, rope.theta, rotary);
            (Kernel::Yarn(yarn), s.magnitude as f32)
        }
        Scaling::LongRope(s) => {
            let divisors = if sequence > s.original { &s.long } else { &s.short };
            (Kernel::Divisors(divisors), s.magnitude as f32)
        }
    }
}

//! What a rank asks of a device.

use crate::data::Sequence;
use crate::diag::Diagnostic;
use crate::plan::{Op, View};
use std::sync::Arc;

/// Numbers that the host and the program exchange during a step.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Scalars {
    /// Number of the step, from 1.
    pub step: u64,
    /// Number of the micro batch inside the step, from 0.
    pub micro: u64,
    pub learning_rate: f64,
    /// Largest global gradient norm; larger gradients are scaled down to it.
    pub clip: Option<f64>,
    /// Supervised tokens of the step: of this rank, then of all ranks once `CountTokens` has run.
    pub supervised: f64,
    /// How many ranks want to stop behind this step; the sum once `CountTokens` has run.
    pub stop: f64,
    /// Sum of the losses of all supervised tokens; over all ranks once `ReduceMetrics` has run.
    pub loss: f64,
    /// Squared gradient norm, likewise.
    pub norm_squared: f64,
    /// Sum of the losses that even out the load of experts, likewise.
    pub aux_loss: f64,
    /// Sum of the losses of all layers of multi-token prediction, without their weight, likewise.
    pub mtp_loss: f64,
}

impl Scalars {
    /// What the gradient is multiplied with so that its norm is at most `clip`, as PyTorch's `clip_grad_norm_`.
    pub fn clip_factor(&self) -> f32 {
        self.clip.map_or(1.0, |clip| (clip / (self.norm_squared.sqrt() + 1e-6)).min(1.0)) as f32
    }
}

/// Writes elements of a buffer: the number of the first one, and room for them.
pub type Fill<'a> = dyn FnMut(u64, &mut [f32]) -> Result<(), Diagnostic> + 'a;

/// Memory with the plan's layout and the operations of the instruction set.
pub trait Device {
    /// Copies the sequences of a micro batch to where the program expects them.
    fn load(&mut self, sequences: &[Arc<Sequence>]);

    /// Runs one instruction.
    ///
    /// # Errors
    /// What went wrong on this rank or, in a collective, on any rank.
    fn run(&mut self, op: &Op, scalars: &mut Scalars) -> Result<(), Diagnostic>;

    /// Lets `fill` write the elements of a persistent buffer, in one or in several parts.
    ///
    /// # Errors
    /// Those of `fill`.
    fn fill(&mut self, view: View, fill: &mut Fill) -> Result<(), Diagnostic>;

    /// Copies numbers out of a persistent buffer into as many of `out`.
    fn copy(&self, view: View, out: &mut [f32]);

    /// The numbers of a persistent buffer.
    fn read(&self, view: View) -> Vec<f32>;

    /// The least of the numbers that the ranks give.
    ///
    /// # Errors
    /// As [`Device::run`].
    fn least(&mut self, number: u64) -> Result<u64, Diagnostic>;

    /// Bytes the device has set aside, and the most it has ever used of them.
    fn memory(&self) -> (u64, u64);
}

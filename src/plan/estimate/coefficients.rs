//! Figures that no first principle gives.
//!
//! Those under "fitted" were chosen on the fit half of the measurements in `tests/measurements` (`docs/accuracy.md` has the
//! split and the errors); the test half was not looked at for it. The others follow from what the engines allocate.

/// Router logits, scores and their gradient a token and expert: two fp32 tensors.
pub(super) const ROUTER_BYTES: f64 = 8.0;
/// Bytes a logit of eager cross entropy: bf16 logits, and in fp32 the copy, the log-softmax and its gradient.
pub(super) const LOGIT_EAGER: f64 = 14.0;
/// The same where the loss is compiled: bf16 logits, one fp32 copy, bf16 gradient.
pub(super) const LOGIT_COMPILED: f64 = 8.0;
/// The same in bf16 throughout: logits, log-softmax, and a gradient of each.
pub(super) const LOGIT_HALF: f64 = 8.0;
/// Megatron's cross entropy works in place: bf16 logits and one fp32 copy.
pub(super) const LOGIT_MEGATRON: f64 = 6.0;

// fitted
/// Unused parts of cached blocks, of what the step allocates and frees.
pub(super) const FRAGMENTATION: f64 = 0.08;
/// Of the smaller of logits and a layer's working set: what the allocator holds for it apart from the larger one's blocks.
pub(super) const APART: f64 = 0.6;

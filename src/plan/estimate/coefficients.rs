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
/// Times that element-wise kernels pass over the bytes a layer keeps, in both directions.
pub(super) const PASSES: f64 = 4.0;
/// Bytes that the loss moves a logit.
pub(super) const LOGIT_TRAFFIC: f64 = 40.0;
/// Kernels of a dense layer, forward and backward, and of a chunk of the loss.
pub(super) const KERNELS_EAGER: f64 = 150.0;
pub(super) const KERNELS_COMPILED: f64 = 60.0;
pub(super) const KERNELS_CHUNK: f64 = 20.0;
/// More of them in a mixture of experts: router, permutation, dispatch, combination.
pub(super) const KERNELS_MOE: f64 = 400.0;
/// Kernels of one expert where experts are worked on one by one.
pub(super) const KERNELS_EXPERT: f64 = 30.0;
/// Kernels and waits of a micro-batch outside its layers: data, loss, exchange with other stages.
pub(super) const KERNELS_MICRO_BATCH: f64 = 200.0;
/// Channels at which an expert's matrix products take twice the time of wide ones.
pub(super) const NARROW: f64 = 256.0;
/// Time of attention scores, of wide matrix products with as many FLOPs.
pub(super) const SCORES: f64 = 1.8;
/// Time of matrix products in an 8-bit format, of those in bf16.
pub(super) const EIGHT_BIT: f64 = 0.6;
/// Between device and host, bytes a second.
pub(super) const HOST_LINK: f64 = 20e9;

//! The model on the meta device: modules and parameters with shapes, types and checkpoint names, and no memory.
//!
//! Input: the typed model of a recipe. Output: a [`Model`] whose parameters are exactly the tensors of the
//! checkpoint that the recipe describes. Building it costs microseconds a layer, whatever the size of the tensors.

mod attention;
mod build;
mod count;
mod names;
mod parameter;
mod slice;

pub use attention::{AttentionModule, Linear, LowRank, Projections, Query};
pub use build::{Biases, FfnModule, LayerModule, MlpModule, Model, MoeModule, MtpModule};
pub use count::Counts;
pub use parameter::{Aside, CheckpointTensor, Copied, Init, ParamId, Parameter, Part};
pub use slice::{Joint, Slice};

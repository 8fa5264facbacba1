//! One parameter of the model and the checkpoint tensors it is stored in.

use super::slice::Slice;
use crate::base::DType;
use crate::recipe::Ignored;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Index of a parameter in [`Model::params`](super::Model::params).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ParamId(pub u32);

/// What a parameter is initialised with when the model is trained from scratch.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Init {
    /// Normal distribution around zero.
    Normal { std: f64 },
    /// The same value everywhere.
    Constant(f64),
}

/// The part of the model that a parameter belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// The input embedding.
    Embedding,
    /// The layers and the final norm.
    Body,
    /// Routed experts of the body: split over expert parallelism, active for `top_k` of `experts` tokens.
    Experts,
    /// The output projection.
    Head,
    /// Layers of multi-token prediction that are not trained: written as they were read …
    #[serde(alias = "Mtp")]
    Kept,
    /// … or left out.
    Dropped,
}

impl Part {
    /// Whether it takes part in training.
    pub fn in_training(self) -> bool {
        !matches!(self, Part::Kept | Part::Dropped)
    }
}

/// A parameter on the meta device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    /// Name of the checkpoint's tensor; with `{e}` in it where a checkpoint holds one tensor an expert.
    pub name: String,
    /// Routed experts are stacked: `[experts, out, in]`, whatever the layout of the checkpoint.
    pub shape: Vec<u64>,
    /// Type in the checkpoint.
    pub dtype: DType,
    pub part: Part,
    /// `false` for what the optimizer never touches, such as the router's selection bias.
    pub trainable: bool,
    pub init: Init,
    /// The part of the tensor that it is, where that is not all of it in this order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice: Option<Slice>,
}

/// A tensor of the checkpoint that holds a parameter or one expert of it, alone or beside other parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointTensor {
    pub name: String,
    /// Shape in the checkpoint.
    pub shape: Vec<u64>,
    pub dtype: DType,
    /// Elements of the flattened parameter that lie in it; [`Parameter::lines`] says where.
    pub elements: Range<u64>,
}

/// A tensor of a checkpoint that is a copy of another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copied {
    pub name: String,
    /// The parameter that it is a copy of.
    pub of: String,
    /// The part of the model that it belongs to, which says whether it is written, and whether as it was read.
    pub part: Part,
}

/// Tensors of a checkpoint beside those of the parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Aside {
    /// Tensors that hold once more what a parameter holds: they may be there.
    pub copies: Vec<Copied>,
    /// What is left alone: patterns and reasons.
    pub ignored: Vec<Ignored>,
}

impl Parameter {
    /// Whether it takes part in training, as a part of the model or frozen.
    pub fn in_training(&self) -> bool {
        self.part.in_training()
    }

    /// Number of elements.
    pub fn elements(&self) -> u64 {
        self.shape.iter().product()
    }

    /// Weight decay applies to matrices and not to norms and biases, which start the same everywhere.
    pub fn decayed(&self) -> bool {
        matches!(self.init, Init::Normal { .. })
    }

    /// The number of tensors that the checkpoint holds it in, where every expert has its own.
    pub fn per_expert(&self) -> Option<u64> {
        self.shape.first().copied().filter(|_| self.name.contains("{e}"))
    }

    /// The shape of what one tensor holds of it.
    pub fn part_shape(&self) -> &[u64] {
        &self.shape[usize::from(self.per_expert().is_some())..]
    }

    /// The shape of one of its tensors.
    pub fn tensor_shape(&self) -> &[u64] {
        self.slice.as_ref().map_or(self.part_shape(), |slice| &slice.shape)
    }

    /// Name of its tensor number `expert`.
    pub fn tensor_name(&self, expert: u64) -> String {
        self.name.replace("{e}", &expert.to_string())
    }

    /// The checkpoint tensors that hold this parameter, in the order of its elements.
    pub fn tensors(&self) -> impl Iterator<Item = CheckpointTensor> + '_ {
        let elements: u64 = self.part_shape().iter().product();
        (0..self.per_expert().unwrap_or(1)).map(move |e| CheckpointTensor {
            name: self.tensor_name(e),
            shape: self.tensor_shape().to_vec(),
            dtype: self.dtype,
            elements: e * elements..(e + 1) * elements,
        })
    }

    /// What tells it from all other parameters: its name, and where it begins in a tensor of several.
    pub fn label(&self) -> String {
        match &self.slice {
            Some(slice) => format!("{}[{}..]", self.name, slice.offset),
            None => self.name.clone(),
        }
    }
}

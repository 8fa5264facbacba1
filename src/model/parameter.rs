//! One parameter of the model and the checkpoint tensors it is stored in.

use crate::base::DType;
use serde::{Deserialize, Serialize};

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
    /// Layers for multi-token prediction: in the checkpoint, not trained.
    Mtp,
}

/// A parameter on the meta device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    /// Checkpoint name; with `{e}` in it where a checkpoint holds one tensor an expert.
    pub name: String,
    /// Routed experts are stacked: `[experts, out, in]`, whatever the layout of the checkpoint.
    pub shape: Vec<u64>,
    /// Type in the checkpoint.
    pub dtype: DType,
    pub part: Part,
    /// `false` for what the optimizer never touches, such as the router's selection bias.
    pub trainable: bool,
    pub init: Init,
}

/// A tensor of the checkpoint that holds a parameter or one expert of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointTensor {
    pub name: String,
    pub shape: Vec<u64>,
    pub dtype: DType,
    /// Where the tensor's first element lies in the flattened parameter.
    pub offset: u64,
}

impl Parameter {
    /// Number of elements.
    pub fn elements(&self) -> u64 {
        self.shape.iter().product()
    }

    /// Weight decay applies to matrices and not to norms and biases, which start the same everywhere.
    pub fn decayed(&self) -> bool {
        matches!(self.init, Init::Normal { .. })
    }

    /// The checkpoint tensors that hold this parameter, in the order of its elements.
    pub fn tensors(&self) -> impl Iterator<Item = CheckpointTensor> + '_ {
        let split = self.name.contains("{e}");
        let (count, shape) = if split { (self.shape[0], &self.shape[1..]) } else { (1, &self.shape[..]) };
        let elements: u64 = shape.iter().product();
        (0..count).map(move |e| CheckpointTensor {
            name: if split { self.name.replace("{e}", &e.to_string()) } else { self.name.clone() },
            shape: shape.to_vec(),
            dtype: self.dtype,
            offset: e * elements,
        })
    }
}

//! Element types of tensors.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The type of one element of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DType {
    F32,
    Bf16,
    F16,
    I32,
}

impl DType {
    /// Bytes of one element.
    pub fn size(self) -> u64 {
        match self {
            DType::F32 | DType::I32 => 4,
            DType::Bf16 | DType::F16 => 2,
        }
    }

    /// Whether it is a floating-point type of 16 bits.
    pub fn is_half(self) -> bool {
        matches!(self, DType::Bf16 | DType::F16)
    }

    /// The word used in recipes, plans and messages.
    pub fn word(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::Bf16 => "bf16",
            DType::F16 => "f16",
            DType::I32 => "i32",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

//! Llama 2 and 3, and what has taken over their layout.

use super::common::{ATTENTION_BIAS, HEADS, MLP, NORM_6, ROPE, TRUNK, UNTIED};
use crate::import::family::{Does, Family, Key};

pub const LLAMA: Family = Family {
    model_type: "llama",
    always: &[],
    keys: &[
        TRUNK,
        UNTIED,
        NORM_6,
        HEADS,
        ROPE,
        MLP,
        ATTENTION_BIAS,
        &[Key("mlp_bias", Does::Flag("mlp.bias", false))],
    ],
    windows: None,
    sparse: None,
};

//! Mistral, and Mixtral with its experts.

use super::common::{BLOCK_SPARSE, EXPERT_ACT, HEADS, MLP, NORM_5, NORM_6, TRUNK, UNTIED, window};
use crate::import::family::{Does, Family, Key};
use crate::import::rope::{self, Defaults};

const WINDOW: &[Key] = &[Key("sliding_window", Does::Read(window))];

pub const MISTRAL: Family = Family {
    model_type: "mistral",
    always: &[],
    keys: &[TRUNK, UNTIED, NORM_6, HEADS, super::common::ROPE, MLP, WINDOW],
    windows: None,
    sparse: None,
};

pub const MIXTRAL: Family = Family {
    model_type: "mixtral",
    always: &[BLOCK_SPARSE],
    keys: &[
        TRUNK,
        UNTIED,
        NORM_5,
        HEADS,
        EXPERT_ACT,
        WINDOW,
        &[
            Key("rope_theta", Does::Read(|r, _| rope::alike(r, Defaults { theta: 1e6, ..rope::PLAIN }))),
            Key("num_local_experts|num_experts", Does::Count("moe.experts")),
            Key("num_experts_per_tok", Does::Count("moe.top_k")),
            Key("intermediate_size", Does::Count("moe.inner")),
            Key("router_jitter_noise", Does::Only(&["0.0"], "noise in the router")),
        ],
    ],
    windows: None,
    sparse: None,
};

//! Phi 3 and 4: queries, keys and values in one tensor, gate and up projection in another.

use super::common::{ATTENTION_BIAS, HEADS, MLP, NORM_5, ROPE, TRUNK, UNTIED, window};
use crate::import::family::{Does, Family, Key};

pub const PHI3: Family = Family {
    model_type: "phi3",
    always: &[&[
        ("names.attention.q", "\"self_attn.qkv_proj.weight\""),
        ("names.attention.k", "\"self_attn.qkv_proj.weight\""),
        ("names.attention.v", "\"self_attn.qkv_proj.weight\""),
        ("names.mlp.gate", "\"mlp.gate_up_proj.weight\""),
        ("names.mlp.up", "\"mlp.gate_up_proj.weight\""),
    ]],
    keys: &[
        TRUNK,
        UNTIED,
        NORM_5,
        HEADS,
        ROPE,
        MLP,
        ATTENTION_BIAS,
        &[
            Key("sliding_window", Does::Read(window)),
            Key("resid_pdrop", Does::Only(&["0.0"], "dropout")),
            Key("embd_pdrop", Does::Only(&["0.0"], "dropout")),
            Key("original_max_position_embeddings", Does::Beside),
            Key("lm_head_bias", Does::Only(&["false"], "a bias on the head")),
            Key("mlp_bias", Does::Flag("mlp.bias", false)),
            Key("full_attn_mod", Does::Only(&["1"], "layers of other kinds of attention")),
            Key("interpolate_factor", Does::Only(&["1"], "interpolated positions")),
        ],
    ],
    windows: None,
    sparse: None,
};

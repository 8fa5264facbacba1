//! GLM-4.5: half of a head rotates, experts behind some dense layers, a router by sigmoid with a bias for the choice.

use super::common::{HEADS, NORM_5, TRUNK, UNTIED, dense_first, mtp, shared_experts, top_groups};
use crate::import::family::{Does, Family, Key};
use crate::import::rope::{self, Defaults};

pub const GLM4_MOE: Family = Family {
    model_type: "glm4_moe",
    always: &[&[("moe.router.score", "sigmoid"), ("moe.router.bias", "true")]],
    keys: &[
        TRUNK,
        UNTIED,
        NORM_5,
        HEADS,
        &[
            Key("rope_theta", Does::Read(|r, _| rope::alike(r, Defaults { fraction: 0.5, ..rope::PLAIN }))),
            Key("attention_bias", Does::Switch("attention.bias", "qkv", false)),
            Key("use_qk_norm", Does::Switch("attention.qk_norm", "head", false)),
            Key("hidden_act", Does::Word("mlp.act moe.act", &[("silu", "swiglu")])),
            Key("intermediate_size", Does::Count("mlp.inner")),
            Key("moe_intermediate_size", Does::Count("moe.inner")),
            Key("n_routed_experts|num_local_experts", Does::Count("moe.experts")),
            Key("num_experts_per_tok", Does::Count("moe.top_k")),
            Key("n_shared_experts", Does::Read(shared_experts)),
            Key("routed_scaling_factor", Does::NumberOr("moe.router.scale", None)),
            Key("norm_topk_prob", Does::Flag("moe.router.normalize", true)),
            Key("n_group", Does::CountOr("moe.router.groups", None)),
            Key("topk_group", Does::Read(|r, key| top_groups(r, key, 1))),
            Key("first_k_dense_replace", Does::Beside),
            Key("num_nextn_predict_layers|num_mtp_layers", Does::Read(mtp)),
        ],
    ],
    windows: None,
    sparse: Some(dense_first),
};

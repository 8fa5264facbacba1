//! OLMoE: a norm over all heads of queries and of keys at once, weights of experts as they come.

use super::common::{ATTENTION_BIAS, EXPERT_ACT, HEADS, NORM_5, ROPE, TRUNK, UNTIED};
use crate::import::family::{Does, Family, Key};

pub const OLMOE: Family = Family {
    model_type: "olmoe",
    always: &[&[("attention.qk_norm", "width")]],
    keys: &[
        TRUNK,
        UNTIED,
        NORM_5,
        HEADS,
        ROPE,
        EXPERT_ACT,
        ATTENTION_BIAS,
        &[
            Key("clip_qkv", Does::NumberOr("attention.clip", None)),
            Key("num_experts|num_local_experts", Does::Count("moe.experts")),
            Key("num_experts_per_tok", Does::Count("moe.top_k")),
            Key("intermediate_size", Does::Count("moe.inner")),
            Key("norm_topk_prob", Does::Flag("moe.router.normalize", false)),
        ],
    ],
    windows: None,
    sparse: None,
};

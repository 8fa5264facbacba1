//! gpt-oss: sinks, biases everywhere, experts in one tensor with gate and up projection row by row in turn.

use super::common::{HEADS, NORM_5, TRUNK, UNTIED};
use crate::import::family::{Does, Family, Key};
use crate::import::layers;
use crate::import::rope::{self, Defaults};

pub const GPT_OSS: Family = Family {
    model_type: "gpt_oss",
    always: &[&[
        ("attention.sinks", "true"),
        ("moe.bias", "true"),
        ("moe.act", "swiglu_oai"),
        ("moe.router.logit_bias", "true"),
        ("names.moe.router", "\"mlp.router.weight\""),
        ("names.moe.logit_bias", "\"mlp.router.bias\""),
        ("names.moe.gate", "\"mlp.experts.gate_up_proj\""),
        ("names.moe.up", "\"mlp.experts.gate_up_proj\""),
        ("names.moe.down", "\"mlp.experts.down_proj\""),
        ("names.moe.gate_bias", "\"mlp.experts.gate_up_proj_bias\""),
        ("names.moe.up_bias", "\"mlp.experts.gate_up_proj_bias\""),
        ("names.moe.down_bias", "\"mlp.experts.down_proj_bias\""),
        ("names.moe.layout", "transposed"),
        ("names.moe.gate_up", "interleaved"),
    ]],
    keys: &[
        TRUNK,
        UNTIED,
        NORM_5,
        HEADS,
        &[
            Key("rope_theta", Does::Read(|r, _| rope::alike(r, Defaults { theta: 15e4, ..rope::PLAIN }))),
            Key("attention_bias", Does::Switch("attention.bias", "qkvo", true)),
            Key("hidden_act", Does::Only(&["\"silu\""], "another gate")),
            Key("num_local_experts|num_experts", Does::Count("moe.experts")),
            Key("num_experts_per_tok|experts_per_token", Does::Count("moe.top_k")),
            Key("intermediate_size", Does::Count("moe.inner")),
            Key("swiglu_alpha", Does::NumberOr("moe.alpha", None)),
            Key("swiglu_limit", Does::NumberOr("moe.clamp", Some(7.0))),
            Key("sliding_window", Does::CountOr("sliding.window", Some(128))),
            Key("initial_context_length", Does::Beside),
            Key("layer_types", Does::Beside),
        ],
    ],
    windows: Some(|reader, count| layers::types(reader, count, |i| i % 2 == 0)),
    sparse: None,
};

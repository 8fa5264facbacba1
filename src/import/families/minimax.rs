//! MiniMax-M2: a norm over all heads at once, part of a head rotates, experts in every layer.

use super::common::{BLOCK_SPARSE, EXPERT_ACT, HEADS, NORM_6, TRUNK, UNTIED};
use crate::import::family::{Does, Family, Key, Reader};
use crate::import::rope::{self, Defaults};

pub const MINIMAX_M2: Family = Family {
    model_type: "minimax_m2",
    always: &[
        &[
            ("attention.qk_norm", "width"),
            ("moe.router.score", "sigmoid"),
            ("moe.router.bias", "true"),
            ("names.moe.bias", "\"block_sparse_moe.e_score_correction_bias\""),
        ],
        BLOCK_SPARSE,
    ],
    keys: &[
        TRUNK,
        UNTIED,
        NORM_6,
        HEADS,
        EXPERT_ACT,
        &[
            Key("rope_theta", Does::Read(rotation)),
            Key("rotary_dim", Does::Beside),
            Key("num_local_experts|num_experts", Does::Count("moe.experts")),
            Key("num_experts_per_tok", Does::Count("moe.top_k")),
            Key("intermediate_size", Does::Count("moe.inner")),
            Key("scoring_func", Does::Only(&["\"sigmoid\""], "another score")),
            Key("use_routing_bias", Does::Only(&["true"], "a router without its bias")),
            Key("router_jitter_noise", Does::Only(&["0.0"], "noise in the router")),
            Key("use_qk_norm", Does::Only(&["true"], "attention without this norm")),
            Key("qk_norm_type", Does::Only(&["\"per_layer\""], "another norm")),
            Key("attn_type_list", Does::Read(full_attention)),
            Key("shared_intermediate_size", Does::Only(&["0"], "a shared expert")),
            Key("shared_moe_mode", Does::Beside),
            Key("mlp_intermediate_size", Does::Beside),
            Key("attn_window_size", Does::Only(&[], "windows")),
            Key("swa_rope_theta", Does::Only(&["-1.0"], "windows")),
            Key("use_mtp", Does::Beside),
            Key("num_mtp_modules", Does::Beside),
            Key("mtp_transformer_layers", Does::Beside),
            Key("layernorm_full_attention_beta", Does::Only(&["1.0"], "scaled residuals")),
            Key("layernorm_linear_attention_beta", Does::Only(&["1.0"], "scaled residuals")),
            Key("layernorm_mlp_beta", Does::Only(&["1.0"], "scaled residuals")),
            Key("max_model_len", Does::Beside),
            Key("rope_parameters", Does::Beside),
        ],
    ],
    windows: None,
    sparse: None,
};

fn rotation(reader: &mut Reader<'_>, _: &'static str) -> Option<()> {
    let rotary = reader.keys.maybe_count("rotary_dim")?;
    let head_dim = reader.keys.maybe_count("head_dim")?;
    let fraction = match (rotary, head_dim) {
        (Some(rotary), Some(head_dim)) => rotary as f64 / head_dim.max(1) as f64,
        _ => 1.0,
    };
    rope::alike(reader, Defaults { theta: 5e6, fraction })
}

/// A 1 for each layer of full attention; 0 would be linear attention.
fn full_attention(reader: &mut Reader<'_>, key: &'static str) -> Option<()> {
    let Some(found) = reader.keys.get(key) else { return Some(()) };
    let full = reader.keys.numbers(key)?.iter().all(|kind| *kind == 1.0);
    if !full {
        reader.keys.unsupported(key, found, "a recipe has no words for linear attention");
    }
    full.then_some(())
}

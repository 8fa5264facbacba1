//! Qwen 2 and 3: biases on queries, keys and values, then a norm on queries and keys instead; dense and with experts.

use super::common::{
    ATTENTION_BIAS, EXPERT_ACT, HEADS, LATE_WINDOWS, MLP, NORM_6, ROPE, TRUNK, UNTIED, late_windows,
};
use crate::import::family::{Does, Family, Key, Reader};

pub const QWEN2: Family = Family {
    model_type: "qwen2",
    always: &[&[("attention.bias", "qkv")]],
    keys: &[
        TRUNK,
        UNTIED,
        NORM_6,
        HEADS,
        ROPE,
        MLP,
        LATE_WINDOWS,
        &[Key("use_mrope", Does::Only(&["false"], "positions in several dimensions"))],
    ],
    windows: Some(late_windows),
    sparse: None,
};

pub const QWEN3: Family = Family {
    model_type: "qwen3",
    always: &[&[("attention.qk_norm", "head")]],
    keys: &[TRUNK, UNTIED, NORM_6, HEADS, ROPE, MLP, LATE_WINDOWS, ATTENTION_BIAS],
    windows: Some(late_windows),
    sparse: None,
};

const EXPERTS: &[Key] = &[
    Key("num_experts|num_local_experts", Does::Count("moe.experts")),
    Key("num_experts_per_tok", Does::Count("moe.top_k")),
    Key("moe_intermediate_size", Does::Count("moe.inner")),
    Key("norm_topk_prob", Does::Flag("moe.router.normalize", false)),
    Key("decoder_sparse_step", Does::Beside),
    Key("mlp_only_layers", Does::Beside),
    Key("intermediate_size", Does::Beside),
];

pub const QWEN2_MOE: Family = Family {
    model_type: "qwen2_moe",
    always: &[&[
        ("moe.shared_gate", "true"),
        ("names.moe.shared_gate", "\"mlp.shared_expert.gate_proj.weight\""),
        ("names.moe.shared_up", "\"mlp.shared_expert.up_proj.weight\""),
        ("names.moe.shared_down", "\"mlp.shared_expert.down_proj.weight\""),
    ]],
    keys: &[
        TRUNK,
        UNTIED,
        NORM_6,
        HEADS,
        ROPE,
        EXPERT_ACT,
        EXPERTS,
        LATE_WINDOWS,
        &[
            Key("qkv_bias", Does::Switch("attention.bias", "qkv", true)),
            Key("shared_expert_intermediate_size", Does::Count("moe.shared.inner")),
        ],
    ],
    windows: Some(late_windows),
    sparse: Some(sparse),
};

pub const QWEN3_MOE: Family = Family {
    model_type: "qwen3_moe",
    always: &[&[("attention.qk_norm", "head")]],
    keys: &[TRUNK, UNTIED, NORM_6, HEADS, ROPE, EXPERT_ACT, EXPERTS, LATE_WINDOWS, ATTENTION_BIAS],
    windows: Some(late_windows),
    sparse: Some(sparse),
};

/// Experts in every so many layers, but for those that are listed.
fn sparse(reader: &mut Reader<'_>, layers: usize) -> Option<Vec<bool>> {
    let step = reader.keys.maybe_count("decoder_sparse_step")?.unwrap_or(1).max(1);
    let dense = match reader.keys.get("mlp_only_layers") {
        Some(_) => reader.keys.numbers("mlp_only_layers")?,
        None => Vec::new(),
    };
    let has = |i: usize| !dense.contains(&(i as f64)) && (i as u64 + 1).is_multiple_of(step);
    let sparse: Vec<_> = (0..layers).map(has).collect();
    // The width of dense layers is written even where there are none.
    if sparse.contains(&false) {
        let inner = reader.keys.count("intermediate_size")?;
        reader.page.set("mlp.inner", inner.to_string());
    }
    Some(sparse)
}

//! DeepSeek V2 and V3: latents of queries, keys and values; groups of experts.

use super::common::{NO_DROPOUT, NORM_6, TRUNK, UNTIED, dense_first, mtp, shared_experts, top_groups};
use crate::import::family::{Does, Family, Key, Reader};
use crate::import::rope;

const ATTENTION: &[Key] = &[
    Key("num_attention_heads", Does::Count("attention.heads")),
    // Every head has keys and values of its own, made from the latent.
    Key("num_key_value_heads", Does::Beside),
    Key("head_dim", Does::Beside),
    Key("qk_head_dim", Does::Beside),
    Key("qk_nope_head_dim", Does::Beside),
    Key("qk_rope_head_dim", Does::Count("attention.latent.rope")),
    Key("v_head_dim", Does::Count("attention.value_dim")),
    Key("q_lora_rank", Does::CountOr("attention.latent.q_rank", None)),
    Key("kv_lora_rank", Does::Count("attention.latent.kv_rank")),
    Key("rope_theta", Does::Read(latents)),
    Key("rope_interleave", Does::Switch("attention.rope.style", "interleaved", true)),
    Key("attention_bias", Does::Only(&["false"], "biases on latents")),
    NO_DROPOUT,
];

const EXPERTS: &[Key] = &[
    Key("hidden_act", Does::Word("mlp.act moe.act", &[("silu", "swiglu")])),
    Key("intermediate_size", Does::Count("mlp.inner")),
    Key("moe_intermediate_size", Does::Count("moe.inner")),
    Key("n_routed_experts|num_local_experts|num_experts", Does::Count("moe.experts")),
    Key("num_experts_per_tok", Does::Count("moe.top_k")),
    Key("n_shared_experts", Does::Read(shared_experts)),
    Key("first_k_dense_replace", Does::Beside),
    Key("moe_layer_freq", Does::Only(&["1"], "layers without experts in between")),
    Key("num_nextn_predict_layers|num_mtp_layers", Does::Read(mtp)),
];

pub const DEEPSEEK_V2: Family = Family {
    model_type: "deepseek_v2",
    always: &[],
    keys: &[
        TRUNK,
        UNTIED,
        NORM_6,
        ATTENTION,
        EXPERTS,
        &[
            Key("topk_method", Does::Read(groups)),
            Key("n_group", Does::Beside),
            Key("topk_group", Does::Beside),
            Key("scoring_func", Does::Word("moe.router.score", &[("softmax", "softmax")])),
            Key("norm_topk_prob", Does::Flag("moe.router.normalize", false)),
            Key("routed_scaling_factor", Does::NumberOr("moe.router.scale", None)),
            Key("mlp_bias", Does::Flag("mlp.bias", false)),
        ],
    ],
    windows: None,
    sparse: Some(dense_first),
};

pub const DEEPSEEK_V3: Family = Family {
    model_type: "deepseek_v3",
    always: &[&[("moe.router.bias", "true")]],
    keys: &[
        TRUNK,
        UNTIED,
        NORM_6,
        ATTENTION,
        EXPERTS,
        &[
            Key("topk_method", Does::Only(&["\"noaux_tc\""], "groups of experts by another score")),
            Key("n_group", Does::CountOr("moe.router.groups", Some(8))),
            Key("topk_group", Does::Read(|r, key| top_groups(r, key, 4))),
            Key("scoring_func", Does::Word("moe.router.score", &[("sigmoid", "sigmoid")])),
            Key("norm_topk_prob", Does::Flag("moe.router.normalize", true)),
            Key("routed_scaling_factor", Does::NumberOr("moe.router.scale", Some(2.5))),
        ],
    ],
    windows: None,
    sparse: Some(dense_first),
};

/// DeepSeek-V2's groups of experts by their best one, which `greedy` does not look at.
fn groups(reader: &mut Reader<'_>, key: &'static str) -> Option<()> {
    match reader.keys.get(key) {
        Some(found) if found == "group_limited_greedy" => {
            let groups = reader.keys.count("n_group")?;
            reader.page.set("moe.router.groups", groups.to_string());
            top_groups(reader, "topk_group", groups)?;
            if groups > 1 {
                reader.page.set("moe.router.group_score", "best");
            }
        }
        Some(found) if found != "greedy" => {
            let help = "a recipe can express `greedy` and `group_limited_greedy` here";
            reader.keys.unsupported(key, found, help);
            return None;
        }
        _ => {}
    }
    Some(())
}

/// The widths of a head's parts, and their rotation.
fn latents(reader: &mut Reader<'_>, _: &'static str) -> Option<()> {
    let (plain, rotated) = (reader.keys.count("qk_nope_head_dim")?, reader.keys.count("qk_rope_head_dim")?);
    reader.page.set("attention.head_dim", (plain + rotated).to_string());
    rope::alike(reader, rope::PLAIN)?;
    rope::yarn_scale(reader, plain + rotated)
}

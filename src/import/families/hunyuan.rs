//! Hunyuan: norms on queries and keys behind their rotation, a shared expert beside the others in every layer.

use super::common::{ATTENTION_BIAS, HEADS, NORM_5, ROPE, TRUNK, UNTIED};
use crate::import::family::{Does, Family, Key, Reader};
use serde_json::Value;

pub const HUNYUAN_V1_MOE: Family = Family {
    model_type: "hunyuan_v1_moe",
    always: &[&[
        ("attention.qk_norm", "rotated"),
        ("names.attention.q_norm", "\"self_attn.query_layernorm.weight\""),
        ("names.attention.k_norm", "\"self_attn.key_layernorm.weight\""),
        ("names.moe.router", "\"mlp.gate.wg.weight\""),
        ("names.moe.shared_gate", "\"mlp.shared_mlp.gate_proj.weight\""),
        ("names.moe.shared_up", "\"mlp.shared_mlp.up_proj.weight\""),
        ("names.moe.shared_down", "\"mlp.shared_mlp.down_proj.weight\""),
    ]],
    keys: &[
        TRUNK,
        UNTIED,
        NORM_5,
        HEADS,
        ROPE,
        ATTENTION_BIAS,
        &[
            Key("attention_head_dim", Does::Beside),
            Key("hidden_act", Does::Word("moe.act", &[("silu", "swiglu")])),
            Key("intermediate_size", Does::Read(inner)),
            Key("moe_intermediate_size", Does::Read(|r, key| same(r, key, "moe.inner"))),
            Key("num_experts|num_local_experts", Does::Read(|r, key| same(r, key, "moe.experts"))),
            Key("moe_topk|num_experts_per_tok", Does::Read(|r, key| same(r, key, "moe.top_k"))),
            Key("num_shared_expert", Does::Read(|r, key| only(r, key, 1))),
            Key("use_mixed_mlp_moe", Does::Only(&["true"], "experts without a shared one")),
            Key("use_qk_norm", Does::Only(&["true"], "attention without this norm")),
            Key("use_cla", Does::Only(&["false"], "keys and values that layers share")),
            Key("cla_share_factor", Does::Beside),
            Key("use_mla", Does::Only(&["false"], "latents of another layout")),
            Key("mlp_bias", Does::Only(&["false"], "biases of experts here")),
            Key("moe_layer_num_skipped", Does::Only(&["0"], "layers without experts here")),
            Key("moe_drop_tokens", Does::Only(&["false"], "dropped tokens")),
            Key("moe_random_routing_dropped_token", Does::Beside),
            Key("norm_topk_prob", Does::Only(&["true"], "weights as they come here")),
            Key("routed_scaling_factor", Does::Only(&["1.0"], "scaled weights here")),
            Key("group_limited_greedy", Does::Only(&["false"], "groups of experts")),
            Key("n_group", Does::Beside),
            Key("topk_group", Does::Beside),
            Key("add_classification_head", Does::Only(&["false"], "a head that classifies")),
            Key("norm_type", Does::Only(&["\"rms\""], "another norm")),
            Key("mask_init_id", Does::Beside),
            Key("org_vocab_size", Does::Beside),
            Key("class_num", Does::Beside),
            Key("pool_type", Does::Beside),
            Key("position_embedding_xdrope", Does::Only(&["false"], "positions in several dimensions")),
            Key("im_start_id", Does::Beside),
            Key("im_end_id", Does::Beside),
            Key("im_newline_id", Does::Beside),
            Key("text_start_id", Does::Beside),
            Key("text_end_id", Does::Beside),
            Key("image_token_id", Does::Beside),
            Key("num_media_embeds", Does::Only(&["0"], "pictures")),
            Key("vit_path", Does::Only(&["\"\""], "pictures")),
            Key("vit_type", Does::Only(&["\"\""], "pictures")),
            Key("vit_input_resolution", Does::Beside),
            Key("vit_token", Does::Beside),
            Key("vit_patch", Does::Beside),
            Key("vit_mapping_type", Does::Beside),
            Key("vit_norm_type", Does::Beside),
            Key("vit_used_rms_norm", Does::Beside),
            Key("vit_remove_prenorm", Does::Beside),
            Key("vit_add_patchemb_bias", Does::Beside),
            Key("anyres_vit_max_image_size", Does::Beside),
            Key("anyres_vit_two_views", Does::Beside),
            Key("anyres_pooling_size", Does::Beside),
            Key("skip_cls_token", Does::Beside),
            // Of latents, which `use_mla` has switched off.
            Key("kv_lora_rank", Does::Beside),
            Key("q_lora_rank", Does::Beside),
            Key("qk_nope_head_dim", Does::Beside),
            Key("qk_rope_head_dim", Does::Beside),
            Key("v_head_dim", Does::Beside),
        ],
    ],
    windows: None,
    sparse: None,
};

/// The shared expert is as wide as the others.
fn inner(reader: &mut Reader<'_>, key: &'static str) -> Option<()> {
    let inner = reader.keys.count(key)?.to_string();
    reader.page.set("moe.inner", inner.clone());
    reader.page.set("moe.shared.inner", inner);
    Some(())
}

/// A number, or a list with the same number for every layer.
fn number(reader: &mut Reader<'_>, key: &'static str) -> Option<Option<u64>> {
    let Some(found) = reader.keys.get(key) else { return Some(None) };
    let Value::Array(list) = found else { return reader.keys.count(key).map(Some) };
    let first = list.first().and_then(Value::as_u64);
    if first.is_none() || list.iter().any(|other| other.as_u64() != first) {
        reader.keys.unsupported(key, found, "all layers must have the same number here");
        return None;
    }
    Some(first)
}

fn same(reader: &mut Reader<'_>, key: &'static str, path: &str) -> Option<()> {
    if let Some(count) = number(reader, key)? {
        reader.page.set(path, count.to_string());
    }
    Some(())
}

fn only(reader: &mut Reader<'_>, key: &'static str, allowed: u64) -> Option<()> {
    let count = number(reader, key)?;
    if let (Some(found), true) = (reader.keys.get(key), count.is_some_and(|count| count != allowed)) {
        reader.keys.unsupported(key, found, "the shared expert is as wide as one of the others");
        return None;
    }
    Some(())
}

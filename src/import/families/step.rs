//! Step-3.5: windows in most layers, experts with a shared one, limits of the activation in the last layers.

use super::common::{NORM_5, TRUNK, UNTIED};
use crate::import::family::{Does, Family, Key, Reader};
use crate::import::keys::Keys;
use crate::import::layers::{self, runs};
use crate::import::page::number;
use crate::import::rope;
use serde_json::Value;

pub const STEP3P5: Family = Family {
    model_type: "step3p5",
    always: &[&[
        ("names.moe.router", "\"moe.gate.weight\""),
        ("names.moe.bias", "\"moe.router_bias\""),
        ("names.moe.gate", "\"moe.gate_proj.weight\""),
        ("names.moe.up", "\"moe.up_proj.weight\""),
        ("names.moe.down", "\"moe.down_proj.weight\""),
        ("names.moe.layout", "stacked"),
        ("names.moe.shared_gate", "\"share_expert.gate_proj.weight\""),
        ("names.moe.shared_up", "\"share_expert.up_proj.weight\""),
        ("names.moe.shared_down", "\"share_expert.down_proj.weight\""),
        ("names.mtp.norm", "\"transformer.shared_head.norm.weight\""),
        ("names.mtp.head", "\"transformer.shared_head.output.weight\""),
    ]],
    keys: &[
        TRUNK,
        UNTIED,
        NORM_5,
        &[
            Key("zero_centered", Does::Switch("norm.offset", "1", false)),
            Key("num_attention_heads", Does::Count("attention.heads")),
            Key("num_attention_groups", Does::Count("attention.kv_heads")),
            Key("head_dim", Does::Count("attention.head_dim")),
            Key("use_qk_norm", Does::Switch("attention.qk_norm", "head", false)),
            Key("use_head_wise_attn_gate", Does::Switch("attention.gate", "per_head", false)),
            Key("sliding_window", Does::Beside),
            Key("attention_other_setting", Does::Read(other_attention)),
            Key("layer_types", Does::Beside),
            Key("rope_theta", Does::Read(rotations)),
            Key("partial_rotary_factors", Does::Beside),
            Key("yarn_only_types", Does::Beside),
            Key("sink", Does::Only(&["false"], "sinks here")),
            Key("att_impl_type", Does::Only(&["\"GQA\""], "another attention")),
            Key("use_rope_layers", Does::Only(&["[]"], "layers without rotation")),
            Key("intermediate_size", Does::Count("mlp.inner")),
            Key("moe_num_experts", Does::Count("moe.experts")),
            Key("moe_top_k", Does::Count("moe.top_k")),
            Key("moe_intermediate_size", Does::Count("moe.inner")),
            Key("share_expert_dim", Does::CountOr("moe.shared.inner", None)),
            Key("norm_expert_weight", Does::Flag("moe.router.normalize", true)),
            Key("use_moe_router_bias", Does::Flag("moe.router.bias", false)),
            Key("moe_router_scaling_factor", Does::NumberOr("moe.router.scale", None)),
            Key(
                "moe_router_activation",
                Does::Word("moe.router.score", &[("softmax", "softmax"), ("sigmoid", "sigmoid")]),
            ),
            Key("moe_layers_enum", Does::Beside),
            Key("swiglu_limits", Does::Beside),
            Key("swiglu_limits_shared", Does::Beside),
            Key("use_moe", Does::Only(&["true"], "a dense model here")),
            Key("moe_every_n_layer", Does::Only(&["1"], "layers without experts in between")),
            Key("moe_layer_offset", Does::Only(&["0"], "layers without experts in between")),
            Key("need_fp32_gate", Does::Only(&["true"], "a router in less than f32")),
            Key("num_nextn_predict_layers", Does::Read(mtp)),
        ],
    ],
    windows: Some(windows),
    sparse: Some(sparse),
};

fn heads(keys: &mut Keys<'_>, mut set: impl FnMut(&str, u64)) -> Option<()> {
    let found =
        [("heads", "num_attention_heads"), ("kv_heads", "num_attention_groups"), ("head_dim", "head_dim")]
            .map(|(own, key)| keys.count(key).map(|count| set(own, count)));
    found.into_iter().collect()
}

/// The attention of layers with a window, where it differs.
fn other_attention(reader: &mut Reader<'_>, key: &'static str) -> Option<()> {
    let Some(mut other) = reader.keys.inside(key) else { return Some(()) };
    other.only("attention_type", &["\"sliding_attention\""], "another kind");
    let page = &mut reader.page;
    let read = heads(&mut other, |own, count| {
        if page.get(&format!("attention.{own}")) != Some(&count.to_string()) {
            page.set(&format!("sliding.{own}"), count.to_string());
        }
    });
    other.get("true_head_dim");
    reader.keys.close(other);
    read
}

/// Base and share of the rotation are those of the first layer of each kind; stretched are the kinds that are listed.
fn rotations(reader: &mut Reader<'_>, _: &'static str) -> Option<()> {
    let layers = usize::try_from(reader.keys.count("num_hidden_layers")?).ok()?;
    let thetas = reader.keys.each_layer("rope_theta", layers, 1e4)?;
    let fractions = reader.keys.each_layer("partial_rotary_factors", layers, 1.0)?;
    let windows = layers::types(reader, layers, |_| false)?;
    let of = |values: &[f64], window: bool| {
        windows.iter().position(|kind| *kind == window).and_then(|first| values.get(first).copied())
    };
    for (key, values) in [("rope_theta", &thetas), ("partial_rotary_factors", &fractions)] {
        let same = windows.iter().zip(values).all(|(window, value)| of(values, *window) == Some(*value));
        if let (false, Some(found)) = (same, reader.keys.get(key)) {
            reader.keys.unsupported(
                key,
                found,
                "all layers of one kind of attention must have the same value",
            );
            return None;
        }
    }
    let listed = reader.keys.get("yarn_only_types").and_then(Value::as_array);
    let stretched =
        |kind: &str| listed.is_none_or(|kinds| kinds.iter().any(|known| known.as_str() == Some(kind)));
    let (full, sliding) = (stretched("full_attention"), stretched("sliding_attention"));
    let scaling = rope::scaling(reader)?;
    let base = |values: &[f64]| of(values, false).or(of(values, true));
    reader.page.set("attention.rope.theta", number(base(&thetas)?));
    reader.page.set("attention.rope.fraction", number(base(&fractions)?));
    if let Some(text) = scaling.clone().filter(|_| full) {
        reader.page.set("attention.rope.scaling", text);
    }
    for (field, values) in [("theta", &thetas), ("fraction", &fractions)] {
        if let Some(value) = of(values, true).filter(|value| base(values) != Some(*value)) {
            reader.page.set(&format!("sliding.rope.{field}"), number(value));
        }
    }
    if let Some(text) = scaling.filter(|_| full != sliding) {
        reader.page.set("sliding.rope.scaling", if sliding { text } else { "none".to_owned() });
    }
    Some(())
}

fn windows(reader: &mut Reader<'_>, count: usize) -> Option<Vec<bool>> {
    let windows = layers::types(reader, count, |_| false)?;
    if windows.contains(&true) {
        let window = reader.keys.count("sliding_window")?;
        reader.page.set("sliding.window", window.to_string());
    }
    Some(windows)
}

/// Layers with experts, and the limits of their activations.
fn sparse(reader: &mut Reader<'_>, count: usize) -> Option<Vec<bool>> {
    let sparse = match reader.keys.get("moe_layers_enum") {
        None => vec![true; count],
        Some(found) => {
            let listed =
                found.as_str().unwrap_or_default().split(',').map(|number| number.trim().parse::<usize>());
            let Ok(listed) = listed.collect::<Result<Vec<_>, _>>() else {
                reader.keys.unsupported(
                    "moe_layers_enum",
                    found,
                    "numbers of layers, with commas between them",
                );
                return None;
            };
            (0..count).map(|i| listed.contains(&i)).collect()
        }
    };
    let first = sparse.iter().position(|sparse| *sparse).unwrap_or(count);
    for (key, before, after) in [
        ("swiglu_limits", "sparse { clamp = ", " }"),
        ("swiglu_limits_shared", "sparse { shared { clamp = ", " } }"),
    ] {
        for (start, end, limit) in runs(&reader.keys.each_layer(key, count, 0.0)?, first) {
            let when =
                if end == count { format!("i >= {start}") } else { format!("i >= {start} && i < {end}") };
            reader.page.layer.push(format!("if {when} {{ {before}{}{after} }}", number(limit)));
        }
    }
    Some(sparse)
}

fn mtp(reader: &mut Reader<'_>, key: &'static str) -> Option<()> {
    let layers = reader.keys.maybe_count(key)?.unwrap_or(0);
    if layers > 0 {
        let kind = if reader.page.has("sliding") { "sliding" } else { "full" };
        let layers = layers.to_string();
        for (field, value) in
            [("layers", layers.as_str()), ("attention", kind), ("ffn", "dense"), ("input", "state")]
        {
            reader.page.set(&format!("mtp.{field}"), value);
        }
    }
    Some(())
}

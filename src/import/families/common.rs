//! Keys that many families share.

use crate::import::family::{Does, Key, Reader};
use crate::import::rope;

/// What Mixtral calls its experts.
pub const BLOCK_SPARSE: &[(&str, &str)] = &[
    ("names.moe.router", "\"block_sparse_moe.gate.weight\""),
    ("names.moe.gate", "\"block_sparse_moe.experts.{e}.w1.weight\""),
    ("names.moe.up", "\"block_sparse_moe.experts.{e}.w3.weight\""),
    ("names.moe.down", "\"block_sparse_moe.experts.{e}.w2.weight\""),
];

/// Sizes of the trunk.
pub const TRUNK: &[Key] = &[
    Key("vocab_size", Does::Count("vocab")),
    Key("hidden_size", Does::Count("hidden")),
    Key("num_hidden_layers", Does::Count("layers")),
    Key("initializer_range", Does::NumberOr("init_std", None)),
    Key("quantization_config", Does::Read(quantization)),
];

/// The head has a weight of its own unless the configuration says otherwise.
pub const UNTIED: &[Key] = &[Key("tie_word_embeddings", Does::Flag("tie_embeddings", false))];

/// The head uses the embedding unless the configuration says otherwise.
pub const TIED: &[Key] = &[Key("tie_word_embeddings", Does::Flag("tie_embeddings", true))];

/// The root mean square norm, with the value that Python code takes where the file is silent.
pub const NORM_5: &[Key] = &[Key("rms_norm_eps", Does::NumberOr("norm.eps", Some(1e-5)))];
pub const NORM_6: &[Key] = &[Key("rms_norm_eps", Does::NumberOr("norm.eps", Some(1e-6)))];

/// Grouped queries; the width of a head is that of the model divided by its heads where the file is silent.
pub const HEADS: &[Key] = &[
    Key("num_attention_heads", Does::Count("attention.heads")),
    Key("num_key_value_heads", Does::CountOr("attention.kv_heads", None)),
    Key("head_dim", Does::Read(head_dim)),
    NO_DROPOUT,
];

/// Attention without dropout.
pub const NO_DROPOUT: Key = Key("attention_dropout", Does::Only(&["0.0"], "dropout"));

/// All four projections may have biases.
pub const ATTENTION_BIAS: &[Key] = &[Key("attention_bias", Does::Switch("attention.bias", "qkvo", false))];

/// One rotation for all layers, base 10⁴.
pub const ROPE: &[Key] = &[Key("rope_theta", Does::Read(|r, _| rope::alike(r, rope::PLAIN)))];

/// A dense layer with a gate through silu.
pub const MLP: &[Key] = &[
    Key("intermediate_size", Does::Count("mlp.inner")),
    Key("hidden_act", Does::Word("mlp.act", &[("silu", "swiglu")])),
];

/// Experts with a gate through silu.
pub const EXPERT_ACT: &[Key] = &[Key("hidden_act", Does::Word("moe.act", &[("silu", "swiglu")]))];

/// Layers from `max_window_layers` on have a window, if at all.
pub const LATE_WINDOWS: &[Key] = &[
    Key("use_sliding_window", Does::Beside),
    Key("sliding_window", Does::Beside),
    Key("max_window_layers", Does::Beside),
    Key("layer_types", Does::Beside),
];

/// The pattern of [`LATE_WINDOWS`].
pub fn late_windows(reader: &mut Reader<'_>, layers: usize) -> Option<Vec<bool>> {
    let window = reader.keys.maybe_count("sliding_window")?;
    let used = reader.keys.flag_or("use_sliding_window", false)?;
    let first = reader.keys.maybe_count("max_window_layers")?.unwrap_or(28) as usize;
    let Some(window) = window.filter(|_| used) else { return Some(vec![false; layers]) };
    reader.page.set("sliding.window", window.to_string());
    crate::import::layers::types(reader, layers, |i| i >= first)
}

/// A window that all layers have.
pub fn window(reader: &mut Reader<'_>, key: &'static str) -> Option<()> {
    if let Some(window) = reader.keys.maybe_count(key)? {
        reader.page.set("attention.window", window.to_string());
    }
    Some(())
}

/// `first_k_dense_replace` layers without experts.
pub fn dense_first(reader: &mut Reader<'_>, layers: usize) -> Option<Vec<bool>> {
    let first = reader.keys.maybe_count("first_k_dense_replace")?.unwrap_or(0) as usize;
    Some((0..layers).map(|i| i >= first).collect())
}

/// So many shared experts, as one of their width together.
pub fn shared_experts(reader: &mut Reader<'_>, key: &'static str) -> Option<()> {
    let shared = reader.keys.maybe_count(key)?.unwrap_or(0);
    let inner = reader.keys.count("moe_intermediate_size")?;
    if shared > 0 {
        reader.page.set("moe.shared.inner", (shared * inner).to_string());
    }
    Some(())
}

/// The groups of experts that a token keeps to, where there are several.
pub fn top_groups(reader: &mut Reader<'_>, key: &'static str, otherwise: u64) -> Option<()> {
    let top = reader.keys.maybe_count(key)?.unwrap_or(otherwise);
    if reader.page.get("moe.router.groups").is_some_and(|groups| groups != "1") {
        reader.page.set("moe.router.top_groups", top.to_string());
    }
    Some(())
}

/// Layers of multi-token prediction behind the others, like the last of them, with the model's head.
pub fn mtp(reader: &mut Reader<'_>, key: &'static str) -> Option<()> {
    let layers = reader.keys.maybe_count(key)?.unwrap_or(0);
    if layers > 0 {
        reader.page.set("mtp.layers", layers.to_string());
        reader.page.set("mtp.attention", "full");
        reader.page.set("mtp.ffn", "sparse");
        reader.page.set("mtp.head", "shared");
    }
    Some(())
}

pub fn head_dim(reader: &mut Reader<'_>, key: &'static str) -> Option<()> {
    let (hidden, heads) = (reader.keys.count("hidden_size")?, reader.keys.count("num_attention_heads")?);
    let head_dim = reader.keys.maybe_count(key)?.unwrap_or(hidden / heads.max(1));
    reader.page.set("attention.head_dim", head_dim.to_string());
    Some(())
}

/// How tensors lie in the file is for their reader; what it cannot read is refused.
fn quantization(reader: &mut Reader<'_>, key: &'static str) -> Option<()> {
    let Some(found) = reader.keys.get(key) else { return Some(()) };
    let method = found.get("quant_method").and_then(|method| method.as_str());
    if !matches!(method, Some("fp8" | "mxfp4")) {
        let help = "weights are read in f32, f16, bf16, block-scaled fp8 and MXFP4: save them in one of these, for instance with \
                    `dequantize()` of transformers, which leaves this key out";
        reader.keys.unsupported(key, found, help);
        return None;
    }
    Some(())
}

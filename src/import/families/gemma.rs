//! Gemma: a scaled embedding and zero-centred norms; 2 adds norms behind both halves of a layer, windows and caps, 3 a norm on
//! queries and keys instead of the caps.

use super::common::{ATTENTION_BIAS, HEADS, NORM_6, ROPE, TIED, TRUNK};
use crate::import::family::{Does, Family, Key, Reader};
use crate::import::{layers, rope};

/// The names of activations: older files say `gelu` and mean its approximation.
const ACTS: &[(&str, &str)] = &[("gelu_pytorch_tanh", "geglu"), ("gelu", "geglu"), ("gelu_new", "geglu")];

const CAUSAL: Key = Key("use_bidirectional_attention", Does::Only(&["false"], "attention to later tokens"));

pub const GEMMA: Family = Family {
    model_type: "gemma",
    always: &[&[("embed_scale", "sqrt(hidden)"), ("norm.offset", "1"), ("mlp.act", "geglu")]],
    keys: &[
        TRUNK,
        TIED,
        NORM_6,
        HEADS,
        ROPE,
        ATTENTION_BIAS,
        &[
            Key("intermediate_size", Does::Count("mlp.inner")),
            Key("hidden_act", Does::Word("mlp.act", ACTS)),
            Key("hidden_activation", Does::Word("mlp.act", ACTS)),
            CAUSAL,
        ],
    ],
    windows: None,
    sparse: None,
};

const BEHIND: &[(&str, &str)] = &[
    ("embed_scale", "sqrt(hidden)"),
    ("norm.offset", "1"),
    ("norm.behind", "true"),
    ("names.attention.norm_behind", "\"post_attention_layernorm.weight\""),
    ("names.mlp.norm", "\"pre_feedforward_layernorm.weight\""),
    ("names.mlp.norm_behind", "\"post_feedforward_layernorm.weight\""),
];

const SECOND: &[Key] = &[
    Key("intermediate_size", Does::Count("mlp.inner")),
    Key("hidden_activation", Does::Word("mlp.act", ACTS)),
    // Of the first generation; `hidden_activation` holds.
    Key("hidden_act", Does::Beside),
    Key("query_pre_attn_scalar", Does::Read(scale)),
    Key("sliding_window|sliding_window_size", Does::CountOr("sliding.window", Some(4096))),
    Key("layer_types", Does::Beside),
    CAUSAL,
];

pub const GEMMA2: Family = Family {
    model_type: "gemma2",
    always: &[BEHIND],
    keys: &[
        TRUNK,
        TIED,
        NORM_6,
        HEADS,
        ROPE,
        ATTENTION_BIAS,
        SECOND,
        &[
            Key("attn_logit_softcapping", Does::NumberOr("attention.softcap", None)),
            Key("final_logit_softcapping", Does::NumberOr("logit_softcap", None)),
        ],
    ],
    windows: Some(|reader, count| layers::types(reader, count, |i| i % 2 == 0)),
    sparse: None,
};

pub const GEMMA3_TEXT: Family = Family {
    model_type: "gemma3_text",
    always: &[BEHIND, &[("attention.qk_norm", "head")]],
    keys: &[
        TRUNK,
        TIED,
        NORM_6,
        HEADS,
        ATTENTION_BIAS,
        SECOND,
        &[
            Key("rope_theta", Does::Read(|r, _| rope::by_kind(r, 1e6, "rope_local_base_freq", 1e4))),
            Key("attn_logit_softcapping", Does::NumberOr("attention.softcap", None)),
            Key("final_logit_softcapping", Does::NumberOr("logit_softcap", None)),
            Key("sliding_window_pattern|_sliding_window_pattern", Does::Beside),
        ],
    ],
    windows: Some(|reader, count| {
        let key = reader.keys.spelling("sliding_window_pattern|_sliding_window_pattern")?;
        let period = reader.keys.maybe_count(key)?.unwrap_or(6).max(1);
        layers::types(reader, count, |i| !(i as u64 + 1).is_multiple_of(period))
    }),
    sparse: None,
};

/// Scores are divided by the root of this instead of that of a head's width.
fn scale(reader: &mut Reader<'_>, key: &'static str) -> Option<()> {
    let scalar = reader.keys.maybe_number(key)?.unwrap_or(256.0);
    let head_dim = reader.keys.maybe_count("head_dim")?.unwrap_or(256);
    if scalar != head_dim as f64 {
        reader.page.set("attention.scale", format!("1 / sqrt({scalar})"));
    }
    Some(())
}

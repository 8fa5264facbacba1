//! ERNIE 4.5: neighbouring channels rotate together, a router by softmax with a bias for the choice.

use super::common::{HEADS, NORM_5, TIED, TRUNK, shared_experts};
use crate::import::family::{Does, Family, Key, Reader};
use crate::import::rope::{self, Defaults};

pub const ERNIE4_5_MOE: Family = Family {
    model_type: "ernie4_5_moe",
    always: &[&[
        ("attention.rope.style", "interleaved"),
        ("moe.router.bias", "true"),
        ("names.moe.bias", "\"mlp.moe_statics.e_score_correction_bias\""),
        // Their layout is that of no other layer, and transformers leaves them out too.
        (
            "names.ignore.mtp",
            "{ tensors = \"model.mtp_*\", reason = \"multi-token prediction, which is not trained\" }",
        ),
    ]],
    keys: &[
        TRUNK,
        TIED,
        NORM_5,
        HEADS,
        &[
            Key("rope_theta", Does::Read(|r, _| rope::alike(r, Defaults { theta: 5e5, ..rope::PLAIN }))),
            Key("use_bias", Does::Read(biases)),
            Key("hidden_act", Does::Word("mlp.act moe.act", &[("silu", "swiglu")])),
            Key("intermediate_size", Does::Count("mlp.inner")),
            Key("moe_intermediate_size", Does::Count("moe.inner")),
            Key("moe_num_experts|num_experts", Does::Count("moe.experts")),
            Key("moe_k|num_experts_per_tok", Does::Count("moe.top_k")),
            Key("moe_num_shared_experts", Does::Read(shared_experts)),
            // Keeps a division from zero; ours is smaller still.
            Key("moe_norm_min", Does::Only(&["1e-12"], "another least sum of weights")),
            Key("moe_layer_start_index", Does::Beside),
            Key("moe_layer_end_index", Does::Beside),
            Key("moe_layer_interval", Does::Beside),
            Key("moe_capacity", Does::Beside),
            Key("moe_gate", Does::Only(&["\"topk\""], "another router")),
            Key("moe_gate_act", Does::Only(&["\"softmax\""], "another score")),
            Key("num_nextn_predict_layers", Does::Beside),
            Key("moe_use_aux_free", Does::Only(&["true"], "a router without its bias")),
        ],
    ],
    windows: None,
    sparse: Some(sparse),
};

fn biases(reader: &mut Reader<'_>, key: &'static str) -> Option<()> {
    if reader.keys.flag_or(key, false)? {
        reader.page.set("attention.bias", "qkvo");
        for path in ["mlp.bias", "moe.bias", "moe.shared.bias"] {
            reader.page.set(path, "true");
        }
    }
    Some(())
}

/// Every so many layers from the first index to the last one; -1 is the last layer.
fn sparse(reader: &mut Reader<'_>, layers: usize) -> Option<Vec<bool>> {
    let first = reader.keys.maybe_number("moe_layer_start_index")?.unwrap_or(1.0);
    let last = reader.keys.maybe_number("moe_layer_end_index")?.filter(|last| *last >= 0.0);
    let step = reader.keys.maybe_count("moe_layer_interval")?.unwrap_or(1).max(1);
    let inside = |i: usize| i as f64 >= first && last.is_none_or(|last| i as f64 <= last);
    Some((0..layers).map(|i| inside(i) && (i as u64 + 1).is_multiple_of(step)).collect())
}

//! The families of models that the library can express, as their `config.json` describes them.

use super::keys::Keys;
use serde_json::{Value, json};

/// What a configuration changes in the model of the library, as lines of a recipe.
pub struct Sizes {
    pub lines: Vec<String>,
}

/// Llama 2 and 3, and what has taken over their layout.
pub fn llama(keys: &mut Keys<'_>) -> Option<Sizes> {
    let mut lines = vec![trunk(keys)];
    lines.push(format!("norm rms {{ eps = {} }}", number(keys.number_or("rms_norm_eps", 1e-6)?)));
    lines.extend(full_attention(keys)?);
    lines.push(format!("mlp dense {{ inner = {} }}", keys.count("intermediate_size")?));
    keys.only("mlp_bias", &json!(false));
    Some(Sizes { lines })
}

/// Qwen3-MoE: experts in every layer.
pub fn qwen3_moe(keys: &mut Keys<'_>) -> Option<Sizes> {
    let mut lines = vec![trunk(keys)];
    lines.push(format!("norm rms {{ eps = {} }}", number(keys.number_or("rms_norm_eps", 1e-6)?)));
    lines.extend(full_attention(keys)?);
    let (experts, top_k) = (keys.count("num_experts"), keys.count("num_experts_per_tok"));
    let (inner, normalize) = (keys.count("moe_intermediate_size"), keys.flag_or("norm_topk_prob", false));
    lines.push("moe sparse {".to_owned());
    lines.push(format!("  experts = {}, top_k = {}, inner = {}", experts?, top_k?, inner?));
    lines.push(format!("  router {{ normalize = {} }}", normalize?));
    lines.push("}".to_owned());
    keys.only("decoder_sparse_step", &json!(1));
    keys.only("mlp_only_layers", &json!([]));
    keys.only("use_sliding_window", &json!(false));
    // These say something only together with one of the four above, or with a loss that is switched off.
    for idle in ["intermediate_size", "sliding_window", "max_window_layers", "router_aux_loss_coef"] {
        keys.get(idle);
    }
    keys.only("output_router_logits", &json!(false));
    Some(Sizes { lines })
}

/// Step-3.5: windows in most layers, experts with a shared one, limits of the activation in the last layers.
pub fn step3p5(keys: &mut Keys<'_>) -> Option<Sizes> {
    let mut lines = vec![trunk(keys)];
    let layers = usize::try_from(keys.count("num_hidden_layers")?).ok()?;
    let offset = u8::from(keys.flag_or("zero_centered", false)?);
    lines.push(format!(
        "norm rms {{ eps = {}, offset = {offset} }}",
        number(keys.number_or("rms_norm_eps", 1e-5)?)
    ));
    let period = attention_period(keys, layers);
    lines.extend(step_attention(keys, layers, period?)?);
    lines.push(format!("mlp dense {{ inner = {} }}", keys.count("intermediate_size")?));
    lines.extend(step_experts(keys)?);
    lines.extend(step_layers(keys, layers, period?)?);
    let mtp = keys.count_or("num_nextn_predict_layers", 0)?;
    lines.push(format!("mtp {{ layers = {mtp} }}"));
    for (key, value) in [
        ("sink", json!(false)),
        ("att_impl_type", json!("GQA")),
        ("use_moe", json!(true)),
        ("moe_every_n_layer", json!(1)),
        ("moe_layer_offset", json!(0)),
        ("need_fp32_gate", json!(true)),
        ("use_rope_layers", json!([])),
    ] {
        keys.only(key, &value);
    }
    Some(Sizes { lines })
}

/// Sizes that every family has, under the same keys.
fn trunk(keys: &mut Keys<'_>) -> String {
    let names = [("vocab", "vocab_size"), ("hidden", "hidden_size"), ("layers", "num_hidden_layers")];
    let sizes: Vec<_> =
        names.iter().filter_map(|(own, key)| Some(format!("{own} = {}", keys.count(key)?))).collect();
    let mut line = sizes.join(", ");
    if keys.flag_or("tie_word_embeddings", false) == Some(true) {
        line += ", tie_embeddings = true";
    }
    if let Some(std) = keys.number_or("initializer_range", 0.02).filter(|std| *std != 0.02) {
        line += &format!(", init_std = {}", number(std));
    }
    line
}

/// Attention of the families that have one kind of it.
fn full_attention(keys: &mut Keys<'_>) -> Option<Vec<String>> {
    for (key, value) in [
        ("attention_bias", json!(false)),
        ("attention_dropout", json!(0.0)),
        ("hidden_act", json!("silu")),
        ("pretraining_tp", json!(1)),
    ] {
        keys.only(key, &value);
    }
    let (hidden, heads) = (keys.count("hidden_size")?, keys.count("num_attention_heads")?);
    let kv_heads = keys.count_or("num_key_value_heads", heads)?;
    let head_dim = keys.count_or("head_dim", hidden / heads.max(1))?;
    // Newer files keep what concerns rotary positions in one object.
    let (theta, scaling) = match keys.inside("rope_parameters") {
        Some(mut rope) => {
            let found = (rope.number("rope_theta")?, scaling(&mut rope));
            keys.close(rope);
            found
        }
        None => {
            let theta = keys.number_or("rope_theta", 1e4)?;
            match keys.inside("rope_scaling") {
                Some(mut rope) => {
                    let found = (theta, scaling(&mut rope));
                    keys.close(rope);
                    found
                }
                None => (theta, None),
            }
        }
    };
    Some(attention(
        "full",
        &format!("heads = {heads}, kv_heads = {kv_heads}, head_dim = {head_dim}"),
        theta,
        1.0,
        scaling,
    ))
}

fn attention(name: &str, sizes: &str, theta: f64, fraction: f64, scaling: Option<String>) -> Vec<String> {
    let rope = format!("theta = {}, fraction = {}", number(theta), number(fraction));
    let mut lines = vec![format!("attention {name} {{"), format!("  {sizes}")];
    match scaling {
        Some(scaling) if scaling.contains('{') => {
            lines.push("  rope {".to_owned());
            lines.extend([format!("    {rope}"), format!("    {scaling}"), "  }".to_owned()]);
        }
        Some(scaling) => lines.push(format!("  rope {{ {rope}, {scaling} }}")),
        None => lines.push(format!("  rope {{ {rope} }}")),
    }
    lines.push("}".to_owned());
    lines
}

/// `scaling …` of a recipe, from the object that describes it; nothing for the plain kind.
fn scaling(rope: &mut Keys<'_>) -> Option<String> {
    let kind = rope.get("rope_type").or_else(|| rope.get("type"));
    match kind.map(|kind| (kind, kind.as_str())) {
        None | Some((_, Some("default"))) => None,
        Some((_, Some("llama3"))) => {
            let (factor, original) = (rope.number("factor"), rope.count("original_max_position_embeddings"));
            let (low, high) = (rope.number("low_freq_factor"), rope.number("high_freq_factor"));
            Some(format!(
                "scaling llama3 {{ factor = {}, original = {}, low = {}, high = {} }}",
                number(factor?),
                length(original?),
                number(low?),
                number(high?)
            ))
        }
        Some((kind, _)) => {
            rope.unsupported("rope_type", kind, "a recipe can express `default` and `llama3`");
            None
        }
    }
}

/// Every how many layers one sees the whole context, the first one among them.
fn attention_period(keys: &mut Keys<'_>, layers: usize) -> Option<usize> {
    let Some(found) = keys.get("layer_types") else { return Some(1) };
    let full = |index: usize| found.get(index).and_then(Value::as_str) == Some("full_attention");
    let sliding = |index: usize| found.get(index).and_then(Value::as_str) == Some("sliding_attention");
    let fits =
        |period: &usize| (0..layers).all(|i| if i.is_multiple_of(*period) { full(i) } else { sliding(i) });
    let period = (1..=layers.max(1)).find(fits);
    if period.is_none() {
        keys.unsupported(
            "layer_types",
            found,
            "full attention must come back after the same number of layers",
        );
    }
    period
}

fn step_attention(keys: &mut Keys<'_>, layers: usize, period: usize) -> Option<Vec<String>> {
    let thetas = keys.each_layer("rope_theta", layers, 1e4)?;
    let fractions = keys.each_layer("partial_rotary_factors", layers, 1.0)?;
    for (key, values) in [("rope_theta", &thetas), ("partial_rotary_factors", &fractions)] {
        let same = |(i, value): (usize, &f64)| *value == values[usize::from(!i.is_multiple_of(period))];
        if let (false, Some(found)) = (values.iter().enumerate().all(same), keys.get(key)) {
            keys.unsupported(key, found, "all layers of one kind of attention must have the same value");
        }
    }
    let scaled = match keys.inside("rope_scaling") {
        Some(mut rope) => {
            let found = scaling(&mut rope);
            keys.close(rope);
            found
        }
        None => None,
    };
    let kinds = keys.get("yarn_only_types");
    let scales = |kind: &str| match kinds.and_then(Value::as_array) {
        Some(kinds) => kinds.iter().any(|known| known.as_str() == Some(kind)),
        None => true,
    };
    let plain = || Some("scaling none".to_owned());
    let of = |kind: &str| if scales(kind) { scaled.clone().or_else(plain) } else { plain() };
    let qk_norm = if keys.flag_or("use_qk_norm", false)? { "head" } else { "none" };
    let gate = if keys.flag_or("use_head_wise_attn_gate", false)? { "per_head" } else { "none" };
    let mut sizes = heads(keys)?;
    sizes += &format!(", qk_norm = {qk_norm}, gate = {gate}");
    let mut lines = attention("full", &sizes, *thetas.first()?, *fractions.first()?, of("full_attention"));
    let window = keys.get("sliding_window").and_then(Value::as_u64);
    if let Some(mut other) = keys.inside("attention_other_setting") {
        other.only("attention_type", &json!("sliding_attention"));
        let sizes = heads(&mut other);
        if let Some(dim) = other.get("head_dim") {
            other.only("true_head_dim", dim);
        }
        keys.close(other);
        if let (Some(sizes), Some(window), Some(theta)) =
            (sizes, window, thetas.get(1).filter(|_| period > 1))
        {
            let sizes = format!("{sizes}, window = {window}");
            let fraction = *fractions.get(1)?;
            lines.extend(attention("sliding", &sizes, *theta, fraction, of("sliding_attention")));
        }
    }
    Some(lines)
}

fn heads(keys: &mut Keys<'_>) -> Option<String> {
    let (heads, groups) = (keys.count("num_attention_heads"), keys.count("num_attention_groups"));
    let head_dim = keys.count("head_dim");
    Some(format!("heads = {}, kv_heads = {}, head_dim = {}", heads?, groups?, head_dim?))
}

fn step_experts(keys: &mut Keys<'_>) -> Option<Vec<String>> {
    let (experts, top_k) = (keys.count("moe_num_experts"), keys.count("moe_top_k"));
    let (inner, shared) = (keys.count("moe_intermediate_size"), keys.count_or("share_expert_dim", 0));
    let normalize = keys.flag_or("norm_expert_weight", true)?;
    let bias = keys.flag_or("use_moe_router_bias", false)?;
    let scale = keys.number_or("moe_router_scaling_factor", 1.0)?;
    let score = match keys.get("moe_router_activation").map(|found| (found, found.as_str())) {
        None | Some((_, Some("softmax"))) => "softmax",
        Some((_, Some("sigmoid"))) => "sigmoid",
        Some((found, _)) => {
            keys.unsupported("moe_router_activation", found, "a recipe can express `sigmoid` and `softmax`");
            return None;
        }
    };
    let shared = match shared? {
        0 => "shared none".to_owned(),
        inner => format!("shared {{ inner = {inner} }}"),
    };
    Some(vec![
        "moe sparse {".to_owned(),
        format!("  experts = {}, top_k = {}, inner = {}", experts?, top_k?, inner?),
        format!("  {shared}"),
        format!(
            "  router {{ score = {score}, bias = {bias}, normalize = {normalize}, scale = {} }}",
            number(scale)
        ),
        "}".to_owned(),
    ])
}

/// The `layer` block: attention by period, experts from some layer on, limits of the activation where they are.
fn step_layers(keys: &mut Keys<'_>, layers: usize, period: usize) -> Option<Vec<String>> {
    let first = first_sparse(keys, layers)?;
    let attention = match period {
        1 => "full".to_owned(),
        _ => format!("if i % {period} == 0 {{ full }} else {{ sliding }}"),
    };
    let ffn = match first {
        0 => "sparse".to_owned(),
        _ => format!("if i < {first} {{ dense }} else {{ sparse }}"),
    };
    let mut lines =
        vec!["layer i {".to_owned(), format!("  attention = {attention}"), format!("  ffn       = {ffn}")];
    let limits = [
        ("swiglu_limits", "sparse { clamp = ", " }"),
        ("swiglu_limits_shared", "sparse { shared { clamp = ", " } }"),
    ];
    for (key, before, after) in limits {
        for (start, end, limit) in runs(&keys.each_layer(key, layers, 0.0)?, first) {
            let when =
                if end == layers { format!("i >= {start}") } else { format!("i >= {start} && i < {end}") };
            lines.push(format!("  if {when} {{ {before}{}{after} }}", number(limit)));
        }
    }
    lines.push("}".to_owned());
    Some(lines)
}

/// The first layer with experts; all behind it must have them too.
fn first_sparse(keys: &mut Keys<'_>, layers: usize) -> Option<usize> {
    let Some(found) = keys.get("moe_layers_enum") else { return Some(0) };
    let listed =
        found.as_str().unwrap_or_default().split(',').map(|number| number.trim().parse::<usize>().ok());
    let listed: Vec<_> = listed.collect::<Option<_>>().unwrap_or_default();
    let first = listed.iter().min().copied().filter(|first| (*first..layers).all(|i| listed.contains(&i)));
    if first.is_none() {
        keys.unsupported("moe_layers_enum", found, "experts must be in all layers from some layer on");
    }
    first
}

/// Stretches of layers from `first` on with the same limit; 0 is none.
fn runs(limits: &[f64], first: usize) -> Vec<(usize, usize, f64)> {
    let mut runs: Vec<(usize, usize, f64)> = Vec::new();
    for (index, limit) in limits.iter().enumerate().skip(first).filter(|(_, limit)| **limit > 0.0) {
        match runs.last_mut() {
            Some((_, end, last)) if *end == index && last == limit => *end += 1,
            _ => runs.push((index, index + 1, *limit)),
        }
    }
    runs
}

/// A number as a recipe writes it.
fn number(value: f64) -> String {
    if value != 0.0 && (value.abs() < 1e-3 || value.abs() >= 1e5) {
        format!("{value:e}")
    } else {
        format!("{value:?}")
    }
}

/// A length as a recipe writes it: `128Ki`.
fn length(tokens: u64) -> String {
    if tokens > 0 && tokens.is_multiple_of(1024) {
        format!("{}Ki", tokens / 1024)
    } else {
        tokens.to_string()
    }
}

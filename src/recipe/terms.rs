//! Fields under other names and in other places: what other programs call them, and where they belong here.

use super::declare::Block as _;
use super::schema::recipe::Recipe;
use super::schema::{BlockSchema, Type};

/// What to say of a word that is no field where it stands.
pub enum Advice {
    /// It is this field of the same block.
    Here(&'static str),
    /// It is another field, or one of several.
    Elsewhere(String),
}

/// The word of another program, and the field here. A path without a dot is a field of any block that has it.
const TERMS: &[(&str, &str)] = &[
    ("learning_rate", "train.optimizer.lr"),
    ("adam_beta1", "train.optimizer.betas"),
    ("adam_beta2", "train.optimizer.betas"),
    ("adam_epsilon", "train.optimizer.eps"),
    ("warmup_steps", "train.schedule.warmup"),
    ("warmup_ratio", "train.schedule.warmup"),
    ("num_warmup_steps", "train.schedule.warmup"),
    ("lr_scheduler_type", "train.schedule"),
    ("max_grad_norm", "train.clip"),
    ("grad_clip", "train.clip"),
    ("max_steps", "train.steps"),
    ("train_iters", "train.steps"),
    ("global_batch_size", "train.global_batch"),
    ("gradient_accumulation_steps", "train.global_batch"),
    ("micro_batch_size", "train.micro_batch"),
    ("local_batch_size", "train.micro_batch"),
    ("per_device_train_batch_size", "train.micro_batch"),
    ("seq_len", "data.sequence"),
    ("seq_length", "data.sequence"),
    ("cutoff_len", "data.sequence"),
    ("max_length", "data.sequence"),
    ("max_seq_length", "data.sequence"),
    ("packing", "data.pack"),
    ("sample_packing", "data.pack"),
    ("tensor_parallel", "parallel.tp"),
    ("tensor_parallel_degree", "parallel.tp"),
    ("tensor_model_parallel_size", "parallel.tp"),
    ("tp_size", "parallel.tp"),
    ("context_parallel_degree", "parallel.cp"),
    ("context_parallel_size", "parallel.cp"),
    ("ulysses_size", "parallel.cp"),
    ("cp_size", "parallel.cp"),
    ("pipeline_parallel_degree", "parallel.pp"),
    ("pipeline_model_parallel_size", "parallel.pp"),
    ("pp_size", "parallel.pp"),
    ("expert_parallel_degree", "parallel.ep"),
    ("expert_model_parallel_size", "parallel.ep"),
    ("ep_size", "parallel.ep"),
    ("dp_shard", "parallel.fsdp"),
    ("data_parallel_shard_degree", "parallel.fsdp"),
    ("gradient_checkpointing", "parallel.recompute"),
    ("activation_checkpoint", "parallel.recompute"),
    ("activation_checkpointing", "parallel.recompute"),
    ("cpu_offload", "parallel.offload"),
    ("vocab_size", "model.vocab"),
    ("hidden_size", "model.hidden"),
    ("num_layers", "model.layers"),
    ("num_hidden_layers", "model.layers"),
    ("tie_word_embeddings", "model.tie_embeddings"),
    ("num_attention_heads", "heads"),
    ("num_key_value_heads", "kv_heads"),
    ("num_query_groups", "kv_heads"),
    ("num_attention_groups", "kv_heads"),
    ("sliding_window", "window"),
    ("use_qk_norm", "qk_norm"),
    ("rope_theta", "theta"),
    ("partial_rotary_factor", "fraction"),
    ("v_head_dim", "value_dim"),
    ("q_lora_rank", "q_rank"),
    ("kv_lora_rank", "kv_rank"),
    ("attention_bias", "bias"),
    ("add_qkv_bias", "bias"),
    ("attn_logit_softcapping", "softcap"),
    ("clip_qkv", "clip"),
    ("rope_interleave", "style"),
    ("original_max_position_embeddings", "original"),
    ("beta_fast", "fast"),
    ("beta_slow", "slow"),
    ("short_factor", "short"),
    ("long_factor", "long"),
    ("attention_factor", "magnitude"),
    ("intermediate_size", "inner"),
    ("moe_intermediate_size", "inner"),
    ("ffn_hidden_size", "inner"),
    ("num_experts", "experts"),
    ("n_routed_experts", "experts"),
    ("num_local_experts", "experts"),
    ("moe_num_experts", "experts"),
    ("num_experts_per_tok", "top_k"),
    ("moe_top_k", "top_k"),
    ("norm_topk_prob", "normalize"),
    ("routed_scaling_factor", "scale"),
    ("n_group", "groups"),
    ("topk_group", "top_groups"),
    ("aux_loss_coef", "aux_loss"),
    ("router_aux_loss_coef", "aux_loss"),
    ("moe_aux_loss_coeff", "aux_loss"),
    ("router_bias_update_rate", "bias_update"),
    ("moe_router_bias_update_rate", "bias_update"),
    ("rms_norm_eps", "eps"),
    ("save_steps", "checkpoint.every"),
    ("save_interval", "checkpoint.every"),
    ("output_dir", "checkpoint.dir"),
    ("save_total_limit", "checkpoint.keep"),
];

/// Words that mean one thing here and another there.
const UNCLEAR: &[(&str, &str)] = &[
    (
        "batch_size",
        "it does not say whose: write `global_batch`, sequences a step of all devices, or `micro_batch`, those of a device at a time",
    ),
    ("capacity_factor", "experts take every token that comes: there is no capacity, leave it out"),
    ("num_epochs", "training ends after `steps`, of `global_batch` × `sequence` tokens each"),
    ("num_train_epochs", "training ends after `steps`, of `global_batch` × `sequence` tokens each"),
    ("epochs", "training ends after `steps`, of `global_batch` × `sequence` tokens each"),
];

/// What is known of `key`, which is no field of `schema`, by what other programs call things.
pub fn foreign(key: &str, schema: &BlockSchema) -> Option<Advice> {
    if let Some((_, text)) = UNCLEAR.iter().find(|(word, _)| *word == key) {
        return Some(Advice::Elsewhere((*text).to_owned()));
    }
    let (_, path) = TERMS.iter().find(|(word, _)| *word == key)?;
    let (block, field) = path.rsplit_once('.').unwrap_or(("", path));
    match schema.field(field) {
        Some(known) if block.is_empty() || block.ends_with(schema.kind) => Some(Advice::Here(known.key)),
        _ if block.is_empty() => misplaced(field),
        _ => Some(Advice::Elsewhere(format!("it is `{field}` in `{block}` here"))),
    }
}

/// Where in a recipe `key` would be a field or a block.
pub fn misplaced(key: &str) -> Option<Advice> {
    const SHOWN: usize = 3;
    let mut level = vec![(String::new(), &Recipe::SCHEMA as &BlockSchema)];
    // The tree of blocks is a few levels deep; the shallowest place is the likeliest.
    while !level.is_empty() {
        let holds =
            |schema: &BlockSchema| schema.fields.iter().any(|field| field.key == key && !field.read_only);
        let mut found: Vec<_> =
            level.iter().filter(|(_, schema)| holds(schema)).map(|(path, _)| path).collect();
        found.dedup();
        found.retain(|path| !path.is_empty());
        if !found.is_empty() {
            let places: Vec<_> = found.iter().take(SHOWN).map(|path| format!("`{path}`")).collect();
            return Some(Advice::Elsewhere(format!("`{key}` belongs into {}", places.join(" or "))));
        }
        level = level.iter().flat_map(|(path, schema)| inside(path, schema)).collect();
    }
    None
}

fn inside(path: &str, schema: &BlockSchema) -> Vec<(String, &'static BlockSchema)> {
    let mut found = Vec::new();
    for field in schema.blocks() {
        let path = if path.is_empty() { field.key.to_owned() } else { format!("{path}.{}", field.key) };
        let blocks: Vec<_> = match field.ty {
            Type::Choice(choice) => choice.words.iter().filter_map(|word| word.block).collect(),
            ty => ty.body(None).into_iter().collect(),
        };
        found.extend(blocks.into_iter().map(|block| (path.clone(), block)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_term_leads_to_a_field() {
        for (word, path) in TERMS {
            let (block, field) = path.rsplit_once('.').unwrap_or(("", path));
            let Some(Advice::Elsewhere(text)) = misplaced(field) else { panic!("{word}: no field {path}") };
            assert!(block.is_empty() || text.contains(&format!("`{block}`")), "{word}: {text}");
        }
    }
}

//! How a checkpoint calls its tensors, and how they hold the parameters. The defaults are those of Llama and Qwen3-MoE in
//! the Hugging Face layout.
//!
//! Projections that are given the same name share a tensor: `q`, `k` and `v`, or `gate` and `up`.

use crate::recipe::forms::Named;
use crate::recipe::schema::Title;
use indexmap::IndexMap;

block! {
    /// How a checkpoint calls its tensors.
    pub struct Names("names") {
        /// The embedding of tokens.
        embed: String = "model.embed_tokens.weight",
        /// The norm behind the last layer.
        norm: String = "model.norm.weight",
        /// The output projection.
        head: String = "lm_head.weight",
        /// What the names in a layer begin with; `{i}` is the number of the layer.
        layer: String = "model.layers.{i}",
        /// Attention.
        attention: AttentionNames,
        /// A dense layer.
        mlp: MlpNames,
        /// A layer of experts.
        moe: MoeNames,
        /// The layers of multi-token prediction, numbered on behind the others.
        mtp: MtpNames,
        /// Tensors of the checkpoint that are no part of the model.
        ignored("ignore"): IndexMap<String, Ignored> as Named<Ignored>,
    }
}

block! {
    /// Tensors of the checkpoint that are left alone. Without it, a tensor that the model does not use is an error.
    pub struct Ignored("ignore", Title::Name) {
        /// Their names; `*` stands for any text.
        tensors: String,
        /// Why the model does without them.
        reason: String,
    }
}

block! {
    /// Names in attention, behind the prefix of the layer. `q`, `k` and `v` of one name lie in one tensor, their rows in this
    /// order.
    pub struct AttentionNames("attention") {
        /// The norm in front of it.
        norm: String = "input_layernorm.weight",
        /// The norm behind it, with `norm rms { behind = true }`.
        norm_behind: String = "post_self_attn_layernorm.weight",
        /// The projection to queries.
        q: String = "self_attn.q_proj.weight",
        /// The projection to keys.
        k: String = "self_attn.k_proj.weight",
        /// The projection to values.
        v: String = "self_attn.v_proj.weight",
        /// The output projection.
        o: String = "self_attn.o_proj.weight",
        /// The projection to the gate of each head.
        gate: String = "self_attn.g_proj.weight",
        /// The norm of queries.
        q_norm: String = "self_attn.q_norm.weight",
        /// The norm of keys.
        k_norm: String = "self_attn.k_norm.weight",
        /// The bias of queries.
        q_bias: String = "self_attn.q_proj.bias",
        /// The bias of keys.
        k_bias: String = "self_attn.k_proj.bias",
        /// The bias of values.
        v_bias: String = "self_attn.v_proj.bias",
        /// The bias of the output projection.
        o_bias: String = "self_attn.o_proj.bias",
        /// The sinks of the heads.
        sinks: String = "self_attn.sinks",
        /// With `latent`: the projection to the latent of queries.
        q_down: String = "self_attn.q_a_proj.weight",
        /// The norm of that latent.
        q_down_norm: String = "self_attn.q_a_layernorm.weight",
        /// From that latent to queries.
        q_up: String = "self_attn.q_b_proj.weight",
        /// The projection to the latent of keys and values, and to the rotating channels of keys behind it.
        kv_down: String = "self_attn.kv_a_proj_with_mqa.weight",
        /// The norm of that latent.
        kv_down_norm: String = "self_attn.kv_a_layernorm.weight",
        /// From that latent to the other channels of keys, and to values, head by head.
        kv_up: String = "self_attn.kv_b_proj.weight",
    }
}

block! {
    /// Names in a dense layer, behind the prefix of the layer. `gate` and `up` of one name lie in one tensor.
    pub struct MlpNames("mlp") {
        /// The norm in front of it, in layers of experts too.
        norm: String = "post_attention_layernorm.weight",
        /// The norm behind it, with `norm rms { behind = true }`, in layers of experts too.
        norm_behind: String = "post_mlp_layernorm.weight",
        /// The gate projection.
        gate: String = "mlp.gate_proj.weight",
        /// The up projection.
        up: String = "mlp.up_proj.weight",
        /// The down projection.
        down: String = "mlp.down_proj.weight",
        /// The bias of the gate projection.
        gate_bias: String = "mlp.gate_proj.bias",
        /// The bias of the up projection.
        up_bias: String = "mlp.up_proj.bias",
        /// The bias of the down projection.
        down_bias: String = "mlp.down_proj.bias",
        /// How the rows of `gate` and `up` lie in a tensor that they share.
        gate_up: GateUp = gate_first,
    }
}

block! {
    /// Names in a layer of experts, behind the prefix of the layer. With `layout = per_expert`, `{e}` is the expert. `gate` and
    /// `up` of one name lie in one tensor.
    pub struct MoeNames("moe") {
        /// The router.
        router: String = "mlp.gate.weight",
        /// The bias by which the router chooses.
        bias: String = "mlp.gate.e_score_correction_bias",
        /// The bias of the router's logits.
        logit_bias: String = "mlp.gate.bias",
        /// The gate projections of the experts.
        gate: String = "mlp.experts.{e}.gate_proj.weight",
        /// The up projections of the experts.
        up: String = "mlp.experts.{e}.up_proj.weight",
        /// The down projections of the experts.
        down: String = "mlp.experts.{e}.down_proj.weight",
        /// The biases of the gate projections.
        gate_bias: String = "mlp.experts.{e}.gate_proj.bias",
        /// The biases of the up projections.
        up_bias: String = "mlp.experts.{e}.up_proj.bias",
        /// The biases of the down projections.
        down_bias: String = "mlp.experts.{e}.down_proj.bias",
        /// How the experts lie in the file.
        layout: Layout = per_expert,
        /// How the rows of `gate` and `up` lie in a tensor that they share.
        gate_up: GateUp = gate_first,
        /// The gate projection of the shared expert.
        shared_gate: String = "mlp.shared_experts.gate_proj.weight",
        /// The up projection of the shared expert.
        shared_up: String = "mlp.shared_experts.up_proj.weight",
        /// The down projection of the shared expert.
        shared_down: String = "mlp.shared_experts.down_proj.weight",
        /// The bias of the shared expert's gate projection.
        shared_gate_bias: String = "mlp.shared_experts.gate_proj.bias",
        /// The bias of the shared expert's up projection.
        shared_up_bias: String = "mlp.shared_experts.up_proj.bias",
        /// The bias of the shared expert's down projection.
        shared_down_bias: String = "mlp.shared_experts.down_proj.bias",
        /// The projection to the weight of the shared expert.
        shared_router: String = "mlp.shared_expert_gate.weight",
    }
}

words! {
    /// How experts lie in a checkpoint.
    pub enum Layout {
        /// All in one tensor: [expert, out, in].
        stacked => Stacked,
        /// All in one tensor, its matrices the other way round: [expert, in, out].
        transposed => Transposed,
        /// A tensor each.
        per_expert => PerExpert,
    }
}

words! {
    /// How the rows of a gate projection and an up projection lie in a tensor that they share.
    pub enum GateUp {
        /// Those of the gate, then those of up.
        gate_first => GateFirst,
        /// Those of up, then those of the gate.
        up_first => UpFirst,
        /// In turn, beginning with the gate.
        interleaved => Interleaved,
    }
}

block! {
    /// Names in a layer of multi-token prediction, behind the prefix of the layer.
    pub struct MtpNames("mtp") {
        /// A copy of the model's embedding, which may be there.
        embed: String = "embed_tokens.weight",
        /// The norm of the next token's embedding.
        embed_norm: String = "enorm.weight",
        /// The norm of the hidden state.
        hidden_norm: String = "hnorm.weight",
        /// The projection of both, side by side, to the hidden size.
        project: String = "eh_proj.weight",
        /// The norm in front of its head.
        norm: String = "shared_head.norm.weight",
        /// Its own head, or a copy of the model's, which may be there.
        head: String = "shared_head.head.weight",
    }
}

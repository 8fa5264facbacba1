//! What is trained: the architecture.

use crate::base::DType;
use crate::recipe::forms::{AttentionRef, FfnRef, Layers, MtpBlock, Name, Named, Ratio};
use crate::recipe::schema::Title;
use crate::recipe::schema::names::Names;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

block! {
    /// A decoder-only transformer, described in full.
    pub struct Model("model", Title::Name) {
        /// The name behind `model`.
        name: String as Name,
        /// A Hugging Face folder, read in place, or `scratch`.
        weights: Weights = scratch,
        /// Where parameters are created.
        init: Init = meta,
        /// Tokens of the vocabulary.
        vocab: u64 { unit("tokens"), at_least(1.0) },
        /// Width of the residual stream.
        hidden: u64 { unit("channels"), at_least(1.0) },
        /// Layers, multi-token prediction not counted.
        layers: u64 { unit("layers"), at_least(1.0), at_most(10000.0) },
        /// The head uses the embedding's weight.
        tie_embeddings: bool = false,
        /// Standard deviation of initial weights.
        init_std: f64 { at_least(0.0) } = 0.02,
        /// The norm, the same everywhere.
        norm: Norm,
        /// What each layer is made of: `layer i { attention = …, ffn = … }`, evaluated once a layer.
        blocks("layer"): Vec<Layer> as Layers,
        /// Multi-token prediction: layers that predict further tokens.
        mtp: Option<Mtp> as MtpBlock,
        /// How a checkpoint calls its tensors.
        names: Names,
    }
    also {
        /// A kind of attention, named to be used by layers.
        attention: Named<Attention>,
        /// A kind of dense feed-forward layer.
        mlp: Named<Mlp>,
        /// A kind of layer of experts.
        moe: Named<Moe>,
    }
    derived {
        /// Experts of the only `moe` block.
        experts: u64 = moe.experts,
        /// Experts a token goes to, in the only `moe` block.
        top_k: u64 = moe.top_k,
    }
}

/// Where initial weights come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Weights {
    /// Drawn at random.
    Scratch,
    /// A Hugging Face folder.
    Folder(PathBuf),
}

words! {
    /// Where parameters are created.
    pub enum Init {
        /// Shapes only, until a rank loads or draws its own shard.
        meta => Meta,
        /// In the memory of the host, then copied.
        host => Host,
    }
}

block! {
    /// Root mean square norm: `y = x / rms(x) * (w + offset)`, in float32.
    pub struct Norm("norm", Title::Word("rms")) {
        /// Added to the mean square.
        eps: f64 { more_than(0.0) } = 1e-5,
        /// Added to the weight: 1 where the file holds zero-centred weights.
        offset: f64 = 0,
    }
}

/// One layer, evaluated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Layer {
    /// The attention block it names.
    pub attention_name: String,
    pub attention: Attention,
    /// The `mlp` or `moe` block it names.
    pub ffn_name: String,
    pub ffn: Ffn,
}

/// The feed-forward half of a layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Ffn {
    Dense(Mlp),
    Moe(Moe),
}

block! {
    /// Causal attention with grouped keys and values.
    pub struct Attention("attention", Title::Name) {
        /// Heads of queries.
        heads: u64 { unit("heads"), at_least(1.0) },
        /// Heads of keys and values; divides `heads`.
        kv_heads: u64 { unit("heads"), at_least(1.0) } = heads,
        /// Channels of a head.
        head_dim: u64 { unit("channels"), at_least(1.0) },
        /// Keys a query sees, itself among them; `none`: all before it.
        window: Option<u64> { unit("tokens"), at_least(1.0) } = none,
        /// Queries and keys go through a norm, head by head, before their rotation.
        qk_norm: bool = false,
        /// A gate on what attention gives.
        gate: Gate = none,
        /// Rotary positions.
        rope: Rope,
    }
}

words! {
    /// A gate on what attention gives.
    pub enum Gate {
        /// No gate.
        none => None,
        /// The sigmoid of one value a head, projected from the layer's input.
        per_head => PerHead,
    }
}

block! {
    /// Rotary positions, the halves of a head paired.
    pub struct Rope("rope") {
        /// Base of the frequencies.
        theta: f64 { more_than(0.0) },
        /// Share of a head's channels that rotate.
        fraction: f64 as Ratio { more_than(0.0), at_most(1.0) } = 1.0,
        /// How frequencies are stretched for longer contexts.
        scaling: Scaling = none,
    }
}

choice! {
    /// How rotary frequencies are stretched for longer contexts.
    pub enum Scaling("scaling") {
        /// Not at all.
        none => None,
        /// Long wavelengths are divided by a factor, short ones kept, those between interpolated.
        llama3 => Llama3(Llama3Scaling),
    }
}

block! {
    /// Wavelengths under `original / high` are kept, those over `original / low` are stretched by `factor`.
    pub struct Llama3Scaling("scaling", Title::Word("llama3")) {
        /// By how much long wavelengths are stretched.
        factor: f64 { at_least(1.0) },
        /// The context the model was first trained with.
        original: u64 { unit("tokens"), at_least(1.0) },
        /// Wavelengths over `original / low` are stretched in full.
        low: f64 { more_than(0.0) } = 1.0,
        /// Wavelengths under `original / high` are kept.
        high: f64 { more_than(0.0) } = 4.0,
    }
}

block! {
    /// A dense feed-forward layer: `down(act(gate(x), up(x)))`.
    pub struct Mlp("mlp", Title::Name) {
        /// Width inside.
        inner: u64 { unit("channels"), at_least(1.0) },
        /// The activation.
        act: Act = swiglu,
        /// Limit L of the activation: `min(silu(g), L) * clamp(u, -L, L)`.
        clamp: Option<f64> { more_than(0.0) } = none,
    }
}

words! {
    /// The activation of a feed-forward layer.
    pub enum Act {
        /// `silu(gate) * up`.
        swiglu => SwiGlu,
    }
}

block! {
    /// A layer of experts, of which each token uses a few.
    pub struct Moe("moe", Title::Name) {
        /// Routed experts.
        experts: u64 { unit("experts"), at_least(1.0) },
        /// Experts a token goes to.
        top_k: u64 { unit("experts"), at_least(1.0) },
        /// Width inside an expert.
        inner: u64 { unit("channels"), at_least(1.0) },
        /// The activation.
        act: Act = swiglu,
        /// Limit of the activation of routed experts; see `mlp`.
        clamp: Option<f64> { more_than(0.0) } = none,
        /// An expert that every token uses.
        shared: Option<Mlp>,
        /// How tokens choose experts.
        router: Router,
    }
}

block! {
    /// How tokens choose experts.
    pub struct Router("router") {
        /// How logits become scores.
        score: Score = softmax,
        /// A bias, outside of the gradient, added to the scores for choosing only.
        bias: bool = false,
        /// The weights of the chosen experts are divided by their sum.
        normalize: bool = true,
        /// The weights are multiplied by this.
        scale: f64 { more_than(0.0) } = 1.0,
        /// In what precision logits are computed.
        precision: DType = f32,
        /// Groups of experts that a token chooses from first; divides the experts.
        groups: u64 { unit("groups"), at_least(1.0) } = 1,
        /// Groups a token keeps to, those whose two best scores add up to most.
        top_groups: u64 { unit("groups"), at_least(1.0) } = groups,
        /// Weight of the loss that evens out the load of experts, taken over each sequence: experts / top_k · Σ share of
        /// tokens · mean score, which is 1 for an even load; 0 for none. It is reported beside the loss.
        aux_loss: f64 { at_least(0.0) } = 0.0,
        /// What a step adds to the bias of an expert that got less than the mean of its tokens, all ranks together, and takes
        /// from one that got more.
        bias_update: f64 { at_least(0.0) } = 0.0,
    }
}

words! {
    /// How router logits become scores.
    pub enum Score {
        /// Each expert by itself.
        sigmoid => Sigmoid,
        /// Over all experts.
        softmax => Softmax,
    }
}

block! {
    /// Multi-token prediction: further layers, each predicting one token more.
    pub struct Mtp("mtp") {
        /// How many; 0 for none.
        layers: u64 { unit("layers"), at_most(64.0) } = 0,
        /// The attention block they use.
        attention: Attention as AttentionRef,
        /// The feed-forward block they use.
        ffn: Ffn as FfnRef,
        /// What turns their state into logits.
        head: MtpHead = own,
    }
}

words! {
    /// The head of a layer of multi-token prediction.
    pub enum MtpHead {
        /// A norm and an output projection of its own.
        own => Own,
        /// The model's.
        shared => Shared,
    }
}

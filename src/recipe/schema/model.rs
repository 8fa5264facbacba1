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
        /// The embedding of a token is multiplied by this; Gemma has `sqrt(hidden)`.
        embed_scale: f64 { more_than(0.0) } = 1.0,
        /// Logits go through `cap * tanh(logit / cap)`; `none`: as the head makes them.
        logit_softcap: Option<f64> { more_than(0.0) } = none,
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
        /// A further norm on what attention and feed-forward give, before it is added to their input (sandwich norms).
        behind: bool = false,
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
    /// Causal attention with grouped keys and values: `softmax(cap(scale · q kᵀ)) v`.
    pub struct Attention("attention", Title::Name) {
        /// Heads of queries.
        heads: u64 { unit("heads"), at_least(1.0) },
        /// Heads of keys and values; divides `heads`.
        kv_heads: u64 { unit("heads"), at_least(1.0) } = heads,
        /// Channels of a head of queries or keys, those that rotate among them.
        head_dim: u64 { unit("channels"), at_least(1.0) },
        /// Channels of a head of values.
        value_dim: u64 { unit("channels"), at_least(1.0) } = head_dim,
        /// Keys a query sees, itself among them; `none`: all before it.
        window: Option<u64> { unit("tokens"), at_least(1.0) } = none,
        /// Factor on the products of queries and keys.
        scale: f64 { more_than(0.0) } = 1 / sqrt(head_dim),
        /// Limit L of a score: `L · tanh(score / L)`.
        softcap: Option<f64> { more_than(0.0) } = none,
        /// A trained score for each head beside those of its keys: it takes weight and gives nothing.
        sinks: bool = false,
        /// The projections that add a bias.
        bias: Bias = none,
        /// A norm on queries and keys.
        qk_norm: QkNorm = none,
        /// Limit L of queries, keys and values behind projection and norm: `clamp(x, -L, L)`.
        clip: Option<f64> { more_than(0.0) } = none,
        /// A gate on what attention gives.
        gate: Gate = none,
        /// Keys and values, and queries too, are made from narrow latents.
        latent: Option<Latent>,
        /// Rotary positions.
        rope: Rope,
    }
}

impl Attention {
    /// Channels of a head that rotate.
    pub fn rotary(&self) -> u64 {
        match &self.latent {
            Some(latent) => latent.rope,
            None => (self.head_dim as f64 * self.rope.fraction).round() as u64,
        }
    }
}

words! {
    /// The projections of attention that add a bias.
    pub enum Bias {
        /// None of them.
        none => None,
        /// Those to queries, keys and values.
        qkv => Qkv,
        /// The output projection too.
        qkvo => Qkvo,
    }
}

words! {
    /// A norm on queries and keys.
    pub enum QkNorm {
        /// None.
        none => None,
        /// Head by head, before the rotation; all heads share its weight.
        head => Head,
        /// Head by head, behind the rotation.
        rotated => Rotated,
        /// Over all heads at once, before the rotation.
        width => Width,
    }
}

block! {
    /// Multi-head latent attention: narrow latents go through a norm and are then projected to heads. Keys take their
    /// rotating channels, the last ones of a head, from the layer's input, the same for all heads.
    pub struct Latent("latent") {
        /// Width of the latent of queries; `none`: they are projected from the layer's input.
        q_rank: Option<u64> { unit("channels"), at_least(1.0) } = none,
        /// Width of the latent of keys and values.
        kv_rank: u64 { unit("channels"), at_least(1.0) },
        /// Channels of a head that rotate.
        rope: u64 { unit("channels"), at_least(2.0) },
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
    /// Rotary positions.
    pub struct Rope("rope") {
        /// Base of the frequencies.
        theta: f64 { more_than(0.0) },
        /// Share of a head's channels that rotate, the first ones.
        fraction: f64 as Ratio { more_than(0.0), at_most(1.0) } = 1.0,
        /// Which channels rotate together.
        style: RopeStyle = half,
        /// How frequencies are stretched for longer contexts.
        scaling: Scaling = none,
    }
}

words! {
    /// Which channels rotate together.
    pub enum RopeStyle {
        /// One of the first half with one of the second.
        half => Half,
        /// Neighbours.
        interleaved => Interleaved,
    }
}

choice! {
    /// How rotary frequencies are stretched for longer contexts.
    pub enum Scaling("scaling") {
        /// Not at all.
        none => None,
        /// All frequencies are divided by a factor.
        linear => Linear(LinearScaling),
        /// Long wavelengths are divided by a factor, short ones kept, those between interpolated.
        llama3 => Llama3(Llama3Scaling),
        /// Slow frequencies are divided by a factor, fast ones kept, those between ramped.
        yarn => Yarn(YarnScaling),
        /// Each frequency is divided by a factor of its own.
        longrope => LongRope(LongRopeScaling),
    }
}

impl Scaling {
    /// The context the model was first trained with, and how many times it is stretched; `None` where that is not said.
    pub fn stretch(&self) -> Option<(u64, f64)> {
        match self {
            Scaling::None | Scaling::Linear(_) => None,
            Scaling::Llama3(s) => Some((s.original, s.factor)),
            Scaling::Yarn(s) => Some((s.original, s.factor)),
            Scaling::LongRope(s) => Some((s.original, s.factor)),
        }
    }
}

block! {
    /// Every frequency is divided by `factor`.
    pub struct LinearScaling("scaling", Title::Word("linear")) {
        /// By how much wavelengths are stretched.
        factor: f64 { at_least(1.0) },
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
    /// Frequencies with more than `fast` turns in `original` tokens are kept, those with fewer than `slow` are divided by
    /// `factor`, those between interpolated by their index.
    pub struct YarnScaling("scaling", Title::Word("yarn")) {
        /// By how much slow frequencies are stretched.
        factor: f64 { at_least(1.0) },
        /// The context the model was first trained with.
        original: u64 { unit("tokens"), at_least(1.0) },
        /// Frequencies with more turns than this are kept.
        fast: f64 { more_than(0.0) } = 32.0,
        /// Frequencies with fewer turns than this are stretched in full.
        slow: f64 { more_than(0.0) } = 1.0,
        /// The ends of the ramp are rounded outwards to whole frequencies.
        truncate: bool = true,
        /// Factor on the rotated channels.
        magnitude: f64 { more_than(0.0) } = 1 + 0.1 * ln(factor),
    }
}

block! {
    /// Frequency `i` is divided by `short[i]`, or by `long[i]` where `data.sequence` is over `original`.
    pub struct LongRopeScaling("scaling", Title::Word("longrope")) {
        /// The longest context over the original one.
        factor: f64 { at_least(1.0) },
        /// The context the model was first trained with.
        original: u64 { unit("tokens"), at_least(2.0) },
        /// Divisors up to the original context, one for each pair of rotating channels.
        short: Vec<f64> { more_than(0.0) },
        /// Divisors beyond it.
        long: Vec<f64> { more_than(0.0) },
        /// Factor on the rotated channels.
        magnitude: f64 { more_than(0.0) } = sqrt(1 + ln(factor) / ln(original)),
    }
}

block! {
    /// A dense feed-forward layer: `down(act(gate(x), up(x)))`.
    pub struct Mlp("mlp", Title::Name) {
        /// Width inside.
        inner: u64 { unit("channels"), at_least(1.0) },
        /// The activation.
        act: Act = swiglu,
        /// Limit L: `min(act(gate), L) * clamp(up, -L, L)`; `swiglu_oai` limits the gate before its activation.
        clamp: Option<f64> { more_than(0.0) } = none,
        /// Steepness of the sigmoid in `swiglu_oai`.
        alpha: f64 { more_than(0.0) } = 1.702,
        /// All three projections add a bias.
        bias: bool = false,
    }
}

words! {
    /// The activation of a feed-forward layer.
    pub enum Act {
        /// `silu(gate) * up`.
        swiglu => SwiGlu,
        /// `gelu(gate) * up`, the GELU by its approximation with tanh.
        geglu => GeGlu,
        /// `gate * sigmoid(alpha * gate) * (up + 1)`, as in gpt-oss.
        swiglu_oai => SwiGluOai,
    }
}

/// An activation with its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Activation {
    pub act: Act,
    pub clamp: Option<f64>,
    pub alpha: f64,
}

impl Mlp {
    /// What happens between its projections.
    pub fn activation(&self) -> Activation {
        Activation { act: self.act, clamp: self.clamp, alpha: self.alpha }
    }
}

impl Moe {
    /// What happens between the projections of a routed expert.
    pub fn activation(&self) -> Activation {
        Activation { act: self.act, clamp: self.clamp, alpha: self.alpha }
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
        /// Steepness of the sigmoid in `swiglu_oai`.
        alpha: f64 { more_than(0.0) } = 1.702,
        /// All three projections of a routed expert add a bias.
        bias: bool = false,
        /// An expert that every token uses.
        shared: Option<Mlp>,
        /// The shared expert is weighted by the sigmoid of one value a token, projected from its input.
        shared_gate: bool = false,
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
        /// A bias, trained, added to the logits.
        logit_bias: bool = false,
        /// The weights of the chosen experts are divided by their sum.
        normalize: bool = true,
        /// The weights are multiplied by this.
        scale: f64 { more_than(0.0) } = 1.0,
        /// In what precision logits are computed.
        precision: DType = f32,
        /// Groups of experts that a token chooses from first; divides the experts.
        groups: u64 { unit("groups"), at_least(1.0) } = 1,
        /// Groups a token keeps to, those of the best score.
        top_groups: u64 { unit("groups"), at_least(1.0) } = groups,
        /// What makes the score of a group.
        group_score: GroupScore = best_two,
        /// Weight of the loss that evens out the load of experts, taken over each sequence: experts / top_k · Σ share of
        /// tokens · mean score, which is 1 for an even load; 0 for none. It is reported beside the loss.
        aux_loss: f64 { at_least(0.0) } = 0.0,
        /// What a step adds to the bias of an expert that got less than the mean of its tokens, all ranks together, and takes
        /// from one that got more.
        bias_update: f64 { at_least(0.0) } = 0.0,
    }
}

words! {
    /// How scores of experts become that of their group.
    pub enum GroupScore {
        /// The sum of the two best, as in DeepSeek-V3.
        best_two => BestTwo,
        /// The best one, as in DeepSeek-V2.
        best => Best,
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
        /// What the first of them reads of the model, and each other one of the one before it.
        input: MtpInput = normed,
        /// What becomes of them.
        usage: MtpUsage = kept,
        /// Weight of the mean of their losses beside the model's, where they are trained.
        loss: f64 { at_least(0.0) } = 0.3,
    }
}

words! {
    /// What a layer of multi-token prediction reads beside the embedding of the next token.
    pub enum MtpInput {
        /// The state that the layer before leaves.
        state => State,
        /// That state behind the norm in front of the head.
        normed => Normed,
    }
}

words! {
    /// What becomes of the layers of multi-token prediction.
    pub enum MtpUsage {
        /// Not trained: exported as they were read.
        kept => Kept,
        /// Not trained, and left out of what is exported.
        dropped => Dropped,
        /// Trained with the model.
        trained => Trained,
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

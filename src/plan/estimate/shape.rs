//! The model as an estimate sees it: a few numbers a layer, equal neighbours counted together.
//!
//! Input: a [`Model`](crate::model::Model) or numbers from a paper. Nothing here grows with devices or with tensors.

use serde::{Deserialize, Serialize};

/// A decoder-only model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shape {
    pub hidden: f64,
    pub vocab: f64,
    /// Embedding and head are one tensor.
    pub tied: bool,
    /// Layers in order, equal neighbours together.
    pub runs: Vec<Run>,
    /// Trained layers for multi-token prediction, at the end of the model.
    pub mtp: Vec<LayerShape>,
    /// Heads of their own that these have.
    #[serde(default)]
    pub mtp_heads: u64,
}

/// So many equal layers in a row.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Run {
    pub layer: LayerShape,
    pub count: u64,
}

/// One decoder layer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LayerShape {
    pub attention: AttentionShape,
    pub ffn: FfnShape,
}

/// The widths of attention, in channels of all heads together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AttentionShape {
    pub heads: f64,
    /// Of queries.
    pub query: f64,
    /// Of keys as they are projected: all key heads.
    pub key: f64,
    /// Of values as they are projected.
    pub value: f64,
    /// What attention returns: heads times the width of a value.
    pub out: f64,
    /// Low-rank latents between the hidden state and the heads: of queries, and of keys and values.
    pub latent: Option<[f64; 2]>,
    /// Projects one gate a head.
    pub gate: bool,
    /// A bias of every head on every score instead of rotated positions (Press et al. 2021, ALiBi, arXiv:2108.12409).
    pub alibi: bool,
    /// A token sees only so many before it.
    pub window: Option<f64>,
}

/// What follows attention.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum FfnShape {
    Dense { inner: f64 },
    Moe { experts: f64, top_k: f64, inner: f64, shared: f64 },
}

impl AttentionShape {
    /// Grouped-query attention.
    pub fn grouped(heads: u64, kv_heads: u64, head_dim: u64) -> Self {
        let (q, kv) = ((heads * head_dim) as f64, (kv_heads * head_dim) as f64);
        let heads = heads as f64;
        AttentionShape {
            heads,
            query: q,
            key: kv,
            value: kv,
            out: q,
            latent: None,
            gate: false,
            alibi: false,
            window: None,
        }
    }

    /// Multi-head latent attention: `ranks` of queries (0: none) and of keys and values, then the width of a head's
    /// part without and with rotation and of its value.
    pub fn latent(heads: u64, ranks: [u64; 2], [plain, rotated, value]: [u64; 3]) -> Self {
        let heads = heads as f64;
        let key = heads * (plain + rotated) as f64;
        let out = heads * value as f64;
        let latent = Some([ranks[0] as f64, (ranks[1] + rotated) as f64]);
        AttentionShape {
            heads,
            query: key,
            key,
            value: out,
            out,
            latent,
            gate: false,
            alibi: false,
            window: None,
        }
    }

    /// Channels of all key heads once every one of `ranks` has a head: heads that are too few are repeated.
    pub fn spread_key(&self, ranks: u64) -> f64 {
        self.key.max(ranks as f64 * self.query / self.heads)
    }

    /// Parameters of the projections.
    pub fn params(&self, hidden: f64) -> f64 {
        let gate = if self.gate { hidden * self.heads } else { 0.0 };
        let out = self.out * hidden;
        gate + out
            + match self.latent {
                None => hidden * (self.query + self.key + self.value),
                Some([q, kv]) => {
                    let query = if q > 0.0 { q * (hidden + self.query) } else { hidden * self.query };
                    query + hidden * kv + kv * (self.key + self.value)
                }
            }
    }
}

impl FfnShape {
    /// Parameters every token meets: of a mixture, its router and its shared expert.
    pub fn dense_params(&self, hidden: f64) -> f64 {
        match *self {
            FfnShape::Dense { inner } => 3.0 * hidden * inner,
            FfnShape::Moe { experts, shared, .. } => hidden * experts + 3.0 * hidden * shared,
        }
    }

    /// Parameters of all routed experts.
    pub fn expert_params(&self, hidden: f64) -> f64 {
        match *self {
            FfnShape::Dense { .. } => 0.0,
            FfnShape::Moe { experts, inner, .. } => 3.0 * hidden * inner * experts,
        }
    }

    /// Parameters of routed experts that one token meets.
    pub fn active_params(&self, hidden: f64) -> f64 {
        match *self {
            FfnShape::Dense { .. } => 0.0,
            FfnShape::Moe { top_k, inner, .. } => 3.0 * hidden * inner * top_k,
        }
    }
}

impl LayerShape {
    /// Parameters outside routed experts, with the two norms.
    pub fn dense_params(&self, hidden: f64) -> f64 {
        self.attention.params(hidden) + self.ffn.dense_params(hidden) + 2.0 * hidden
    }
}

impl Shape {
    /// Layers of the body.
    pub fn layers(&self) -> u64 {
        self.runs.iter().map(|run| run.count).sum()
    }

    /// All parameters, multi-token prediction left out.
    pub fn params(&self) -> f64 {
        let tables = if self.tied { 1.0 } else { 2.0 };
        let of = |l: &LayerShape| l.dense_params(self.hidden) + l.ffn.expert_params(self.hidden);
        let layers: f64 = self.runs.iter().map(|run| run.count as f64 * of(&run.layer)).sum();
        tables * self.vocab * self.hidden + layers + self.hidden
    }
}

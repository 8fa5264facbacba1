//! The parameters of attention.

use super::build::Builder;
use super::names::LayerNames;
use super::parameter::{Init, ParamId};
use crate::recipe::{self, Bias, Gate, QkNorm};

/// Attention: its norm, projections to queries, keys and values and back, and what else its fields ask for.
#[derive(Debug, Clone, PartialEq)]
pub struct AttentionModule {
    pub config: recipe::Attention,
    pub norm: ParamId,
    pub input: Projections,
    pub o: Linear,
    pub gate: Option<ParamId>,
    /// Of queries and of keys: `[head_dim]`, or `[heads × head_dim]` over the whole width.
    pub qk_norm: Option<(ParamId, ParamId)>,
    /// `[heads]`
    pub sinks: Option<ParamId>,
}

/// A weight `[out, in]` and a bias `[out]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Linear {
    pub weight: ParamId,
    pub bias: Option<ParamId>,
}

/// From the layer's input to queries, keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Projections {
    Direct {
        q: Linear,
        k: Linear,
        v: Linear,
    },
    /// Through latents. `kv.down` is `[kv_rank + rope, hidden]`, its last rows giving the rotating channels of keys;
    /// `kv.up` is `[heads × (head_dim − rope + value_dim), kv_rank]`, keys before values in every head.
    Latent {
        q: Query,
        kv: LowRank,
    },
}

/// How queries are made beside latent keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Query {
    Direct(ParamId),
    Latent(LowRank),
}

/// `up(norm(down(x)))`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LowRank {
    pub down: ParamId,
    pub norm: ParamId,
    pub up: ParamId,
}

impl AttentionModule {
    /// Its parameters, each once.
    pub fn params(&self) -> Vec<ParamId> {
        let low_rank = |l: LowRank| vec![l.down, l.norm, l.up];
        let mut params = vec![self.norm];
        let linears = match self.input {
            Projections::Direct { q, k, v } => vec![q, k, v],
            Projections::Latent { q, kv } => {
                match q {
                    Query::Direct(q) => params.push(q),
                    Query::Latent(q) => params.extend(low_rank(q)),
                }
                params.extend(low_rank(kv));
                Vec::new()
            }
        };
        for linear in linears.into_iter().chain([self.o]) {
            params.push(linear.weight);
            params.extend(linear.bias);
        }
        params.extend(self.gate);
        params.extend(self.qk_norm.into_iter().flat_map(|(q, k)| [q, k]));
        params.extend(self.sinks);
        params
    }
}

impl Builder<'_> {
    pub(super) fn attention(&mut self, names: &LayerNames, a: &recipe::Attention) -> AttentionModule {
        let n = &names.names.attention;
        let hidden = self.model.hidden;
        let out = a.heads * a.value_dim;
        AttentionModule {
            norm: self.norm(names.of(&n.norm), hidden),
            input: self.projections(names, a),
            o: self.linear(names, (&n.o, &n.o_bias), [hidden, out], a.bias == Bias::Qkvo),
            gate: (a.gate == Gate::PerHead).then(|| self.matrix(names.of(&n.gate), [a.heads, hidden])),
            qk_norm: self.qk_norm(names, a),
            sinks: a.sinks.then(|| self.vector(names.of(&n.sinks), a.heads, Init::Constant(0.0))),
            config: a.clone(),
        }
    }

    fn projections(&mut self, names: &LayerNames, a: &recipe::Attention) -> Projections {
        let n = &names.names.attention;
        let hidden = self.model.hidden;
        let query = a.heads * a.head_dim;
        match &a.latent {
            None => {
                let bias = a.bias != Bias::None;
                let (key, value) = (a.kv_heads * a.head_dim, a.kv_heads * a.value_dim);
                Projections::Direct {
                    q: self.linear(names, (&n.q, &n.q_bias), [query, hidden], bias),
                    k: self.linear(names, (&n.k, &n.k_bias), [key, hidden], bias),
                    v: self.linear(names, (&n.v, &n.v_bias), [value, hidden], bias),
                }
            }
            Some(latent) => Projections::Latent {
                q: match latent.q_rank {
                    None => Query::Direct(self.matrix(names.of(&n.q), [query, hidden])),
                    Some(rank) => Query::Latent(LowRank {
                        down: self.matrix(names.of(&n.q_down), [rank, hidden]),
                        norm: self.norm(names.of(&n.q_down_norm), rank),
                        up: self.matrix(names.of(&n.q_up), [query, rank]),
                    }),
                },
                kv: LowRank {
                    down: self.matrix(names.of(&n.kv_down), [latent.kv_rank + latent.rope, hidden]),
                    norm: self.norm(names.of(&n.kv_down_norm), latent.kv_rank),
                    up: self.matrix(
                        names.of(&n.kv_up),
                        [a.heads * (a.head_dim - latent.rope + a.value_dim), latent.kv_rank],
                    ),
                },
            },
        }
    }

    fn qk_norm(&mut self, names: &LayerNames, a: &recipe::Attention) -> Option<(ParamId, ParamId)> {
        let n = &names.names.attention;
        let widths = match a.qk_norm {
            QkNorm::None => return None,
            QkNorm::Head | QkNorm::Rotated => [a.head_dim, a.head_dim],
            QkNorm::Width => [a.heads * a.head_dim, a.kv_heads * a.head_dim],
        };
        Some((self.norm(names.of(&n.q_norm), widths[0]), self.norm(names.of(&n.k_norm), widths[1])))
    }

    fn linear(
        &mut self,
        names: &LayerNames,
        (weight, bias): (&str, &str),
        shape: [u64; 2],
        biased: bool,
    ) -> Linear {
        Linear {
            weight: self.matrix(names.of(weight), shape),
            bias: biased.then(|| self.vector(names.of(bias), shape[0], Init::Constant(0.0))),
        }
    }
}

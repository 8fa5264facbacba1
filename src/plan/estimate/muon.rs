//! What Muon updates, and what its Newton–Schulz iterations cost.
//!
//! One iteration on a matrix of m × n, m ≤ n, is three products: `A = X Xᵀ`, `A A`, and their sum with `X`, so
//! `2 m² n + 2 m³ + 2 m² n` FLOPs (K. Jordan et al. 2024, Muon). Matrices are dealt out over the ranks that shard them: each
//! momentum is gathered where its update is made, and the update goes back (Liu et al. 2025, arXiv:2502.16982).

use super::job::Layout;
use super::shape::{FfnShape, LayerShape};
use super::stage::expert_tp;

/// The matrices of layers on a rank before sharding: of dense parts, and of its routed experts.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Matrices {
    /// Elements.
    pub dense: f64,
    pub experts: f64,
    /// FLOPs of one iteration over all of them.
    pub dense_flops: f64,
    pub expert_flops: f64,
}

impl Matrices {
    /// Adds `count` times the other.
    pub fn add(&mut self, other: &Matrices, count: f64) {
        self.dense += other.dense * count;
        self.experts += other.experts * count;
        self.dense_flops += other.dense_flops * count;
        self.expert_flops += other.expert_flops * count;
    }
}

/// The matrices of `layer`; its router and norms are AdamW's.
pub(super) fn matrices(layer: &LayerShape, hidden: f64, layout: &Layout) -> Matrices {
    let (a, tp) = (&layer.attention, layout.tp as f64);
    let split = |width: f64| width / tp;
    let mut sum = Matrices::default();
    let mut dense = |m: f64, n: f64, count: f64| {
        sum.dense += m * n * count;
        sum.dense_flops += iteration(m, n) * count;
    };
    match a.latent {
        None => {
            dense(hidden, split(a.query), 1.0);
            dense(hidden, split(a.key), 1.0);
            dense(hidden, split(a.value), 1.0);
        }
        Some([q, kv]) => {
            let query = if q > 0.0 { q } else { hidden };
            dense(hidden, q, 1.0);
            dense(query, split(a.query), 1.0);
            dense(hidden, kv, 1.0);
            dense(kv, split(a.key + a.value), 1.0);
        }
    }
    dense(split(a.out), hidden, 1.0);
    if a.gate {
        dense(hidden, split(a.heads), 1.0);
    }
    match layer.ffn {
        FfnShape::Dense { inner } => dense(hidden, split(inner), 3.0),
        FfnShape::Moe { experts, inner, shared, .. } => {
            dense(hidden, split(shared), 3.0);
            let (here, inner) = (3.0 * experts / layout.ep as f64, inner / expert_tp(layout));
            sum.experts = hidden * inner * here;
            sum.expert_flops = iteration(hidden, inner) * here;
        }
    }
    sum
}

/// FLOPs of one Newton–Schulz iteration.
fn iteration(m: f64, n: f64) -> f64 {
    let (m, n) = (m.min(n), m.max(n));
    2.0 * m * m * (2.0 * n + m)
}

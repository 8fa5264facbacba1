//! Attention, forward and backward.

use super::builder::Builder;
use super::projections::Projected;
use crate::model::AttentionModule;
use crate::plan::ops::{Heads, Op, Sum};
use crate::plan::program::View;
use crate::recipe;

/// What the backward pass reads again. Norms and gates are made again from what is kept: they cost a pass over memory,
/// keeping them would cost the memory itself.
#[derive(Clone, Copy)]
pub(super) struct Kept {
    /// Input of the layer.
    pub h: View,
    rstd: View,
    projected: Projected,
    gate: Option<View>,
    out: View,
    lse: View,
}

impl Builder<'_> {
    /// From the layer's input to the heads' outputs.
    pub fn attention(&mut self, module: &AttentionModule, h: View) -> Kept {
        let heads = heads(&module.config);
        let rstd = self.exact("attention.rstd", self.tokens, 1);
        let x = self.rms_norm("attention.x", h, rstd, module.norm);
        let projected = self.projections(module, x);
        let gate = module.gate.map(|gate| self.project("gate", x, gate));
        let out = self.by_token("attention.out", heads.queries * heads.value_dim);
        let lse = self.exact("attention.lse", self.tokens, heads.queries);
        let [q, k, v] = projected.heads();
        let sinks = module.sinks.map(|sinks| self.vector(sinks));
        self.emit(Op::FlashAttentionScore { q, k, v, sinks, out, lse, heads });
        Kept { h, rstd, projected, gate, out, lse }
    }

    /// Gates and projects the heads' outputs: what the layer adds to its input.
    pub fn attention_output(&mut self, module: &AttentionModule, kept: &Kept) -> View {
        let y = self.gated(module, kept);
        self.project_biased("attention.y", y, module.o)
    }

    /// Adds the gradient through attention, from `d_y`, that of its output, to `dh`, that of the layer's input.
    pub fn attention_backward(&mut self, module: &AttentionModule, kept: &Kept, d_y: View, dh: View) {
        let heads = heads(&module.config);
        let y = self.gated(module, kept);
        let d_out = self.by_token("attention.d_out", y.cols);
        self.project_biased_backward(module.o, y, d_y, d_out.set());
        let (dy, d_gate) = match kept.gate {
            None => (d_out, None),
            Some(gate) => {
                let dx = self.by_token("attention.d_heads", y.cols);
                let d_gate = self.by_token("d_gate", heads.queries);
                let (heads, head_dim) = (heads.queries, heads.value_dim);
                self.emit(Op::HeadGateGrad { dy: d_out, x: kept.out, gate, dx, d_gate, heads, head_dim });
                (dx, Some(d_gate))
            }
        };
        let projected = &self.renewed(module, &kept.projected);
        let [q, k, v] = projected.heads();
        let dq = self.by_token("dq", q.cols);
        let dk = self.by_token("dk", k.cols);
        let dv = self.by_token("dv", v.cols);
        let (out, lse) = (kept.out, kept.lse);
        let sinks = module.sinks.map(|sinks| self.vector(sinks));
        let d_sinks = module.sinks.map(|sinks| {
            let sum = self.gradient(sinks);
            Sum { view: super::builder::row(sum.view), ..sum }
        });
        self.emit(Op::FlashAttentionScoreGrad { dy, q, k, v, sinks, out, lse, dq, dk, dv, d_sinks, heads });
        let x_of = |b: &mut Self| b.rms_norm("attention.x", kept.h, kept.rstd, module.norm);
        let (x, dx) = self.projections_backward(module, projected, [dq, dk, dv], x_of);
        if let (Some(gate), Some(d_gate)) = (module.gate, d_gate) {
            self.project_backward(gate, x, d_gate, dx.add());
        }
        self.rms_norm_backward(module.norm, dx, kept.h, kept.rstd, dh.add());
    }

    fn gated(&mut self, module: &AttentionModule, kept: &Kept) -> View {
        let Some(gate) = kept.gate else { return kept.out };
        let y = self.by_token("attention.gated", kept.out.cols);
        let recipe::Attention { heads, value_dim, .. } = module.config;
        self.emit(Op::HeadGate { x: kept.out, gate, y, heads, head_dim: value_dim });
        y
    }
}

fn heads(config: &recipe::Attention) -> Heads {
    Heads {
        queries: config.heads,
        keys: config.kv_heads,
        head_dim: config.head_dim,
        value_dim: config.value_dim,
        window: config.window,
        scale: config.scale,
        softcap: config.softcap,
    }
}

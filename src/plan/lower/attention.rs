//! Attention, forward and backward.

use super::builder::Builder;
use crate::model::{AttentionModule, ParamId};
use crate::plan::ops::Op;
use crate::plan::program::{Rows, View};
use crate::recipe::{self, Recompute};

/// What the backward pass reads again. Norms and gates are made again from what is kept: they cost a pass over memory,
/// keeping them would cost the memory itself.
#[derive(Clone, Copy)]
pub(super) struct Kept {
    /// Input of the layer.
    pub h: View,
    rstd: View,
    q: Head,
    k: Head,
    v: View,
    gate: Option<View>,
    out: View,
    lse: View,
}

/// Queries or keys: as attention reads them, and as they were before their norm where they have one.
#[derive(Clone, Copy)]
struct Head {
    rotated: View,
    normed_from: Option<(View, View)>,
}

impl Builder<'_> {
    /// From the layer's input to the heads' outputs.
    pub fn attention(&mut self, module: &AttentionModule, h: View) -> Kept {
        let config = &module.config;
        let recipe::Attention { heads, kv_heads, head_dim, window, .. } = *config;
        let rstd = self.exact("attention.rstd", self.tokens, 1);
        let x = self.rms_norm("attention.x", h, rstd, module.norm);
        let q = self.project("q", x, module.q);
        let q = self.head("q", q, config, heads, module.qk_norm.map(|(q, _)| q));
        let k = self.project("k", x, module.k);
        let k = self.head("k", k, config, kv_heads, module.qk_norm.map(|(_, k)| k));
        let v = self.project("v", x, module.v);
        let gate = module.gate.map(|gate| self.project("gate", x, gate));
        let out = self.by_token("attention.out", heads * head_dim);
        let lse = self.exact("attention.lse", self.tokens, heads);
        let (qr, kr) = (q.rotated, k.rotated);
        self.emit(Op::FlashAttentionScore { q: qr, k: kr, v, out, lse, heads, kv_heads, head_dim, window });
        Kept { h, rstd, q, k, v, gate, out, lse }
    }

    /// Gates and projects the heads' outputs and adds the layer's input.
    pub fn attention_output(&mut self, module: &AttentionModule, kept: &Kept) -> View {
        let y = self.gated(module, kept);
        let y = self.project("attention.y", y, module.o);
        self.add("middle", kept.h, y)
    }

    /// Adds the gradient through attention to `dh`, the gradient of the layer's middle.
    pub fn attention_backward(&mut self, module: &AttentionModule, kept: &Kept, dh: View) {
        let recipe::Attention { heads, kv_heads, head_dim, window, .. } = module.config;
        let y = self.gated(module, kept);
        let d_out = self.by_token("attention.d_out", heads * head_dim);
        self.project_backward(module.o, y, dh, d_out.set());
        let (dy, d_gate) = match kept.gate {
            None => (d_out, None),
            Some(gate) => {
                let dx = self.by_token("attention.d_heads", heads * head_dim);
                let d_gate = self.by_token("d_gate", heads);
                self.emit(Op::HeadGateGrad { dy: d_out, x: kept.out, gate, dx, d_gate, heads, head_dim });
                (dx, Some(d_gate))
            }
        };
        let kept = &self.renewed(module, kept);
        let dq = self.by_token("dq", heads * head_dim);
        let dk = self.by_token("dk", kv_heads * head_dim);
        let dv = self.by_token("dv", kv_heads * head_dim);
        let Kept { q, k, v, out, lse, .. } = *kept;
        let (q_in, k_in) = (q.rotated, k.rotated);
        self.emit(Op::FlashAttentionScoreGrad {
            dy,
            q: q_in,
            k: k_in,
            v,
            out,
            lse,
            dq,
            dk,
            dv,
            heads,
            kv_heads,
            head_dim,
            window,
        });
        let dq = self.head_backward("dq", dq, &q, module, heads, module.qk_norm.map(|(q, _)| q));
        let dk = self.head_backward("dk", dk, &k, module, kv_heads, module.qk_norm.map(|(_, k)| k));
        let x = self.rms_norm("attention.x", kept.h, kept.rstd, module.norm);
        let dx = self.by_token("attention.dx", x.cols);
        self.project_backward(module.q, x, dq, dx.set());
        self.project_backward(module.k, x, dk, dx.add());
        self.project_backward(module.v, x, dv, dx.add());
        if let (Some(gate), Some(d_gate)) = (module.gate, d_gate) {
            self.project_backward(gate, x, d_gate, dx.add());
        }
        self.rms_norm_backward(module.norm, dx, kept.h, kept.rstd, dh.add());
    }

    /// Selective recomputation: queries and keys survived as they were projected, where they have a norm; norm and rotation
    /// are made again.
    fn renewed(&mut self, module: &AttentionModule, kept: &Kept) -> Kept {
        let (config, Some((q_norm, k_norm))) = (&module.config, module.qk_norm) else { return *kept };
        if self.recipe.parallel.recompute != Recompute::Selective {
            return *kept;
        }
        let mut again = |name, head: &Head, heads, norm| match head.normed_from {
            Some((x, _)) => {
                self.head(name, x.reshape(self.tokens, heads * config.head_dim), config, heads, Some(norm))
            }
            None => *head,
        };
        let q = again("q", &kept.q, config.heads, q_norm);
        let k = again("k", &kept.k, config.kv_heads, k_norm);
        Kept { q, k, ..*kept }
    }

    /// Norm and rotation of queries or keys.
    fn head(
        &mut self,
        name: &str,
        x: View,
        config: &recipe::Attention,
        heads: u64,
        norm: Option<ParamId>,
    ) -> Head {
        let head = match norm {
            None => Head { rotated: x, normed_from: None },
            Some(gamma) => {
                let rstd = self.exact(&format!("{name}.rstd"), self.tokens * heads, 1);
                let by_head = x.reshape(self.tokens * heads, config.head_dim);
                let y = self.rms_norm(&format!("{name}.normed"), by_head, rstd, gamma);
                let rotated = y.reshape(self.tokens, heads * config.head_dim);
                Head { rotated, normed_from: Some((by_head, rstd)) }
            }
        };
        self.rotate(head.rotated, config, heads, false);
        head
    }

    /// The gradient of [`Builder::head`] from that of its result, which is overwritten.
    fn head_backward(
        &mut self,
        name: &str,
        d: View,
        head: &Head,
        module: &AttentionModule,
        heads: u64,
        norm: Option<ParamId>,
    ) -> View {
        self.rotate(d, &module.config, heads, true);
        let (Some(gamma), Some((x, rstd))) = (norm, head.normed_from) else { return d };
        let dx = self.activation(&format!("{name}.before_norm"), x.rows, x.cols);
        let Rows::Fixed(rows) = x.rows else { unreachable!("a row for each token and head") };
        self.rms_norm_backward(gamma, d.reshape(rows, x.cols), x, rstd, dx.set());
        dx.reshape(self.tokens, d.cols)
    }

    fn rotate(&mut self, x: View, config: &recipe::Attention, heads: u64, inverse: bool) {
        let rope = self.rope(&config.rope, config.head_dim);
        if rope.rotary > 0 {
            let (cos, sin, positions) = (rope.cos, rope.sin, self.program.positions);
            let head_dim = config.head_dim;
            self.emit(Op::RotaryPositionEmbedding { x, cos, sin, positions, heads, head_dim, inverse });
        }
    }

    fn gated(&mut self, module: &AttentionModule, kept: &Kept) -> View {
        let Some(gate) = kept.gate else { return kept.out };
        let y = self.by_token("attention.gated", kept.out.cols);
        let recipe::Attention { heads, head_dim, .. } = module.config;
        self.emit(Op::HeadGate { x: kept.out, gate, y, heads, head_dim });
        y
    }
}

//! From the layer's input to queries, keys and values, and back: projections, biases, norms, limits and rotation.

use super::builder::{Builder, GRADIENT_T, PLAIN, TIMES_WEIGHT_T};
use crate::model::{AttentionModule, Linear, LowRank, ParamId, Projections, Query};
use crate::plan::ops::{Op, Sum};
use crate::plan::program::{Rows, View};
use crate::recipe::{self, QkNorm, Recompute};

/// Queries, keys and values as attention reads them, with what their backward pass reads again.
#[derive(Clone, Copy)]
pub(super) enum Projected {
    Direct([Side; 3]),
    Latent { heads: [View; 3], q: Option<Normed>, kv: Normed },
}

/// Queries, keys or values: as projected, before a norm behind the rotation, and as attention reads them.
#[derive(Clone, Copy)]
pub(super) struct Side {
    raw: View,
    rotated: View,
    ready: View,
    rstd: Option<View>,
}

/// A latent before its norm, and the norm's statistic.
#[derive(Clone, Copy)]
pub(super) struct Normed {
    x: View,
    rstd: View,
}

/// How one of the three is made.
struct Steps<'a> {
    name: &'static str,
    linear: Linear,
    heads: u64,
    norm: Option<ParamId>,
    rotates: bool,
    config: &'a recipe::Attention,
}

impl Projected {
    /// Queries, keys and values.
    pub fn heads(&self) -> [View; 3] {
        match self {
            Projected::Direct(sides) => sides.map(|side| side.ready),
            Projected::Latent { heads, .. } => *heads,
        }
    }
}

/// The steps to queries, keys and values that are projected from the layer's input.
fn steps(module: &AttentionModule, [q, k, v]: [Linear; 3]) -> [Steps<'_>; 3] {
    let config = &module.config;
    let (q_norm, k_norm) = module.qk_norm.unzip();
    let of = |name, linear, heads, norm, rotates| Steps { name, linear, heads, norm, rotates, config };
    [
        of("q", q, config.heads, q_norm, true),
        of("k", k, config.kv_heads, k_norm, true),
        of("v", v, config.kv_heads, None, false),
    ]
}

impl Steps<'_> {
    fn norm_before(&self) -> Option<ParamId> {
        self.norm.filter(|_| self.config.qk_norm != QkNorm::Rotated)
    }

    fn norm_behind(&self) -> Option<ParamId> {
        self.norm.filter(|_| self.config.qk_norm == QkNorm::Rotated)
    }

    /// `x` with a row for each of its norms.
    fn normed_rows(&self, x: View, tokens: u64) -> (View, u64) {
        let rows = if self.config.qk_norm == QkNorm::Width { tokens } else { tokens * self.heads };
        (x.reshape(rows, tokens * x.cols / rows), rows)
    }
}

impl Builder<'_> {
    pub fn projections(&mut self, module: &AttentionModule, x: View) -> Projected {
        match module.input {
            Projections::Direct { q, k, v } => {
                Projected::Direct(steps(module, [q, k, v]).map(|steps| self.side(&steps, x)))
            }
            Projections::Latent { q, kv } => self.latent(&module.config, q, kv, x),
        }
    }

    /// Selective recomputation: queries and keys survived as they were projected or rotated, where a norm or a limit
    /// follows; what follows is made again.
    pub fn renewed(&mut self, module: &AttentionModule, projected: &Projected) -> Projected {
        let (Projections::Direct { q, k, v }, Projected::Direct(sides)) = (module.input, projected) else {
            return *projected;
        };
        if self.recipe.parallel.recompute != Recompute::Selective {
            return *projected;
        }
        let mut again = sides.iter().zip(steps(module, [q, k, v])).map(|(side, steps)| match side {
            Side { raw, rotated, .. } if raw.buffer != rotated.buffer => self.finished(&steps, *raw),
            Side { rotated, rstd, .. } => {
                Side { ready: self.normed(&steps, steps.norm_behind(), *rotated, *rstd), ..*side }
            }
        });
        Projected::Direct(std::array::from_fn(|_| again.next().expect("queries, keys and values")))
    }

    /// The gradients of everything from the layer's input on, from those of queries, keys and values, which are overwritten.
    /// `x_of` makes the input again; returns it and its gradient.
    pub fn projections_backward(
        &mut self,
        module: &AttentionModule,
        projected: &Projected,
        d: [View; 3],
        x_of: impl FnOnce(&mut Self) -> View,
    ) -> (View, View) {
        match (module.input, projected) {
            (Projections::Direct { q, k, v }, Projected::Direct(sides)) => {
                let steps = steps(module, [q, k, v]);
                let mut raw = d;
                for (d, (steps, side)) in raw.iter_mut().zip(steps.iter().zip(sides)) {
                    *d = self.side_backward(steps, side, *d);
                }
                let x = x_of(self);
                let dx = self.by_token("attention.dx", x.cols);
                for (index, (d, steps)) in raw.into_iter().zip(&steps).enumerate() {
                    let sum = if index == 0 { dx.set() } else { dx.add() };
                    self.project_biased_backward(steps.linear, x, d, sum);
                }
                (x, dx)
            }
            (Projections::Latent { q, kv }, Projected::Latent { q: q_kept, kv: kv_kept, .. }) => {
                let x = x_of(self);
                let dx = self.by_token("attention.dx", x.cols);
                self.latent_backward(&module.config, (q, *q_kept), (kv, *kv_kept), d, (x, dx));
                (x, dx)
            }
            _ => unreachable!("a layer keeps what its own kind makes"),
        }
    }

    /// `y = x · wᵀ + b` into a new activation.
    pub fn project_biased(&mut self, name: &str, x: View, linear: Linear) -> View {
        let y = self.project(name, x, linear.weight);
        if let Some(bias) = linear.bias {
            self.add_bias(y, bias, None, None);
        }
        y
    }

    /// The backward pass of [`Builder::project_biased`].
    pub fn project_biased_backward(&mut self, linear: Linear, x: View, dy: View, dx: Sum) {
        self.project_backward(linear.weight, x, dy, dx);
        if let Some(bias) = linear.bias {
            self.add_bias_backward(bias, dy, None, None);
        }
    }

    fn side(&mut self, steps: &Steps, x: View) -> Side {
        let raw = self.project_biased(steps.name, x, steps.linear);
        self.finished(steps, raw)
    }

    /// From a projection to what attention reads.
    fn finished(&mut self, steps: &Steps, raw: View) -> Side {
        let rstd = steps.norm.map(|_| {
            let (_, rows) = steps.normed_rows(raw, self.tokens);
            self.exact(&format!("{}.rstd", steps.name), rows, 1)
        });
        let limited = self.limited(steps, raw, rstd);
        if steps.rotates {
            self.rotate(limited, steps.config, steps.heads, false);
        }
        let ready = self.normed(steps, steps.norm_behind(), limited, rstd);
        Side { raw, rotated: limited, ready, rstd }
    }

    /// The gradient of a projection from that of what attention reads, which is overwritten.
    fn side_backward(&mut self, steps: &Steps, side: &Side, d: View) -> View {
        let d = self.normed_backward(steps, steps.norm_behind(), d, side.rotated, side.rstd);
        if steps.rotates {
            self.rotate(d, steps.config, steps.heads, true);
        }
        if let Some(limit) = steps.config.clip {
            let x = self.normed(steps, steps.norm_before(), side.raw, side.rstd);
            self.emit(Op::ClipGrad { dy: d, x, limit });
        }
        self.normed_backward(steps, steps.norm_before(), d, side.raw, side.rstd)
    }

    /// What rotates: behind a norm and inside a limit, where there are such.
    fn limited(&mut self, steps: &Steps, raw: View, rstd: Option<View>) -> View {
        let x = self.normed(steps, steps.norm_before(), raw, rstd);
        let Some(limit) = steps.config.clip else { return x };
        let y = self.by_token(&format!("{}.clipped", steps.name), x.cols);
        self.emit(Op::Clip { x, y, limit });
        y
    }

    fn normed(&mut self, steps: &Steps, norm: Option<ParamId>, x: View, rstd: Option<View>) -> View {
        let (Some(gamma), Some(rstd)) = (norm, rstd) else { return x };
        let (rows, _) = steps.normed_rows(x, self.tokens);
        let y = self.rms_norm(&format!("{}.normed", steps.name), rows, rstd, gamma);
        y.reshape(self.tokens, x.cols)
    }

    fn normed_backward(
        &mut self,
        steps: &Steps,
        norm: Option<ParamId>,
        d: View,
        x: View,
        rstd: Option<View>,
    ) -> View {
        let (Some(gamma), Some(rstd)) = (norm, rstd) else { return d };
        let (x, rows) = steps.normed_rows(x, self.tokens);
        let dx = self.activation(&format!("d{}.before_norm", steps.name), x.rows, x.cols);
        self.rms_norm_backward(gamma, d.reshape(rows, x.cols), x, rstd, dx.set());
        dx.reshape(self.tokens, d.cols)
    }

    fn rotate(&mut self, x: View, config: &recipe::Attention, heads: u64, inverse: bool) {
        let rope = self.rope(config);
        let head_dim = x.cols / heads;
        // With latents the last channels of a head rotate.
        let from = if config.latent.is_some() { head_dim - rope.rotary } else { 0 };
        let (cos, sin, positions, style) = (rope.cos, rope.sin, self.program.positions, config.rope.style);
        self.emit(Op::RotaryPositionEmbedding {
            x,
            cos,
            sin,
            positions,
            heads,
            head_dim,
            from,
            style,
            inverse,
        });
    }

    fn latent(&mut self, config: &recipe::Attention, query: Query, low: LowRank, x: View) -> Projected {
        let (q, q_kept) = match query {
            Query::Direct(weight) => (self.project("q", x, weight), None),
            Query::Latent(low) => {
                let latent = self.project("q.latent", x, low.down);
                let (n, kept) = self.latent_norm("q.latent", latent, low);
                (self.project("q", n, low.up), Some(kept))
            }
        };
        self.rotate(q, config, config.heads, false);
        let [own, shared] = self.split(low.down, config);
        let latent = self.by_token("kv.latent", low_rank(config));
        self.matmul(x, own, latent.set(), TIMES_WEIGHT_T);
        let rope = self.by_token("k.rope", config.rotary());
        self.matmul(x, shared, rope.set(), TIMES_WEIGHT_T);
        self.rotate(rope, config, 1, false);
        let (n, kv_kept) = self.latent_norm("kv.latent", latent, low);
        let kv = self.project("kv", n, low.up);
        let k = self.by_token("k", config.heads * config.head_dim);
        let v = self.by_token("v", config.heads * config.value_dim);
        self.emit(Op::LatentKeyValue { kv, rope, k, v, heads: config.heads });
        Projected::Latent { heads: [q, k, v], q: q_kept, kv: kv_kept }
    }

    fn latent_backward(
        &mut self,
        config: &recipe::Attention,
        (query, q_kept): (Query, Option<Normed>),
        (low, kv_kept): (LowRank, Normed),
        [dq, dk, dv]: [View; 3],
        (x, dx): (View, View),
    ) {
        self.rotate(dq, config, config.heads, true);
        match (query, q_kept) {
            (Query::Latent(low), Some(kept)) => {
                let d_latent = self.latent_up_backward("q.latent", low, kept, dq);
                self.project_backward(low.down, x, d_latent, dx.set());
            }
            (Query::Direct(weight), _) => self.project_backward(weight, x, dq, dx.set()),
            (Query::Latent(_), None) => unreachable!("a latent is kept"),
        }
        let d_kv = self.by_token("d_kv", dk.cols + dv.cols - config.heads * config.rotary());
        let d_rope = self.by_token("dk.rope", config.rotary());
        self.emit(Op::LatentKeyValueGrad { dk, dv, d_kv, d_rope, heads: config.heads });
        self.rotate(d_rope, config, 1, true);
        let d_latent = self.latent_up_backward("kv.latent", low, kv_kept, d_kv);
        let weights = self.split(low.down, config);
        let gradient = self.gradient(low.down);
        let gradients = halves(gradient.view, config).map(|view| Sum { view, ..gradient });
        for (d, (weight, gradient)) in [d_latent, d_rope].into_iter().zip(weights.into_iter().zip(gradients))
        {
            self.matmul(d, weight, dx.add(), PLAIN);
            self.matmul(d, x, gradient, GRADIENT_T);
        }
    }

    fn latent_norm(&mut self, name: &str, x: View, low: LowRank) -> (View, Normed) {
        let rstd = self.exact(&format!("{name}.rstd"), self.tokens, 1);
        (self.rms_norm(&format!("{name}.normed"), x, rstd, low.norm), Normed { x, rstd })
    }

    /// The gradient of a latent from that of what it was projected to.
    fn latent_up_backward(&mut self, name: &str, low: LowRank, kept: Normed, dy: View) -> View {
        let Normed { x, rstd } = kept;
        let n = self.rms_norm(&format!("{name}.normed"), x, rstd, low.norm);
        let dn = self.by_token(&format!("{name}.dn"), x.cols);
        self.project_backward(low.up, n, dy, dn.set());
        let dx = self.by_token(&format!("{name}.dx"), x.cols);
        self.rms_norm_backward(low.norm, dn, x, rstd, dx.set());
        dx
    }

    /// The rows of a projection to a latent of keys and values, and those to the channels of keys that rotate.
    fn split(&self, down: ParamId, config: &recipe::Attention) -> [View; 2] {
        halves(self.weight(down), config)
    }
}

fn low_rank(config: &recipe::Attention) -> u64 {
    config.latent.as_ref().map_or(0, |latent| latent.kv_rank)
}

fn halves(down: View, config: &recipe::Attention) -> [View; 2] {
    let Rows::Fixed(rows) = down.rows else { unreachable!("weights have a fixed shape") };
    let rank = low_rank(config);
    [down.slice(0..rank), down.slice(rank..rows)]
}

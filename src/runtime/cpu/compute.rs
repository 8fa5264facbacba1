//! Instructions of the compute stream: operands to slices, slices to kernels.

use super::{Cpu, Scalars};
use crate::kernels as k;
use crate::plan::{Accumulate, Axis, Heads, Op, Rows, View};
use crate::recipe;

fn score(score: recipe::Score) -> k::Score {
    match score {
        recipe::Score::Sigmoid => k::Score::Sigmoid,
        recipe::Score::Softmax => k::Score::Softmax,
    }
}

fn gating(index: View, s: recipe::Score, normalize: bool, scale: f64) -> k::Gating {
    let (k, scale) = (index.cols as usize, scale as f32);
    let group_score = k::GroupScore::BestTwo;
    k::Gating { k, score: score(s), normalize, scale, groups: 1, top_groups: 1, group_score }
}

fn glu(activation: recipe::Activation) -> k::Glu {
    let act = match activation.act {
        recipe::Act::SwiGlu => k::Act::Silu,
        recipe::Act::GeGlu => k::Act::GeluTanh,
        recipe::Act::SwiGluOai => k::Act::Sigmoid { alpha: activation.alpha as f32 },
    };
    k::Glu { act, limit: activation.clamp.map(|limit| limit as f32) }
}

fn attention(heads: &Heads) -> k::Attention {
    k::Attention {
        heads: heads.queries as usize,
        kv_heads: heads.keys as usize,
        head_dim: heads.head_dim as usize,
        value_dim: heads.value_dim as usize,
        window: heads.window.map(|w| w as usize),
        scale: heads.scale as f32,
        softcap: heads.softcap.map(|limit| limit as f32),
    }
}

fn fixed(view: View) -> usize {
    let Rows::Fixed(rows) = view.rows else { unreachable!("dense operators have fixed shapes") };
    rows as usize
}

impl Cpu {
    /// Runs one instruction of the compute stream.
    pub(super) fn compute(&self, op: &Op, scalars: &mut Scalars) {
        let adds = |mode: Accumulate| mode.adds(scalars.micro);
        match *op {
            Op::Embedding { table, ids, out, scale } => {
                let (table, ids, cols) = (self.get(table), self.get(ids), out.cols as usize);
                k::embedding(self.out(out), table, ids, cols, scale as f32);
            }
            Op::EmbeddingGrad { dy, ids, d_table, scale } => {
                let (cols, add) = (dy.cols as usize, adds(d_table.mode));
                let (dy, ids) = (self.get(dy), self.get(ids));
                k::embedding_grad(self.out(d_table.view), dy, ids, cols, scale as f32, add);
            }
            Op::Softcap { logits, cap } => k::softcap(self.out(logits), cap as f32),
            Op::CrossEntropy { logits, labels, softcap, mtp } => {
                let scale = mtp.unwrap_or(1.0) / scalars.supervised.max(1.0);
                let softcap = softcap.map(|cap| cap as f32);
                let loss = if mtp.is_some() { &mut scalars.mtp_loss } else { &mut scalars.loss };
                *loss += k::cross_entropy(self.out(logits), self.get(labels), scale as f32, softcap);
            }
            Op::ShiftTokens { x, y, by } => {
                let (cols, add) = (x.cols as usize, adds(y.mode));
                k::shift_tokens(self.out(y.view), self.get(x), &self.segments, cols, by as isize, add);
            }
            Op::ShiftLabels { labels, targets, by } => {
                k::shift_labels(self.out(targets), self.get(labels), &self.segments, by as isize);
            }
            Op::Concat { a, b, out } => {
                k::concat(self.out(out), self.get(a), self.get(b), [a.cols as usize, b.cols as usize]);
            }
            Op::Split { x, a, b } => {
                k::split(self.out(a), self.out(b), self.get(x), [a.cols as usize, b.cols as usize]);
            }
            Op::Matmul { a, b, out, trans_a, trans_b } => {
                let (m, n) = (fixed(out.view), out.view.cols as usize);
                let inner = if trans_a { fixed(a) } else { a.cols as usize };
                let result = self.out(out.view);
                k::matmul(result, self.get(a), self.get(b), m, n, inner, trans_a, trans_b, adds(out.mode));
            }
            Op::Add { a, b, out } => k::add(self.out(out), self.get(a), self.get(b)),
            Op::RmsNorm { x, gamma, y, rstd, eps, offset } => {
                let (x, gamma) = (self.get(x), self.get(gamma));
                k::rms_norm(self.out(y), self.out(rstd), x, gamma, eps as f32, offset as f32);
            }
            Op::RmsNormGrad { dy, x, rstd, gamma, dx, d_gamma, offset } => k::rms_norm_grad(
                self.out(dx.view),
                self.out(d_gamma.view),
                self.get(dy),
                self.get(x),
                self.get(rstd),
                self.get(gamma),
                offset as f32,
                adds(dx.mode),
                adds(d_gamma.mode),
            ),
            Op::Clip { x, y, limit } => k::clip(self.out(y), self.get(x), limit as f32),
            Op::ClipGrad { dy, x, limit } => k::clip_grad(self.out(dy), self.get(x), limit as f32),
            ref op @ (Op::RotaryPositionEmbedding { .. }
            | Op::LatentKeyValue { .. }
            | Op::LatentKeyValueGrad { .. }
            | Op::FlashAttentionScore { .. }
            | Op::FlashAttentionScoreGrad { .. }) => self.attend(op, adds),
            Op::HeadGate { x, gate, y, heads, head_dim } => {
                k::head_gate(self.out(y), self.get(x), self.get(gate), heads as usize, head_dim as usize);
            }
            Op::HeadGateGrad { dy, x, gate, dx, d_gate, heads, head_dim } => {
                let (dy, x, gate) = (self.get(dy), self.get(x), self.get(gate));
                let (heads, head_dim) = (heads as usize, head_dim as usize);
                k::head_gate_grad(self.out(dx), self.out(d_gate), dy, x, gate, heads, head_dim);
            }
            Op::Glu { gate, up, scale, y, act } => {
                let (gate, up, scale) = (self.get(gate), self.get(up), scale.map(|s| self.get(s)));
                k::glu(self.out(y), gate, up, glu(act), scale);
            }
            Op::GluGrad { gate, up, dy, scale, d_scale, act } => k::glu_grad(
                self.out(gate),
                self.out(up),
                self.out(dy),
                glu(act),
                scale.map(|s| self.get(s)),
                d_scale.map(|s| self.out(s)),
                gate.cols as usize,
            ),
            Op::AddBias { x, bias, counts, scale } => {
                let (counts, scale) = (counts.map(|c| self.get(c)), scale.map(|s| self.get(s)));
                k::add_bias(self.out(x), self.get(bias), bias.cols as usize, counts, scale);
            }
            Op::AddBiasGrad { dy, bias, counts, scale, d_bias, d_scale } => k::add_bias_grad(
                self.out(d_bias.view),
                d_scale.map(|s| self.out(s)),
                self.get(dy),
                self.get(bias),
                bias.cols as usize,
                counts.map(|c| self.get(c)),
                scale.map(|s| self.get(s)),
                adds(d_bias.mode),
            ),
            Op::SumSquares { grad, unit, copies } => {
                let held = self.held(unit);
                let grad: &[f32] = &self.get(grad)[..(held.end - held.start) as usize];
                scalars.norm_squared += k::sum_squares(grad) / copies as f64;
            }
            Op::ApplyAdamW { grad, param, m, v, unit, beta1, beta2, eps, weight_decay } => {
                let held = self.held(unit);
                let decayed = self.plan.placement.unit(unit).decayed.clamp(held.start, held.end);
                let (from, to) = ((decayed - held.start) as usize, (held.end - held.start) as usize);
                let (param, m, v) = (self.out::<f32>(param), self.out::<f32>(m), self.out::<f32>(v));
                for (range, weight_decay) in [(0..from, weight_decay), (from..to, 0.0)] {
                    let step = k::AdamWStep {
                        lr: scalars.learning_rate,
                        beta1,
                        beta2,
                        eps,
                        weight_decay,
                        step: scalars.step,
                        grad_scale: scalars.clip_factor(),
                    };
                    let grad: &[f32] = &self.get(grad)[range.clone()];
                    let (m, v) = (&mut m[range.clone()], &mut v[range.clone()]);
                    k::adamw(&mut param[range], grad, m, v, &step);
                }
            }
            Op::MoeAuxLoss { logits, index, load, d_logits, score: s, sequence, weight } => {
                let (k, sequence, weight) = (index.cols as usize, sequence as usize, weight as f32);
                let (logits, index) = (self.get(logits), self.get(index));
                let (d_logits, load) = (self.out(d_logits), self.out(load));
                scalars.aux_loss +=
                    k::balance_loss(d_logits, load, logits, index, k, sequence, score(s), weight);
            }
            ref op => self.experts(op, adds),
        }
    }

    /// The instructions between the projections of attention.
    fn attend(&self, op: &Op, adds: impl Fn(Accumulate) -> bool) {
        match *op {
            Op::RotaryPositionEmbedding { x, cos, sin, positions, heads, head_dim, from, style, inverse } => {
                let rot_dim = 2 * cos.cols as usize;
                let table = k::RopeTable { cos: self.get(cos), sin: self.get(sin), rot_dim };
                let rotation = k::Rotation {
                    heads: heads as usize,
                    head_dim: head_dim as usize,
                    from: from as usize,
                    interleaved: style == recipe::RopeStyle::Interleaved,
                    inverse,
                };
                k::rotary(self.out(x), &table, self.get(positions), &rotation);
            }
            Op::LatentKeyValue { kv, rope, k, v, heads } => {
                let (tokens, heads) = (fixed(kv), heads as usize);
                let (kv, rope) = (self.get(kv), self.get(rope));
                k::latent_key_value(self.out(k), self.out(v), kv, rope, tokens, heads);
            }
            Op::LatentKeyValueGrad { dk, dv, d_kv, d_rope, heads } => {
                let (tokens, heads) = (fixed(d_kv), heads as usize);
                let (dk, dv) = (self.get(dk), self.get(dv));
                k::latent_key_value_grad(self.out(d_kv), self.out(d_rope), dk, dv, tokens, heads);
            }
            Op::FlashAttentionScore { q, k, v, sinks, out, lse, ref heads } => {
                let (q, k, v, sinks) = (self.get(q), self.get(k), self.get(v), sinks.map(|s| self.get(s)));
                let (out, lse) = (self.out(out), self.out(lse));
                k::flash_attention(&attention(heads), out, lse, q, k, v, sinks, &self.segments);
            }
            Op::FlashAttentionScoreGrad { dy, q, k, v, sinks, out, lse, dq, dk, dv, d_sinks, ref heads } => {
                let (dy, out, lse) = (self.get(dy), self.get(out), self.get(lse));
                k::flash_attention_grad(
                    &attention(heads),
                    self.out(dq),
                    self.out(dk),
                    self.out(dv),
                    dy,
                    self.get(q),
                    self.get(k),
                    self.get(v),
                    out,
                    lse,
                    &self.segments,
                );
                if let (Some(sinks), Some(sum)) = (sinks, d_sinks) {
                    let add = adds(sum.mode);
                    k::attention_sink_grad(self.out(sum.view), self.get(sinks), dy, out, lse, add);
                }
            }
            ref other => unreachable!("{} is no part of attention", other.name()),
        }
    }

    /// The instructions of the experts.
    fn experts(&self, op: &Op, adds: impl Fn(Accumulate) -> bool) {
        match *op {
            Op::MoeGatingTopK {
                logits,
                bias,
                index,
                weight,
                score: s,
                normalize,
                scale,
                groups,
                top_groups,
                group_score,
            } => {
                let gating = k::Gating {
                    groups: groups as usize,
                    top_groups: top_groups as usize,
                    group_score: match group_score {
                        recipe::GroupScore::BestTwo => k::GroupScore::BestTwo,
                        recipe::GroupScore::Best => k::GroupScore::Best,
                    },
                    ..gating(index, s, normalize, scale)
                };
                let (logits, bias) = (self.get(logits), bias.map(|bias| self.get(bias)));
                k::gating_top_k(self.out(index), self.out(weight), logits, bias, &gating);
            }
            Op::MoeGatingTopKGrad { logits, index, d_weight, d_logits, score: s, normalize, scale } => {
                let gating = gating(index, s, normalize, scale);
                let (d_weight, logits, index) = (self.get(d_weight), self.get(logits), self.get(index));
                k::gating_top_k_grad(self.out(d_logits), d_weight, logits, index, &gating);
            }
            Op::MoeCountLoad { counts, load } => {
                k::count_load(self.out(load.view), self.get(counts), adds(load.mode));
            }
            Op::MoeUpdateBias { load, bias, rate } => {
                k::update_bias(self.out(bias), self.get(load), rate as f32);
            }
            Op::MoeTokenSort { index, position, source, counts } => {
                k::token_sort(self.out(position), self.out(source), self.out(counts), self.get(index));
            }
            Op::MoeTokenPermute { x, source, rows, top_k } => {
                k::token_permute(self.out(rows), self.get(x), self.get(source), top_k as usize);
            }
            Op::MoeTokenUnpermute { rows, position, y, top_k } => {
                let (rows, position) = (self.get(rows), self.get(position));
                k::token_unpermute(self.out(y.view), rows, position, top_k as usize, adds(y.mode));
            }
            Op::MoeWeightPermute { weight, source, out } => {
                k::weight_permute(self.out(out), self.get(weight), self.get(source));
            }
            Op::MoeWeightUnpermute { rows, position, weight } => {
                k::weight_unpermute(self.out(weight), self.get(rows), self.get(position));
            }
            Op::GroupedMatmul { x, w, counts, out, trans_w } => {
                let (n, inner) = (out.view.cols as usize, x.cols as usize);
                let result = self.out(out.view);
                let (x, w, counts) = (self.get(x), self.get(w), self.get(counts));
                k::grouped_matmul(result, x, w, counts, n, inner, trans_w, adds(out.mode));
            }
            Op::GroupedMatmulGrad { dy, x, counts, dw } => {
                let (n, inner) = (dy.cols as usize, x.cols as usize);
                let (dy, x, counts) = (self.get(dy), self.get(x), self.get(counts));
                k::grouped_matmul_weight_grad(self.out(dw.view), dy, x, counts, n, inner, adds(dw.mode));
            }
            ref other => unreachable!("{} is not an instruction of the compute stream", other.name()),
        }
    }

    /// The elements of a unit that this rank holds.
    fn held(&self, unit: crate::plan::UnitId) -> std::ops::Range<u64> {
        let unit = self.plan.placement.unit(unit);
        unit.held(self.coordinate(unit.axis))
    }

    /// Where this rank stands on an axis.
    pub(super) fn coordinate(&self, axis: Axis) -> u64 {
        self.plan.mesh.coordinate(axis, u64::from(self.peers.comm.rank()))
    }
}

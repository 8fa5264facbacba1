//! Mixture of experts: route, sort, dispatch over `ep`, grouped products, combine.
//!
//! The routing weights travel with the tokens and scale the experts' activations, so an expert's output is summed as
//! it comes and need not be kept for the gradient of the weights.

use super::builder::Builder;
use super::ffn::Mlp;
use crate::base::DType;
use crate::model::{MoeModule, ParamId};
use crate::plan::memory::Category;
use crate::plan::ops::{Accumulate, Op, Sum};
use crate::plan::program::{Routed, Rows, SlotId, View};
use crate::recipe::{self, DeviceKind, GroupScore, Score};

/// What the backward pass reads again.
#[derive(Clone, Copy)]
pub(super) struct Kept {
    logits: View,
    index: View,
    position: View,
    source: View,
    /// Tokens of this rank that each expert of all ranks gets, and rows of each local expert.
    sorted: View,
    counts: View,
    /// Set where the experts are divided over ranks.
    slot: Option<SlotId>,
    /// Token rows as this rank's experts read them; made again from the tokens where they need not travel.
    rows: View,
    /// Routing weight of each row.
    scale: View,
    inside: Mlp,
    shared: Option<Mlp>,
    shared_weight: Option<SharedWeight>,
}

/// The weight of the shared expert, that of a router with one expert.
#[derive(Clone, Copy)]
struct SharedWeight {
    logits: View,
    index: View,
    weight: View,
}

impl Builder<'_> {
    pub fn moe(&mut self, module: &MoeModule, x: View) -> Kept {
        let (experts, top_k) = (module.config.experts, module.config.top_k);
        let pairs = self.tokens * top_k;
        let logits = self.exact("router.logits", self.tokens, experts);
        let router = self.weight(module.router);
        self.matmul(x, router, logits.set(), super::builder::TIMES_WEIGHT_T);
        if let Some(bias) = module.logit_bias {
            self.add_bias(logits, bias, None, None);
        }
        let index = self.whole("router.index", self.tokens, top_k);
        let weight = self.exact("router.weight", self.tokens, top_k);
        let bias = module.bias.map(|bias| self.frozen[&bias]);
        let router = &module.config.router;
        let (score, normalize, scale) = (router.score, router.normalize, router.scale);
        let recipe::Router { groups, top_groups, group_score, .. } = *router;
        self.emit(Op::MoeGatingTopK {
            logits,
            bias,
            index,
            weight,
            score,
            normalize,
            scale,
            groups,
            top_groups,
            group_score,
        });
        let position = self.whole("position", self.tokens, top_k);
        let source = self.whole("source", pairs, 1);
        let sorted = self.whole("counts", 1, experts);
        self.emit(Op::MoeTokenSort { index, position, source, counts: sorted });
        let sent = self.token_rows("rows", x, source, top_k);
        let sent_scale = self.exact("scale", pairs, 1);
        self.emit(Op::MoeWeightPermute { weight, source, out: sent_scale });

        let slot = (self.mesh.ep > 1).then(|| self.slot(module));
        let (rows, scale, counts) = match slot {
            None => (sent, sent_scale, sorted),
            Some(slot) => {
                let counts = self.whole("local_counts", 1, experts / self.mesh.ep);
                self.emit(Op::Exchange { counts: sorted, local: counts, slot });
                let rows = self.dispatch("received", sent, slot);
                let scale = self.dispatch_exact("received_scale", sent_scale, slot);
                (rows, scale, counts)
            }
        };
        let inside = self.experts(module, rows, counts);
        let shared = module.shared.as_ref().map(|shared| self.mlp("shared", shared, x));
        let shared_weight = module.shared_router.map(|router| self.shared_weight(router, x));
        Kept {
            logits,
            index,
            position,
            source,
            sorted,
            counts,
            slot,
            rows,
            scale,
            inside,
            shared,
            shared_weight,
        }
    }

    /// Both halves of every expert before the activation.
    fn experts(&mut self, module: &MoeModule, rows: View, counts: View) -> Mlp {
        let gate = self.grouped("experts.gate", rows, counts, module.gate);
        let up = self.grouped("experts.up", rows, counts, module.up);
        if let Some(bias) = module.biases {
            self.add_bias(gate, bias.gate, Some(counts), None);
            self.add_bias(up, bias.up, Some(counts), None);
        }
        Mlp { gate, up }
    }

    fn shared_weight(&mut self, router: ParamId, x: View) -> SharedWeight {
        let logits = self.exact("shared.logit", self.tokens, 1);
        let router = self.weight(router);
        self.matmul(x, router, logits.set(), super::builder::TIMES_WEIGHT_T);
        let index = self.whole("shared.index", self.tokens, 1);
        let weight = self.exact("shared.weight", self.tokens, 1);
        let (score, normalize, scale) = (Score::Sigmoid, false, 1.0);
        let (groups, top_groups, group_score) = (1, 1, GroupScore::BestTwo);
        self.emit(Op::MoeGatingTopK {
            logits,
            bias: None,
            index,
            weight,
            score,
            normalize,
            scale,
            groups,
            top_groups,
            group_score,
        });
        SharedWeight { logits, index, weight }
    }

    /// `y = Σ experts + shared expert`
    pub fn moe_output(&mut self, module: &MoeModule, kept: &Kept, y: View) {
        self.count_load(module, kept.sorted);
        let Kept { inside: Mlp { gate, up }, counts, .. } = *kept;
        let act = self.activation("experts.act", gate.rows, gate.cols);
        let activation = module.config.activation();
        self.emit(Op::Glu { gate, up, scale: Some(kept.scale), y: act, act: activation });
        let made = self.grouped("experts.y", act, counts, module.down);
        if let Some(bias) = module.biases {
            self.add_bias(made, bias.down, Some(counts), Some(kept.scale));
        }
        let rows = self.combine("returned", made, kept, module.config.top_k);
        let (position, top_k) = (kept.position, module.config.top_k);
        self.emit(Op::MoeTokenUnpermute { rows, position, y: y.set(), top_k });
        if let (Some(shared), Some(mlp)) = (&module.shared, &kept.shared) {
            let weight = kept.shared_weight.map(|shared| shared.weight);
            self.mlp_output("shared", shared, mlp, weight, y.add());
        }
    }

    /// Gradients of router and experts; `dx` becomes the gradient of `x` from `dy`, that of the output.
    pub fn moe_backward(&mut self, module: &MoeModule, kept: &Kept, x: View, dy: View, dx: View) {
        let Kept { counts, source, position, scale, .. } = *kept;
        let top_k = module.config.top_k;
        let pairs = self.tokens * top_k;
        let Mlp { gate, up } = match self.recomputes_inside() {
            true => {
                let rows = self.rows_again(kept, x, top_k);
                self.experts(module, rows, counts)
            }
            false => kept.inside,
        };

        let sent = self.token_rows("d_rows", dy, source, top_k);
        let d_made = kept.slot.map_or(sent, |slot| self.dispatch("d_received", sent, slot));
        let act = self.activation("experts.d_act", gate.rows, gate.cols);
        self.grouped_backward_input(d_made, counts, module.down, act.set());
        let category = Category::Dispatch;
        let d_scale = self.temporary("d_scale", gate.rows, 1, DType::F32, category);
        let activation = module.config.activation();
        let (weight, d_weight) = (Some(scale), Some(d_scale));
        self.emit(Op::GluGrad { gate, up, dy: act, scale: weight, d_scale: d_weight, act: activation });
        self.grouped_gradient(module.down, d_made, act, counts);
        if let Some(bias) = module.biases {
            self.add_bias_backward(bias.down, d_made, Some(counts), Some((scale, d_scale)));
            self.add_bias_backward(bias.gate, gate, Some(counts), None);
            self.add_bias_backward(bias.up, up, Some(counts), None);
        }

        let rows = self.rows_again(kept, x, top_k);
        self.grouped_gradient(module.gate, gate, rows, counts);
        self.grouped_gradient(module.up, up, rows, counts);
        let d_rows = self.activation("experts.dx", gate.rows, x.cols);
        self.grouped_backward_input(gate, counts, module.gate, d_rows.set());
        self.grouped_backward_input(up, counts, module.up, d_rows.add());
        let d_rows = self.combine("d_returned", d_rows, kept, top_k);
        self.emit(Op::MoeTokenUnpermute { rows: d_rows, position, y: dx.set(), top_k });

        let d_scale = match kept.slot {
            None => d_scale,
            Some(slot) => {
                let out = self.exact("d_scale_returned", pairs, 1);
                self.emit(Op::Combine { rows: d_scale, out, slot });
                out
            }
        };
        let d_weight = self.exact("router.d_weight", self.tokens, top_k);
        self.emit(Op::MoeWeightUnpermute { rows: d_scale, position, weight: d_weight });
        self.router_backward(module, kept, d_weight, x, dx);
        if let (Some(shared), Some(mlp)) = (&module.shared, &kept.shared) {
            let weight =
                kept.shared_weight.map(|w| (w.weight, self.exact("shared.d_weight", self.tokens, 1)));
            self.mlp_backward("shared", shared, mlp, x, dy, weight, dx.add());
            if let (Some(router), Some(kept), Some((_, d_weight))) =
                (module.shared_router, kept.shared_weight, weight)
            {
                self.shared_weight_backward(router, &kept, d_weight, x, dx);
            }
        }
    }

    /// The rows that experts read: kept where they have travelled, made again where not.
    fn rows_again(&mut self, kept: &Kept, x: View, top_k: u64) -> View {
        match kept.slot {
            Some(_) => kept.rows,
            None => self.token_rows("rows", x, kept.source, top_k),
        }
    }

    fn shared_weight_backward(
        &mut self,
        router: ParamId,
        kept: &SharedWeight,
        d_weight: View,
        x: View,
        dx: View,
    ) {
        let SharedWeight { logits, index, .. } = *kept;
        let d_logits = self.exact("shared.d_logit", self.tokens, 1);
        let (score, normalize, scale) = (Score::Sigmoid, false, 1.0);
        self.emit(Op::MoeGatingTopKGrad { logits, index, d_weight, d_logits, score, normalize, scale });
        self.project_backward(router, x, d_logits, dx.add());
    }

    fn router_backward(&mut self, module: &MoeModule, kept: &Kept, d_weight: View, x: View, dx: View) {
        let Kept { logits, index, .. } = *kept;
        let d_logits = self.exact("router.d_logits", self.tokens, module.config.experts);
        let router = &module.config.router;
        let (score, normalize, scale) = (router.score, router.normalize, router.scale);
        self.emit(Op::MoeGatingTopKGrad { logits, index, d_weight, d_logits, score, normalize, scale });
        self.aux_loss(module, logits, index, d_logits);
        self.project_backward(module.router, x, d_logits, dx.add());
        if let Some(bias) = module.logit_bias {
            self.add_bias_backward(bias, d_logits, None, None);
        }
    }

    /// What the routers of the ep group may send to one rank.
    fn slot(&mut self, module: &MoeModule) -> SlotId {
        let (experts, top_k, ep) = (module.config.experts, module.config.top_k, self.mesh.ep);
        let balanced = self.tokens * top_k;
        let bound = self.tokens * ep * top_k.min(experts / ep);
        let (parallel, device) = (&self.recipe.parallel, &self.recipe.cluster.device);
        let (busiest, capacity) = (balanced, bound);
        let even = Routed { name: self.scope.clone(), experts, balanced, busiest, bound, capacity };
        let routed = match (parallel.ep_imbalance, device.kind) {
            // Host memory that is never touched costs nothing, so a CPU takes whatever comes.
            (None, DeviceKind::Cpu) => even,
            (imbalance, _) => even.imbalanced(imbalance.unwrap_or(1.0)),
        };
        self.program.routed.push(routed);
        SlotId(self.program.routed.len() as u32 - 1)
    }

    fn whole(&mut self, name: &str, rows: u64, cols: u64) -> View {
        self.temporary(name, Rows::Fixed(rows), cols, DType::I32, Category::Activations)
    }

    fn token_rows(&mut self, name: &str, x: View, source: View, top_k: u64) -> View {
        let rows = Rows::Fixed(self.tokens * top_k);
        let rows = self.temporary(name, rows, x.cols, self.precision.params, Category::Dispatch);
        self.emit(Op::MoeTokenPermute { x, source, rows, top_k });
        rows
    }

    fn dispatch(&mut self, name: &str, rows: View, slot: SlotId) -> View {
        let out = self.activation(name, Rows::Routed(slot), rows.cols);
        self.emit(Op::Dispatch { rows, out, slot });
        out
    }

    fn dispatch_exact(&mut self, name: &str, rows: View, slot: SlotId) -> View {
        let (dtype, category) = (DType::F32, Category::Dispatch);
        let out = self.temporary(name, Rows::Routed(slot), rows.cols, dtype, category);
        self.emit(Op::Dispatch { rows, out, slot });
        out
    }

    /// Rows on their way back to the ranks of their tokens.
    fn combine(&mut self, name: &str, rows: View, kept: &Kept, top_k: u64) -> View {
        let Some(slot) = kept.slot else { return rows };
        let back = Rows::Fixed(self.tokens * top_k);
        let out = self.temporary(name, back, rows.cols, self.precision.params, Category::Dispatch);
        self.emit(Op::Combine { rows, out, slot });
        out
    }

    fn grouped(&mut self, name: &str, x: View, counts: View, weight: ParamId) -> View {
        let w = self.weight(weight);
        let cols = self.model.param(weight).shape[1];
        let out = self.temporary(name, x.rows, cols, self.precision.params, Category::Dispatch);
        self.emit(Op::GroupedMatmul { x, w, counts, out: out.set(), trans_w: true });
        out
    }

    fn grouped_backward_input(&mut self, dy: View, counts: View, weight: ParamId, out: Sum) {
        let w = self.weight(weight);
        self.emit(Op::GroupedMatmul { x: dy, w, counts, out, trans_w: false });
    }

    fn grouped_gradient(&mut self, weight: ParamId, dy: View, x: View, counts: View) {
        let dw = self.gradient(weight);
        debug_assert_ne!(dw.mode, Accumulate::Always, "an expert matrix is used once a layer");
        self.emit(Op::GroupedMatmulGrad { dy, x, counts, dw });
    }
}

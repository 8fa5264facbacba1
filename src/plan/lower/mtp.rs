//! Multi-token prediction (DeepSeek-V3, arXiv 2412.19437, eq. 21 to 25).
//!
//! Layer k reads what the layer before it has made of each token, and the embedding of the k-th next token of the same
//! document; it predicts the token behind that one. Embeddings further on are rows of those that the step began with, so the
//! table is read once. All layers run before the first head: a head that they share is gathered once and its gradient is
//! reduced once.

use super::builder::Builder;
use super::ends::Output;
use super::{LayerKept, backward, forward};
use crate::base::DType;
use crate::model::{MtpModule, ParamId};
use crate::plan::memory::Category;
use crate::plan::ops::{Op, Sum};
use crate::plan::program::{Rows, View};
use crate::recipe::MtpInput;

/// Where a layer comes from.
#[derive(Clone, Copy)]
struct Source {
    /// Which of the next tokens it reads.
    by: i64,
    embedded: View,
    /// What the layer before it has made.
    input: View,
    /// Of the norms of both.
    rstds: [View; 2],
}

/// What the backward pass reads again.
struct Kept {
    source: Source,
    layer: LayerKept,
}

impl<'a> Builder<'a> {
    /// The layers that are trained in this program.
    pub fn mtp(&self) -> &'a [MtpModule] {
        if self.task.trains() { self.model.trained_mtp() } else { &[] }
    }

    /// Runs all layers behind the state `h` of the model's own ones, all losses, and all layers back. Returns the gradient of
    /// `h`, and the part of that of the embedded tokens that comes from here.
    pub fn predict_ahead(&mut self, modules: &[MtpModule], embedded: View, h: View) -> (View, View) {
        let reads = self.recipe.model.mtp.as_ref().map_or(MtpInput::Normed, |mtp| mtp.input);
        let mut outputs: Vec<Output> = Vec::with_capacity(modules.len() + 1);
        let mut saved = Vec::with_capacity(modules.len());
        for (k, module) in modules.iter().enumerate() {
            self.scope = format!("mtp{k}");
            self.enter();
            let before = match outputs.last() {
                Some(before) => *before,
                None => {
                    let main = self.output(h, self.model.final_norm);
                    outputs.push(main);
                    main
                }
            };
            let input = match reads {
                MtpInput::State => before.state,
                MtpInput::Normed => before.normed,
            };
            let (state, kept) = self.mtp_forward(module, k as i64 + 1, embedded, input);
            outputs.push(self.output(state, module.norm));
            saved.push(kept);
            self.leave();
        }
        let gradients = self.losses(modules, &outputs);
        let d_embedded = self.by_token("d_embedded", embedded.cols);
        let mut dh = self.by_token("dh", h.cols).set();
        for ((k, module), kept) in modules.iter().enumerate().zip(saved).rev() {
            self.with_gradients(format!("mtp{k}.back"), |b| {
                b.output_backward(&outputs[k + 1], gradients[k + 1], dh);
                let to_embedded = if k + 1 == modules.len() { d_embedded.set() } else { d_embedded.add() };
                let below = b.by_token("dh", h.cols);
                let (to_input, to_below) = match reads {
                    MtpInput::State => (below.set(), below.add()),
                    MtpInput::Normed => (gradients[k].add(), below.set()),
                };
                b.mtp_backward(module, kept, dh.view, to_input, to_embedded);
                dh = to_below;
                if k == 0 {
                    b.output_backward(&outputs[0], gradients[0], dh);
                }
            });
        }
        (dh.view, d_embedded)
    }

    /// The losses of all outputs, the model's own first. Returns the gradients of the normed states.
    fn losses(&mut self, modules: &[MtpModule], outputs: &[Output]) -> Vec<View> {
        let weight = self.recipe.model.mtp.as_ref().map_or(0.0, |mtp| mtp.loss) / modules.len() as f64;
        let (main, labels) = (self.model.head, self.program.labels);
        let (shared, own): (Vec<_>, Vec<_>) =
            (1..).zip(modules).zip(&outputs[1..]).partition(|((_, module), _)| module.head.is_none());
        let mut gradients = self.with_gradients("head".into(), |b| {
            let first = b.loss(outputs[0].normed, main, labels, None);
            let others = shared.into_iter().map(|((by, _), output)| b.loss_ahead(output, main, by, weight));
            [first].into_iter().chain(others).collect::<Vec<_>>()
        });
        gradients.extend(own.into_iter().map(|((by, module), output)| {
            self.with_gradients(format!("mtp{}.head", by - 1), |b| {
                b.loss_ahead(output, module.head.unwrap_or(main), by, weight)
            })
        }));
        gradients
    }

    /// The loss of a layer that has read the `by`-th next token. Returns the gradient of its normed state.
    fn loss_ahead(&mut self, output: &Output, head: ParamId, by: i64, weight: f64) -> View {
        let rows = Rows::Fixed(self.tokens);
        let targets = self.temporary("targets", rows, 1, DType::I32, Category::Activations);
        self.emit(Op::ShiftLabels { labels: self.program.labels, targets, by });
        self.loss(output.normed, head, targets, Some(weight))
    }

    fn mtp_forward(&mut self, module: &MtpModule, by: i64, embedded: View, input: View) -> (View, Kept) {
        let rstds = ["ahead.rstd", "input.rstd"].map(|name| self.exact(name, self.tokens, 1));
        let source = Source { by, embedded, input, rstds };
        let (joined, _) = self.joined(module, &source);
        let x = self.project("projected", joined, module.project);
        let (out, layer) = forward(self, &module.layer, x);
        (out, Kept { source, layer })
    }

    /// Both inputs, normed, side by side, and the embeddings further on as they were.
    fn joined(&mut self, module: &MtpModule, source: &Source) -> (View, View) {
        let Source { by, embedded, input, rstds } = *source;
        let ahead = self.by_token("ahead", embedded.cols);
        self.emit(Op::ShiftTokens { x: embedded, y: ahead.set(), by });
        let a = self.rms_norm("ahead.x", ahead, rstds[0], module.embed_norm);
        let b = self.rms_norm("input.x", input, rstds[1], module.hidden_norm);
        let out = self.by_token("joined", a.cols + b.cols);
        self.emit(Op::Concat { a, b, out });
        (out, ahead)
    }

    /// From `dh`, the gradient of the layer's state, those of what it reads.
    fn mtp_backward(&mut self, module: &MtpModule, kept: Kept, dh: View, d_input: Sum, d_embedded: Sum) {
        let Kept { source, layer } = kept;
        backward(self, &module.layer, layer, dh);
        let (joined, ahead) = self.joined(module, &source);
        let x = self.by_token("d_joined", joined.cols);
        self.project_backward(module.project, joined, dh, x.set());
        let [a, b] = ["d_ahead.x", "d_input.x"].map(|name| self.by_token(name, dh.cols));
        self.emit(Op::Split { x, a, b });
        let d_ahead = self.by_token("d_ahead", ahead.cols);
        self.rms_norm_backward(module.embed_norm, a, ahead, source.rstds[0], d_ahead.set());
        self.emit(Op::ShiftTokens { x: d_ahead, y: d_embedded, by: -source.by });
        self.rms_norm_backward(module.hidden_norm, b, source.input, source.rstds[1], d_input);
    }
}

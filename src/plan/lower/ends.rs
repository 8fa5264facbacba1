//! Both ends of the model: the embedding, and the head with its loss.

use super::builder::{Builder, GRADIENT_T, PLAIN, TIMES_WEIGHT_T};
use crate::base::DType;
use crate::model::ParamId;
use crate::plan::memory::Category;
use crate::plan::ops::{Op, Sum};
use crate::plan::program::{Rows, View};
use crate::recipe::Recipe;

/// Rows of logits at a time: as many as fit into this, so that a large vocabulary costs time and not memory …
const LOGITS_CHUNK_BYTES: u64 = 16 << 20;
/// … but enough for products to run at full speed.
const LOGITS_CHUNK_ROWS: u64 = 512;

/// Rows of logits that the head makes at a time: those of the recipe, or what keeps products fast and memory low.
pub(in crate::plan) fn chunk_rows(recipe: &Recipe) -> u64 {
    let balanced = (LOGITS_CHUNK_BYTES / (4 * recipe.model.vocab)).max(LOGITS_CHUNK_ROWS);
    recipe.train.loss_chunk.unwrap_or(balanced)
}

/// A state and what the norm in front of a head makes of it.
#[derive(Clone, Copy)]
pub(super) struct Output {
    pub state: View,
    pub normed: View,
    rstd: View,
    norm: ParamId,
}

impl Builder<'_> {
    pub fn embedding(&mut self) -> View {
        self.scope = "embed".into();
        let out = self.by_token("out", self.model.hidden);
        let (table, ids) = (self.weight(self.model.embed), self.program.tokens);
        self.emit(Op::Embedding { table, ids, out, scale: self.model.embed_scale });
        out
    }

    /// The gradient of the table, from the parts of that of the embedded tokens.
    pub fn embedding_backward(&mut self, parts: impl IntoIterator<Item = View>) {
        self.scope = "embed.back".into();
        let unit = self.homes[&self.model.embed].0;
        self.begin_gradient(unit);
        for dy in parts {
            let d_table = self.gradient(self.model.embed);
            let ids = self.program.tokens;
            self.emit(Op::EmbeddingGrad { dy, ids, d_table, scale: self.model.embed_scale });
        }
        self.finish_gradient(unit);
    }

    /// Final norm, logits, loss and their backward passes. Returns the gradient of `h`.
    pub fn head_and_loss(&mut self, h: View) -> View {
        self.with_gradients("head".into(), |b| {
            let output = b.output(h, b.model.final_norm);
            let dx = b.loss(output.normed, b.model.head, b.program.labels, None);
            let dh = b.by_token("dh", h.cols);
            b.output_backward(&output, dx, dh.set());
            dh
        })
    }

    /// The norm in front of a head.
    pub fn output(&mut self, state: View, norm: ParamId) -> Output {
        let rstd = self.exact("rstd", self.tokens, 1);
        Output { state, normed: self.rms_norm("x", state, rstd, norm), rstd, norm }
    }

    /// The gradient `dh` of a state from that of its norm.
    pub fn output_backward(&mut self, output: &Output, dx: View, dh: Sum) {
        self.rms_norm_backward(output.norm, dx, output.state, output.rstd, dh);
    }

    /// Logits, loss and their backward passes, some rows of logits at a time; `mtp` is the weight of a loss of multi-token
    /// prediction. Returns the gradient of `x`.
    pub fn loss(&mut self, x: View, head: ParamId, labels: View, mtp: Option<f64>) -> View {
        let dx = self.by_token("dx", x.cols);
        let rows = chunk_rows(self.recipe);
        let mut start = 0;
        while start < self.tokens {
            let chunk = start..(start + rows).min(self.tokens);
            start = chunk.end;
            let count = Rows::Fixed(chunk.end - chunk.start);
            let logits = self.temporary("logits", count, self.model.vocab, DType::F32, Category::Logits);
            let weight = self.weight(head);
            let rows_of_x = x.slice(chunk.clone());
            self.matmul(rows_of_x, weight, logits.set(), TIMES_WEIGHT_T);
            self.softcap(logits);
            let (labels, softcap) = (labels.slice(chunk.clone()), self.model.logit_softcap);
            self.emit(Op::CrossEntropy { logits, labels, softcap, mtp });
            self.matmul(logits, weight, dx.slice(chunk).set(), PLAIN);
            let d_head = self.gradient(head);
            self.matmul(logits, rows_of_x, d_head, GRADIENT_T);
        }
        dx
    }

    /// Logits of all tokens, for a program that only goes forward.
    pub fn head_logits(&mut self, h: View) {
        self.scope = "head".into();
        let rstd = self.exact("rstd", self.tokens, 1);
        let x = self.rms_norm("x", h, rstd, self.model.final_norm);
        let (rows, vocab) = (Rows::Fixed(self.tokens), self.model.vocab);
        let logits = self.add_buffer("logits".into(), rows, vocab, DType::F32, Category::Logits, true);
        let head = self.weight(self.model.head);
        self.matmul(x, head, logits.set(), TIMES_WEIGHT_T);
        self.softcap(logits);
        self.program.logits = Some(logits);
    }

    fn softcap(&mut self, logits: View) {
        if let Some(cap) = self.model.logit_softcap {
            self.emit(Op::Softcap { logits, cap });
        }
    }
}

//! Both ends of the model: the embedding, and the head with its loss.

use super::builder::{Builder, GRADIENT_T, PLAIN, TIMES_WEIGHT_T};
use crate::base::DType;
use crate::plan::memory::Category;
use crate::plan::ops::Op;
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

impl Builder<'_> {
    pub fn embedding(&mut self) -> View {
        self.scope = "embed".into();
        let out = self.by_token("out", self.model.hidden);
        let (table, ids) = (self.weight(self.model.embed), self.program.tokens);
        self.emit(Op::Embedding { table, ids, out });
        out
    }

    pub fn embedding_backward(&mut self, dh: View) {
        self.scope = "embed.back".into();
        let unit = self.homes[&self.model.embed].0;
        self.begin_gradient(unit);
        let d_table = self.gradient(self.model.embed);
        let ids = self.program.tokens;
        self.emit(Op::EmbeddingGrad { dy: dh, ids, d_table });
        self.finish_gradient(unit);
    }

    /// Final norm, logits, loss and their backward passes, some rows of logits at a time. Returns the gradient of `h`.
    pub fn head_and_loss(&mut self, h: View) -> View {
        self.scope = "head".into();
        self.begin_gradients();
        let rstd = self.exact("rstd", self.tokens, 1);
        let x = self.rms_norm("x", h, rstd, self.model.final_norm);
        let dx = self.by_token("dx", x.cols);
        let rows = chunk_rows(self.recipe);
        let mut start = 0;
        while start < self.tokens {
            let chunk = start..(start + rows).min(self.tokens);
            start = chunk.end;
            let count = Rows::Fixed(chunk.end - chunk.start);
            let logits = self.temporary("logits", count, self.model.vocab, DType::F32, Category::Logits);
            let head = self.weight(self.model.head);
            let rows_of_x = x.slice(chunk.clone());
            self.matmul(rows_of_x, head, logits.set(), TIMES_WEIGHT_T);
            let labels = self.program.labels.slice(chunk.clone());
            self.emit(Op::CrossEntropy { logits, labels });
            self.matmul(logits, head, dx.slice(chunk).set(), PLAIN);
            let d_head = self.gradient(self.model.head);
            self.matmul(logits, rows_of_x, d_head, GRADIENT_T);
        }
        let dh = self.by_token("dh", h.cols);
        self.rms_norm_backward(self.model.final_norm, dx, h, rstd, dh.set());
        self.finish_gradients();
        dh
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
        self.program.logits = Some(logits);
    }
}

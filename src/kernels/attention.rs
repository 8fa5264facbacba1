//! Causal attention over packed documents without the score matrix (aclnn `FlashAttentionScore`).
//!
//! Query `s` sees the keys `max(start of its segment, s + 1 − window) ..= s`: one interval, whose ends never
//! move back from one query to the next. So a block of queries needs one run of keys, taken in tiles, and
//! everything outside is never computed. The query heads that share a key head are stacked into the rows of
//! one product.

use super::gemm::{View, matmul_strided};
use super::math::{exp, exp_sum, max, tanh};
use super::parallel::{Shared, run};
use super::simd::vectorized;
use rayon::prelude::*;
use std::ops::Range;

/// Keys of a tile.
pub(super) const KEYS: usize = 128;

/// Most rows (queries times stacked heads) of a block.
pub(super) const ROWS: usize = 128;

/// Elements of a block of queries; caps the rows where heads are wide.
pub const BLOCK: usize = 1 << 14;

/// The shape of an attention layer: `q` [tokens, heads, head_dim], `k` [tokens, kv_heads, head_dim], `v` [tokens,
/// kv_heads, value_dim], `o` [tokens, heads, value_dim].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Attention {
    pub heads: usize,
    /// Query head `j` uses key head `j / (heads / kv_heads)`.
    pub kv_heads: usize,
    pub head_dim: usize,
    pub value_dim: usize,
    /// Keys a query sees at most, itself included.
    pub window: Option<usize>,
    /// Factor on the scores, usually 1 / sqrt(head_dim).
    pub scale: f32,
    /// Limit L of a score s: `L · tanh(s / L)`.
    pub softcap: Option<f32>,
}

/// Some queries of some heads that share a key head: the unit of work.
#[derive(Debug, Clone)]
pub(super) struct Block {
    pub kv_head: usize,
    pub heads: Range<usize>,
    pub queries: Range<usize>,
}

impl Attention {
    /// Query heads of one key head.
    pub(super) fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// Heads and queries of a block: as many heads as there are, then queries up to the room there is.
    fn block_size(&self) -> (usize, usize) {
        let rows = (BLOCK / self.head_dim.max(self.value_dim)).min(ROWS);
        let heads = self.group().min(rows);
        (heads, rows / heads)
    }

    /// How many blocks the heads of one key head and `queries` queries make.
    pub(super) fn blocks(&self, queries: usize) -> usize {
        let (heads, rows) = self.block_size();
        self.group().div_ceil(heads) * queries.div_ceil(rows)
    }

    /// The `index`-th block of a key head over `queries`.
    pub(super) fn block(&self, kv_head: usize, queries: &Range<usize>, index: usize) -> Block {
        let (heads, rows) = self.block_size();
        let along = queries.len().div_ceil(rows);
        let first_head = kv_head * self.group() + index / along * heads;
        let first_query = queries.start + index % along * rows;
        Block {
            kv_head,
            heads: first_head..(first_head + heads).min((kv_head + 1) * self.group()),
            queries: first_query..(first_query + rows).min(queries.end),
        }
    }

    /// The first key each query of a block sees.
    pub(super) fn first_keys(&self, block: &Block, segments: &[u32]) -> [usize; ROWS] {
        let mut first = [0; ROWS];
        for (first, s) in first.iter_mut().zip(block.queries.clone()) {
            let segment = segments[segments.partition_point(|&edge| edge as usize <= s) - 1] as usize;
            *first = self.window.map_or(segment, |w| segment.max((s + 1).saturating_sub(w)));
        }
        first
    }

    /// Where the rows of one key head start in `k` or `v`, `dim` channels wide, as a matrix from token `from` on.
    pub(super) fn keys<'a>(&self, k: &'a [f32], dim: usize, kv_head: usize, from: usize) -> View<'a> {
        let stride = self.kv_heads * dim;
        View::rows(&k[from * stride + kv_head * dim..], stride)
    }

    /// Number of tokens of operands that fit together; others are a mistake of the caller.
    pub(super) fn check(
        &self,
        [q, k, v]: [&[f32]; 3],
        sinks: Option<&[f32]>,
        lse: &[f32],
        segments: &[u32],
    ) -> usize {
        let Attention { heads, kv_heads, head_dim, value_dim, window, .. } = *self;
        assert!(kv_heads > 0 && heads % kv_heads == 0 && heads > 0, "{heads} query and {kv_heads} key heads");
        assert!(
            [head_dim, value_dim].iter().all(|dim| (1..=BLOCK).contains(dim)) && window != Some(0),
            "head_dim {head_dim}, value_dim {value_dim}, window {window:?}"
        );
        let tokens = lse.len() / heads;
        assert_eq!(lse.len(), tokens * heads);
        assert_eq!(q.len(), lse.len() * head_dim);
        assert!(k.len() == tokens * kv_heads * head_dim && v.len() == tokens * kv_heads * value_dim);
        assert!(sinks.is_none_or(|sinks| sinks.len() == heads));
        let ordered = segments.first() == Some(&0) && segments.is_sorted();
        assert!(
            ordered && segments.last() == Some(&(tokens as u32)),
            "segments of {tokens} tokens: {segments:?}"
        );
        tokens
    }
}

impl Block {
    /// Rows of the block: the stacked heads of its first query, then of the next.
    pub(super) fn rows(&self) -> usize {
        self.queries.len() * self.heads.len()
    }

    /// What the rows see of the `keys` keys from `tile` on.
    pub(super) fn mask<'a>(&self, first_keys: &'a [usize], tile: usize, keys: usize) -> Mask<'a> {
        Mask { first_keys, first_query: self.queries.start, heads: self.heads.len(), tile, keys }
    }

    /// The number `token * heads + head` of each row, in order.
    pub(super) fn each_row(&self, heads: usize) -> impl Iterator<Item = usize> + use<'_> {
        self.queries.clone().flat_map(move |s| self.heads.clone().map(move |h| s * heads + h))
    }
}

vectorized! {
    /// Copies the rows of `x` [tokens, heads, d] that a block names into a matrix, times `factor`.
    pub(super) fn stack(to: &mut [f32], x: &[f32], block: &Block, heads: usize, d: usize, factor: f32) {
        for (to, row) in to.chunks_exact_mut(d).zip(block.each_row(heads)) {
            for (to, x) in to.iter_mut().zip(&x[row * d..][..d]) {
                *to = x * factor;
            }
        }
    }
}

/// Which columns of a tile a row sees: row `r` belongs to query `r / heads` of the block.
#[derive(Clone, Copy)]
pub(super) struct Mask<'a> {
    first_keys: &'a [usize],
    first_query: usize,
    heads: usize,
    /// The first key of the tile and the number of its keys.
    tile: usize,
    pub keys: usize,
}

impl Mask<'_> {
    #[inline(always)]
    pub(super) fn visible(&self, row: usize) -> Range<usize> {
        let query = row / self.heads;
        let from = self.first_keys[query].saturating_sub(self.tile).min(self.keys);
        let to = (self.first_query + query + 1).saturating_sub(self.tile).min(self.keys);
        from..to.max(from)
    }
}

/// `o` = softmax(scale · q kᵀ) v over the visible keys, and `lse` [tokens, heads], the logarithm of each softmax's
/// denominator, for the gradient. `sinks` `[heads]` adds e^sink to the denominators of a head. `segments` are the
/// ascending bounds 0, …, tokens of the documents.
#[allow(clippy::too_many_arguments)]
pub fn flash_attention(
    shape: &Attention,
    o: &mut [f32],
    lse: &mut [f32],
    q: &[f32],
    k: &[f32],
    v: &[f32],
    sinks: Option<&[f32]>,
    segments: &[u32],
) {
    let tokens = shape.check([q, k, v], sinks, lse, segments);
    assert_eq!(o.len(), lse.len() * shape.value_dim);
    let all = 0..tokens;
    let blocks = shape.blocks(tokens);
    let total = blocks * shape.kv_heads;
    // A task takes neighbouring blocks, so that it sets up its scratch once.
    let size = total.div_ceil(rayon::current_num_threads() * 8).max(1);
    let (o, lse) = (Shared::new(o), Shared::new(lse));
    run((0..total.div_ceil(size)).into_par_iter(), |task| {
        let mut scratch = Scratch { q: [0.0; BLOCK], acc: [0.0; BLOCK], p: [0.0; ROWS * KEYS] };
        for index in task * size..((task + 1) * size).min(total) {
            let block = shape.block(index / blocks, &all, index % blocks);
            scratch.attend(shape, &block, &o, &lse, [q, k, v], sinks, segments);
        }
    });
}

/// Memory of a task, on its stack.
struct Scratch {
    /// Stacked queries, scaled.
    q: [f32; BLOCK],
    /// Stacked sums of values.
    acc: [f32; BLOCK],
    /// Scores of a tile, then their exponentials.
    p: [f32; ROWS * KEYS],
}

impl Scratch {
    #[allow(clippy::too_many_arguments)]
    fn attend(
        &mut self,
        shape: &Attention,
        block: &Block,
        o: &Shared<'_, f32>,
        lse: &Shared<'_, f32>,
        [q, k, v]: [&[f32]; 3],
        sinks: Option<&[f32]>,
        segments: &[u32],
    ) {
        let (rows, d, e) = (block.rows(), shape.head_dim, shape.value_dim);
        let (stacked, acc) = (&mut self.q[..rows * d], &mut self.acc[..rows * e]);
        stack(stacked, q, block, shape.heads, d, shape.scale);
        let first_keys = shape.first_keys(block, segments);
        let mut most = [f32::NEG_INFINITY; ROWS];
        let mut total = [0.0; ROWS];
        if let Some(sinks) = sinks {
            // A sink is a score that has been seen before all keys.
            for (most, row) in most.iter_mut().zip(block.each_row(shape.heads)) {
                *most = sinks[row % shape.heads];
            }
            total.fill(1.0);
        }
        for tile in (first_keys[0]..block.queries.end).step_by(KEYS) {
            let keys = KEYS.min(block.queries.end - tile);
            let p = &mut self.p[..rows * KEYS];
            let k = shape.keys(k, d, block.kv_head, tile).transposed();
            matmul_strided(p, KEYS, View::rows(stacked, d), k, [rows, keys, d], 1.0, false);
            if let Some(limit) = shape.softcap {
                cap_tile(p, keys, limit);
            }
            softmax_tile(p, acc, &mut most, &mut total, block.mask(&first_keys, tile, keys), e);
            let v = shape.keys(v, e, block.kv_head, tile);
            matmul_strided(acc, e, View::rows(p, KEYS), v, [rows, e, keys], 1.0, tile != first_keys[0]);
        }
        for (r, row) in block.each_row(shape.heads).enumerate() {
            // SAFETY: every row of every head belongs to one block.
            let (o, lse) = unsafe { (o.slice(row * e, e), lse.slice(row, 1)) };
            let factor = 1.0 / total[r];
            for (o, acc) in o.iter_mut().zip(&acc[r * e..]) {
                *o = acc * factor;
            }
            lse[0] = most[r] + total[r].ln();
        }
    }
}

vectorized! {
    /// Limits the scores of a tile.
    fn cap_tile(p: &mut [f32], keys: usize, limit: f32) {
        for p in p.chunks_exact_mut(KEYS) {
            for p in &mut p[..keys] {
                *p = limit * tanh(*p / limit);
            }
        }
    }
}

vectorized! {
    /// Turns the scores of a tile into exponentials relative to the largest score so far, and rescales what
    /// was summed relative to the largest score before.
    fn softmax_tile(
        p: &mut [f32],
        acc: &mut [f32],
        most: &mut [f32; ROWS],
        total: &mut [f32; ROWS],
        mask: Mask<'_>,
        d: usize,
    ) {
        // Whole vectors: what lies between the last key and the end of its vector is masked too.
        let width = mask.keys.next_multiple_of(32).min(KEYS);
        for (r, (p, acc)) in p.chunks_exact_mut(KEYS).zip(acc.chunks_exact_mut(d)).enumerate() {
            let visible = mask.visible(r);
            p[..visible.start].fill(f32::NEG_INFINITY);
            p[visible.end..width].fill(f32::NEG_INFINITY);
            let p = &mut p[..width];
            let highest = max(p);
            let highest = if highest > most[r] { highest } else { most[r] };
            // A row that has seen no key yet must not subtract −∞ from −∞.
            let base = if highest == f32::NEG_INFINITY { 0.0 } else { highest };
            let sum = exp_sum(p, base);
            let shrink = exp(most[r] - base);
            total[r] = total[r] * shrink + sum;
            most[r] = highest;
            if shrink != 1.0 {
                for x in acc {
                    *x *= shrink;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::attention_reference::{cases, naive, operands, sinks_of};
    use super::super::testing::{close, same_for_any_threads, wide};
    use super::*;

    #[test]
    fn matches_the_whole_matrix() {
        for (shape, segments) in cases() {
            let (tokens, [q, k, v]) = operands(&shape, &segments);
            let sinks = sinks_of(&shape);
            let (o, lse) = same_for_any_threads(|| {
                let rows = tokens * shape.heads;
                let (mut o, mut lse) = (vec![f32::NAN; rows * shape.value_dim], vec![f32::NAN; rows]);
                flash_attention(&shape, &mut o, &mut lse, &q, &k, &v, sinks.as_deref(), &segments);
                (o, lse)
            });
            let wide_sinks = sinks.as_deref().map(wide);
            let (want_o, want_lse) =
                naive(&shape, &wide(&q), &wide(&k), &wide(&v), wide_sinks.as_deref(), &segments);
            close(&format!("o of {shape:?}"), &o, &want_o, 3e-6);
            close(&format!("lse of {shape:?}"), &lse, &want_lse, 3e-6);
        }
    }

    #[test]
    fn large_scores_do_not_overflow() {
        let shape = Attention {
            heads: 1,
            kv_heads: 1,
            head_dim: 4,
            value_dim: 4,
            window: None,
            scale: 1.0,
            softcap: None,
        };
        let q = [100.0; 12];
        let k = [-50.0, 0.0, 0.0, 0.0, 60.0, 0.0, 0.0, 0.0, 50.0, 0.0, 0.0, 0.0];
        let v: Vec<f32> = (0..12).map(|i| i as f32).collect();
        let (mut o, mut lse) = ([0.0; 12], [0.0; 3]);
        flash_attention(&shape, &mut o, &mut lse, &q, &k, &v, None, &[0, 3]);
        assert_eq!(lse, [-5000.0, 6000.0, 6000.0]);
        assert_eq!(o[8..], v[4..8]);
    }

    #[test]
    fn no_tokens() {
        let shape = cases()[0].0;
        flash_attention(&shape, &mut [], &mut [], &[], &[], &[], None, &[0]);
    }
}

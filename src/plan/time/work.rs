//! FLOPs and bytes of every instruction, on the rank that routers send most rows to.

use crate::base::DType;
use crate::plan::ops::{Access, Accumulate, Op};
use crate::plan::program::{Program, View};

/// What an instruction asks of a device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    /// Of matrix products; elementwise arithmetic hides behind the memory it reads.
    pub flops: f64,
    /// The type whose peak those products run at: the widest of their operands.
    pub dtype: DType,
    /// Read from and written to device memory.
    pub bytes: f64,
}

impl Work {
    /// The work of one instruction; `sequence` is the number of tokens that attend to one another.
    pub fn of(program: &Program, op: &Op, sequence: u64) -> Work {
        let dtype = match op {
            Op::Matmul { a, b, .. } => widest(program, [a, b]),
            Op::GroupedMatmul { x, w, .. } => widest(program, [x, w]),
            Op::GroupedMatmulGrad { dy, x, .. } => widest(program, [dy, x]),
            Op::FlashAttentionScore { q, k, .. } | Op::FlashAttentionScoreGrad { q, k, .. } => {
                widest(program, [q, k])
            }
            _ => DType::F32,
        };
        Work { flops: flops(program, op, sequence), dtype, bytes: bytes(program, op) as f64 }
    }
}

fn flops(program: &Program, op: &Op, sequence: u64) -> f64 {
    let elements = |view: &View| (program.busiest_rows(view.rows) * view.cols) as f64;
    let tokens = |view: &View| program.busiest_rows(view.rows) as f64;
    match op {
        Op::Matmul { a, out, trans_a, .. } => {
            let inner = if *trans_a { tokens(a) } else { a.cols as f64 };
            2.0 * inner * elements(&out.view)
        }
        Op::GroupedMatmul { x, out, .. } => 2.0 * x.cols as f64 * elements(&out.view),
        Op::GroupedMatmulGrad { dy, x, .. } => 2.0 * dy.cols as f64 * elements(x),
        // Scores and their product with the values; backwards five products, the scores being made again.
        Op::FlashAttentionScore { q, out, heads, .. } => {
            2.0 * (elements(q) + elements(out)) * keys(sequence, heads.window)
        }
        Op::FlashAttentionScoreGrad { q, out, heads, .. } => {
            2.0 * (3.0 * elements(q) + 2.0 * elements(out)) * keys(sequence, heads.window)
        }
        _ => 0.0,
    }
}

/// Keys that a token of a causal sequence attends to, on average.
pub(super) fn keys(sequence: u64, window: Option<u64>) -> f64 {
    let (s, w) = (sequence as f64, window.unwrap_or(sequence).min(sequence) as f64);
    (w * (w + 1.0) / 2.0 + (s - w) * w) / s
}

fn bytes(program: &Program, op: &Op) -> u64 {
    let mut sum = 0;
    op.operands(|access, view| {
        let passes = if access == Access::Update { 2 } else { 1 };
        sum += passes * size(program, view);
    });
    match op {
        Op::Free { .. } => 0,
        // Of the table only the rows of the tokens.
        Op::Embedding { table, out, .. } => sum - size(program, *table) + size(program, *out),
        Op::EmbeddingGrad { dy, d_table, .. } if d_table.mode != Accumulate::Never => {
            sum - 2 * size(program, d_table.view) + 2 * size(program, *dy)
        }
        _ => sum,
    }
}

/// Bytes of a view.
pub(super) fn size(program: &Program, view: View) -> u64 {
    program.busiest_rows(view.rows) * view.cols * program.buffer(view.buffer).dtype.size()
}

fn widest(program: &Program, views: [&View; 2]) -> DType {
    let [a, b] = views.map(|view| program.buffer(view.buffer).dtype);
    if a.size() >= b.size() { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::keys;

    #[test]
    fn causal_attention_sees_half_the_sequence_or_its_window() {
        assert_eq!(keys(4, None), 2.5);
        assert_eq!(keys(4, Some(2)), 1.75);
        assert_eq!(keys(4, Some(9)), 2.5);
    }
}

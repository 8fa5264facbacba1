//! Rows of a table by number, and the gradient of the table.

use super::elementwise::fill;
use super::parallel::{Shared, rows_per_task, run};
use super::simd::vectorized;
use rayon::prelude::*;

/// Columns one task adds at least: two cache lines.
const LEAST_COLUMNS: usize = 32;

/// `out[t] = scale · table[ids[t]]` for `out` [tokens, cols] and `table` [vocabulary, cols].
pub fn embedding(out: &mut [f32], table: &[f32], ids: &[u32], cols: usize, scale: f32) {
    assert_eq!(out.len(), ids.len() * cols);
    let rows = rows_per_task(cols);
    run(out.par_chunks_mut(rows * cols.max(1)).zip(ids.par_chunks(rows)), |(out, ids)| {
        for (out, &id) in out.chunks_exact_mut(cols).zip(ids) {
            scaled(out, &table[id as usize * cols..][..cols], scale);
        }
    });
}

/// Adds `scale` times each row of `dy` [tokens, cols] to row `ids[t]` of `dtable` [vocabulary, cols], in the order of the
/// tokens; the table is zeroed first unless `accumulate`. Tasks own columns, so that a repeated token needs
/// no lock.
pub fn embedding_grad(
    dtable: &mut [f32],
    dy: &[f32],
    ids: &[u32],
    cols: usize,
    scale: f32,
    accumulate: bool,
) {
    assert!(dy.len() == ids.len() * cols && dtable.len().is_multiple_of(cols.max(1)));
    if !accumulate {
        fill(dtable, 0.0);
    }
    let width = (cols / (2 * rayon::current_num_threads())).max(LEAST_COLUMNS);
    let dtable = Shared::new(dtable);
    run((0..cols.div_ceil(width)).into_par_iter(), |task| {
        let from = task * width;
        let width = width.min(cols - from);
        for (dy, &id) in dy.chunks_exact(cols).zip(ids) {
            // SAFETY: no other task writes these columns, and the slice lives for one addition.
            let row = unsafe { dtable.slice(id as usize * cols + from, width) };
            add_scaled(row, &dy[from..][..width], scale);
        }
    });
}

vectorized! {
    fn scaled(out: &mut [f32], x: &[f32], scale: f32) {
        for (out, x) in out.iter_mut().zip(x) {
            *out = scale * x;
        }
    }
}

vectorized! {
    fn add_scaled(out: &mut [f32], x: &[f32], scale: f32) {
        for (out, x) in out.iter_mut().zip(x) {
            *out += scale * x;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{close, random, same_for_any_threads};
    use super::*;

    #[test]
    fn rows_and_their_gradient() {
        let (vocabulary, cols, tokens) = (50, 100, 400);
        let table = random(vocabulary * cols, 1, 1.0);
        let dy = random(tokens * cols, 2, 1.0);
        let ids: Vec<u32> = (0..tokens).map(|t| (t * t % 37) as u32).collect();
        let (out, dtable) = same_for_any_threads(|| {
            let (mut out, mut dtable) = (vec![0.0; tokens * cols], vec![f32::NAN; table.len()]);
            embedding(&mut out, &table, &ids, cols, 0.5);
            embedding_grad(&mut dtable, &dy, &ids, cols, 0.5, false);
            embedding_grad(&mut dtable, &dy, &ids, cols, 0.5, true);
            (out, dtable)
        });
        let mut want = vec![0.0; table.len()];
        for (t, &id) in ids.iter().enumerate() {
            let row = table[id as usize * cols..][..cols].iter().map(|x| 0.5 * x);
            assert!(out[t * cols..][..cols].iter().copied().eq(row));
            for c in 0..cols {
                want[id as usize * cols + c] += f64::from(dy[t * cols + c]);
            }
        }
        close("dtable", &dtable, &want, 1e-5);
    }
}

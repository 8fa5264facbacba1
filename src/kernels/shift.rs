//! What multi-token prediction reads: tokens further on in the same document, and two states side by side.

use super::elementwise::add_assign_chunk;
use super::parallel::{rows_per_task, run};
use rayon::prelude::*;

/// The token `by` behind token `t`, where both are in the same of the `segments`.
fn shifted(segments: &[u32], t: usize, by: isize) -> Option<usize> {
    let next = segments.partition_point(|start| *start as usize <= t);
    let (start, end) = (segments.get(next.checked_sub(1)?)?, segments.get(next)?);
    t.checked_add_signed(by).filter(|at| (*start as usize..*end as usize).contains(at))
}

/// `y[t] (+)= x[t + by]` for `x` and `y` [tokens, cols] where both tokens are in the same segment; elsewhere 0.
pub fn shift_tokens(y: &mut [f32], x: &[f32], segments: &[u32], cols: usize, by: isize, accumulate: bool) {
    assert_eq!(y.len(), x.len());
    let rows = rows_per_task(cols);
    run(y.par_chunks_mut(rows * cols.max(1)).enumerate(), |(task, y)| {
        for (t, y) in (task * rows..).zip(y.chunks_exact_mut(cols)) {
            match (shifted(segments, t, by), accumulate) {
                (Some(at), true) => add_assign_chunk(y, &x[at * cols..][..cols]),
                (Some(at), false) => y.copy_from_slice(&x[at * cols..][..cols]),
                (None, true) => {}
                (None, false) => y.fill(0.0),
            }
        }
    });
}

/// `targets[t] = labels[t + by]` where both tokens are in the same segment; elsewhere -1.
pub fn shift_labels(targets: &mut [i32], labels: &[i32], segments: &[u32], by: isize) {
    assert_eq!(targets.len(), labels.len());
    for (t, target) in targets.iter_mut().enumerate() {
        *target = shifted(segments, t, by).map_or(-1, |at| labels[at]);
    }
}

/// `out[t] = [a[t], b[t]]` for `a` and `b` of `cols` columns each.
pub fn concat(out: &mut [f32], a: &[f32], b: &[f32], cols: [usize; 2]) {
    assert_eq!(out.len(), a.len() + b.len());
    let (rows, wide) = (rows_per_task(cols[0] + cols[1]), cols[0] + cols[1]);
    let parts = a.par_chunks(rows * cols[0].max(1)).zip(b.par_chunks(rows * cols[1].max(1)));
    run(out.par_chunks_mut(rows * wide.max(1)).zip(parts), |(out, (a, b))| {
        let parts = a.chunks_exact(cols[0]).zip(b.chunks_exact(cols[1]));
        for (out, (a, b)) in out.chunks_exact_mut(wide).zip(parts) {
            out[..cols[0]].copy_from_slice(a);
            out[cols[0]..].copy_from_slice(b);
        }
    });
}

/// The inverse of [`concat()`].
pub fn split(a: &mut [f32], b: &mut [f32], x: &[f32], cols: [usize; 2]) {
    assert_eq!(x.len(), a.len() + b.len());
    let (rows, wide) = (rows_per_task(cols[0] + cols[1]), cols[0] + cols[1]);
    let parts = a.par_chunks_mut(rows * cols[0].max(1)).zip(b.par_chunks_mut(rows * cols[1].max(1)));
    run(parts.zip(x.par_chunks(rows * wide.max(1))), |((a, b), x)| {
        let parts = a.chunks_exact_mut(cols[0]).zip(b.chunks_exact_mut(cols[1]));
        for ((a, b), x) in parts.zip(x.chunks_exact(wide)) {
            a.copy_from_slice(&x[..cols[0]]);
            b.copy_from_slice(&x[cols[0]..]);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::super::testing::random;
    use super::*;

    #[test]
    fn documents_end() {
        let (x, segments) = ([1.0, 2.0, 3.0, 4.0, 5.0], [0, 3, 5]);
        let shift = |by, from: f32, accumulate| {
            let mut y = [from; 5];
            shift_tokens(&mut y, &x, &segments, 1, by, accumulate);
            y
        };
        assert_eq!(shift(1, f32::NAN, false), [2.0, 3.0, 0.0, 5.0, 0.0]);
        assert_eq!(shift(2, f32::NAN, false), [3.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(shift(-1, 1.0, true), [1.0, 2.0, 3.0, 1.0, 5.0]);
        assert_eq!(shift(isize::MAX, 7.0, false), [0.0; 5]);
        assert_eq!(shift(isize::MIN, 7.0, false), [0.0; 5]);
        let mut targets = [0; 5];
        shift_labels(&mut targets, &[6, 7, -1, 9, -1], &segments, 1);
        assert_eq!(targets, [7, -1, -1, -1, -1]);
    }

    #[test]
    fn there_and_back() {
        let (a, b) = (random(900 * 24, 1, 1.0), random(900 * 40, 2, 1.0));
        let mut x = vec![0.0; 900 * 64];
        concat(&mut x, &a, &b, [24, 40]);
        assert_eq!(x[64..88], a[24..48]);
        assert_eq!(x[88..128], b[40..80]);
        let (mut c, mut d) = (vec![0.0; a.len()], vec![0.0; b.len()]);
        split(&mut c, &mut d, &x, [24, 40]);
        assert_eq!((a, b), (c, d));
    }
}

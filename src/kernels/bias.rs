//! Biases of linear layers, one for all rows or one an expert, and their gradient.
//!
//! Rows sorted by expert have the bias of their expert, `counts[e]` rows each. Where the output of an expert is scaled
//! by its routing weight, so is its bias.

use super::elementwise::fill;
use super::math::dot;
use super::parallel::{Shared, rows_per_task, run};
use super::simd::vectorized;
use rayon::prelude::*;

/// Columns one task sums.
const COLUMNS: usize = 256;

/// `x[r] += scale[r] · bias[e]` for the rows `r` of each expert `e`: `x` is [rows, cols], `bias` [experts, cols], `counts`
/// `[experts]`, `scale` `[rows]`. Without `counts` all rows have the same bias, without `scale` it is 1.
pub fn add_bias(x: &mut [f32], bias: &[f32], cols: usize, counts: Option<&[u32]>, scale: Option<&[f32]>) {
    let rows = x.len().checked_div(cols).unwrap_or(0);
    check(rows, x, bias, cols, counts, scale);
    let task = rows_per_task(cols);
    run(x.par_chunks_mut(task * cols.max(1)).enumerate(), |(number, x)| {
        each_group(counts, rows, number * task, x.len() / cols, |expert, row, range| {
            let scale = scale.map_or(&[][..], |scale| &scale[row..][..range.len()]);
            let x = &mut x[range.start * cols..range.end * cols];
            add_rows(x, &bias[expert * cols..][..cols], scale);
        });
    });
}

/// Gradient of [`add_bias`] from `dy` [rows, cols]: `d_bias` [experts, cols], overwritten or added to, and that of the
/// scale, added to `d_scale` `[rows]`, which is given exactly when `scale` is.
#[allow(clippy::too_many_arguments)]
pub fn add_bias_grad(
    d_bias: &mut [f32],
    d_scale: Option<&mut [f32]>,
    dy: &[f32],
    bias: &[f32],
    cols: usize,
    counts: Option<&[u32]>,
    scale: Option<&[f32]>,
    accumulate: bool,
) {
    let rows = dy.len().checked_div(cols).unwrap_or(0);
    check(rows, dy, bias, cols, counts, scale);
    assert!(d_bias.len() == bias.len() && d_scale.is_some() == scale.is_some());
    if !accumulate {
        fill(d_bias, 0.0);
    }
    if let Some(d_scale) = d_scale {
        let task = rows_per_task(cols);
        run(d_scale.par_chunks_mut(task).enumerate(), |(number, d_scale)| {
            let first = number * task;
            each_group(counts, rows, first, d_scale.len(), |expert, row, range| {
                let dy = &dy[row * cols..][..range.len() * cols];
                scale_rows(&mut d_scale[range], dy, &bias[expert * cols..][..cols]);
            });
        });
    }
    // A task owns some columns of one expert and adds the rows in their order.
    let strips = cols.div_ceil(COLUMNS);
    let experts = counts.map_or(1, <[u32]>::len);
    let d_bias = Shared::new(d_bias);
    run((0..experts * strips).into_par_iter(), |task| {
        let (expert, from) = (task / strips, task % strips * COLUMNS);
        let before = |e: usize| counts.map_or(e * rows, |c| c[..e].iter().map(|&c| c as usize).sum());
        let (first, last) = (before(expert), before(expert + 1));
        // SAFETY: no other task has these columns of this expert.
        let sum = unsafe { d_bias.slice(expert * cols + from, COLUMNS.min(cols - from)) };
        let scale = scale.map_or(&[][..], |scale| &scale[first..last]);
        sum_rows(sum, &dy[first * cols..last * cols], from, cols, scale);
    });
}

fn check(rows: usize, x: &[f32], bias: &[f32], cols: usize, counts: Option<&[u32]>, scale: Option<&[f32]>) {
    assert!(rows * cols == x.len() && bias.len() == counts.map_or(1, <[u32]>::len) * cols);
    assert!(scale.is_none_or(|scale| scale.len() == rows));
    assert!(counts.is_none_or(|counts| counts.iter().map(|&c| c as usize).sum::<usize>() == rows));
}

/// Calls `work` with each expert that has some of the rows `first..first + count`, the first of these rows, and all of
/// them counted from `first`.
fn each_group(
    counts: Option<&[u32]>,
    rows: usize,
    first: usize,
    count: usize,
    mut work: impl FnMut(usize, usize, std::ops::Range<usize>),
) {
    let whole = [rows as u32];
    let mut end = 0;
    for (expert, &size) in counts.unwrap_or(&whole).iter().enumerate() {
        let start = end;
        end += size as usize;
        let (from, to) = (start.max(first), end.min(first + count));
        if from < to {
            work(expert, from, from - first..to - first);
        }
    }
}

vectorized! {
    /// `scale` is empty where it is 1.
    fn add_rows(x: &mut [f32], bias: &[f32], scale: &[f32]) {
        for (row, x) in x.chunks_exact_mut(bias.len()).enumerate() {
            let scale = scale.get(row).copied().unwrap_or(1.0);
            for (x, bias) in x.iter_mut().zip(bias) {
                *x += scale * bias;
            }
        }
    }
}

vectorized! {
    fn scale_rows(d_scale: &mut [f32], dy: &[f32], bias: &[f32]) {
        for (d_scale, dy) in d_scale.iter_mut().zip(dy.chunks_exact(bias.len())) {
            *d_scale += dot(dy, bias);
        }
    }
}

vectorized! {
    fn sum_rows(sum: &mut [f32], dy: &[f32], from: usize, cols: usize, scale: &[f32]) {
        for (row, dy) in dy.chunks_exact(cols).enumerate() {
            let scale = scale.get(row).copied().unwrap_or(1.0);
            for (sum, dy) in sum.iter_mut().zip(&dy[from..]) {
                *sum += scale * dy;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{close, differences, random, same_for_any_threads, wide};
    use super::*;

    const COUNTS: [u32; 5] = [2, 0, 5, 1, 0];
    const COLS: usize = 300;

    fn naive(x: &[f64], bias: &[f64], counts: Option<&[u32]>, scale: &[f64]) -> Vec<f64> {
        let one = [scale.len() as u32];
        let owner = counts.unwrap_or(&one).iter().enumerate().flat_map(|(e, &c)| vec![e; c as usize]);
        let rows = x.chunks(COLS).zip(owner).zip(scale);
        rows.flat_map(|((x, e), s)| {
            x.iter().zip(&bias[e * COLS..][..COLS]).map(move |(x, b)| x + s * b).collect::<Vec<_>>()
        })
        .collect()
    }

    #[test]
    fn gradient_matches_finite_differences() {
        let rows = 8;
        let (x, dy) = (random(rows * COLS, 1, 1.0), random(rows * COLS, 2, 1.0));
        let scales = random(rows, 3, 1.0);
        for (counts, scaled) in
            [(None, false), (None, true), (Some(&COUNTS[..]), false), (Some(&COUNTS[..]), true)]
        {
            let bias = random(counts.map_or(1, <[u32]>::len) * COLS, 4, 1.0);
            let scale = if scaled { scales.clone() } else { vec![1.0; rows] };
            let given = scaled.then_some(scale.as_slice());
            let value = |b: &[f64], s: &[f64]| naive(&wide(&x), b, counts, s);
            let loss = |y: Vec<f64>| -> f64 { y.iter().zip(&dy).map(|(y, &d)| y * f64::from(d)).sum() };

            let mut y = x.clone();
            add_bias(&mut y, &bias, COLS, counts, given);
            close("y", &y, &value(&wide(&bias), &wide(&scale)), 1e-6);

            let (mut d_bias, mut d_scale) = (vec![f32::NAN; bias.len()], vec![0.0; rows]);
            for accumulate in [false, true] {
                let d_scale = scaled.then_some(d_scale.as_mut_slice());
                add_bias_grad(&mut d_bias, d_scale, &dy, &bias, COLS, counts, given, accumulate);
            }
            let twice = |d: Vec<f64>| -> Vec<f64> { d.iter().map(|d| 2.0 * d).collect() };
            let want = twice(differences(&bias, |b| loss(value(b, &wide(&scale)))));
            close("d_bias", &d_bias, &want, 1e-5);
            if scaled {
                let want = twice(differences(&scale, |s| loss(value(&wide(&bias), s))));
                close("d_scale", &d_scale, &want, 1e-5);
            }
        }
    }

    #[test]
    fn any_threads_and_no_rows() {
        let counts = [150, 0, 250];
        let (bias, dy) = (random(3 * COLS, 1, 1.0), random(400 * COLS, 2, 1.0));
        let scale = random(400, 3, 1.0);
        same_for_any_threads(|| {
            let (mut y, mut d_bias, mut d_scale) = (dy.clone(), vec![0.0; bias.len()], vec![0.0; 400]);
            add_bias(&mut y, &bias, COLS, Some(&counts), Some(&scale));
            let (given, result) = (Some(&scale[..]), Some(&mut d_scale[..]));
            add_bias_grad(&mut d_bias, result, &dy, &bias, COLS, Some(&counts), given, false);
            (y, d_bias, d_scale)
        });
        let mut d_bias = vec![f32::NAN; bias.len()];
        add_bias(&mut [], &bias, COLS, Some(&[0; 3]), None);
        add_bias_grad(&mut d_bias, None, &[], &bias, COLS, Some(&[0; 3]), None, false);
        assert!(d_bias.iter().all(|&d| d == 0.0), "an expert without rows");
    }
}

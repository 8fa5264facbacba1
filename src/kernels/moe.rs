//! Sorting of tokens by expert, and the way there and back (aclnn `MoeTokenPermute`, `MoeTokenUnpermute`).
//!
//! Each token appears once for each of its k experts. `source[row]` is the copy `t·k + slot` that became
//! `row` of the sorted order, and `position` is its inverse. Permuting is the gradient of unpermuting and the
//! other way round.

use super::elementwise::add_assign_chunk;
use super::parallel::{rows_per_task, run};
use rayon::prelude::*;

/// Sorts the copies by expert, stable. `index` [tokens, k] names the expert of each copy; `position` and
/// `source` are [tokens * k], `counts` `[experts]` gets the copies of each expert.
pub fn token_sort(position: &mut [u32], source: &mut [u32], counts: &mut [u32], index: &[u32]) {
    assert!(position.len() == index.len() && source.len() == index.len());
    assert!(u32::try_from(index.len()).is_ok(), "{} copies", index.len());
    counts.fill(0);
    for &expert in index {
        counts[expert as usize] += 1;
    }
    // `counts` serves as the next free row of each expert, and is the end of each expert's rows when all are
    // placed.
    let mut start = 0;
    for count in &mut *counts {
        (*count, start) = (start, start + *count);
    }
    for (copy, (position, &expert)) in position.iter_mut().zip(index).enumerate() {
        let row = &mut counts[expert as usize];
        *position = *row;
        source[*row as usize] = copy as u32;
        *row += 1;
    }
    let mut start = 0;
    for count in counts {
        (*count, start) = (*count - start, *count);
    }
}

/// `rows[r] = x[source[r] / k]`: the sorted copies [tokens * k, hidden] of the tokens `x` [tokens, hidden].
pub fn token_permute(rows: &mut [f32], x: &[f32], source: &[u32], k: usize) {
    let cols = width(rows.len(), source.len());
    assert_eq!(x.len() * k, rows.len());
    let count = rows_per_task(cols);
    run(rows.par_chunks_mut(count * cols).zip(source.par_chunks(count)), |(rows, source)| {
        for (row, &copy) in rows.chunks_exact_mut(cols).zip(source) {
            row.copy_from_slice(&x[copy as usize / k * cols..][..cols]);
        }
    });
}

/// `y[t] (+)= Σ rows[position[t, slot]]`: sums the sorted `rows` [tokens * k, hidden] into the tokens `y`
/// [tokens, hidden], slot by slot.
pub fn token_unpermute(y: &mut [f32], rows: &[f32], position: &[u32], k: usize, accumulate: bool) {
    let cols = width(rows.len(), position.len());
    assert_eq!(y.len() * k, rows.len());
    let count = rows_per_task(cols);
    run(y.par_chunks_mut(count * cols).zip(position.par_chunks(count * k)), |(y, position)| {
        for (y, position) in y.chunks_exact_mut(cols).zip(position.chunks_exact(k)) {
            for (slot, &row) in position.iter().enumerate() {
                let row = &rows[row as usize * cols..][..cols];
                if slot == 0 && !accumulate {
                    y.copy_from_slice(row);
                } else {
                    add_assign_chunk(y, row);
                }
            }
        }
    });
}

/// `out[row] = weight[source[row]]`: routing weights [tokens, k] in the sorted order.
pub fn weight_permute(out: &mut [f32], weight: &[f32], source: &[u32]) {
    gather(out, weight, source);
}

/// `out[t, slot] = sorted[position[t, slot]]`: the way back of [`weight_permute`], which is also its
/// gradient.
pub fn weight_unpermute(out: &mut [f32], sorted: &[f32], position: &[u32]) {
    gather(out, sorted, position);
}

fn gather(out: &mut [f32], values: &[f32], from: &[u32]) {
    assert!(out.len() == values.len() && out.len() == from.len());
    for (out, &from) in out.iter_mut().zip(from) {
        *out = values[from as usize];
    }
}

fn width(len: usize, rows: usize) -> usize {
    let cols = len.checked_div(rows).unwrap_or(0).max(1);
    assert_eq!(cols * rows, len, "{rows} rows");
    cols
}

#[cfg(test)]
mod tests {
    use super::super::testing::{random, same_for_any_threads};
    use super::*;

    #[test]
    fn a_stable_sort_and_its_inverse() {
        let index = [2, 0, 4, 2, 2, 0, 1, 2];
        let (mut position, mut source, mut counts) = ([9; 8], [9; 8], [9; 6]);
        token_sort(&mut position, &mut source, &mut counts, &index);
        assert_eq!(counts, [2, 1, 4, 0, 1, 0]);
        assert_eq!(source, [1, 5, 6, 0, 3, 4, 7, 2]);
        for (copy, &row) in position.iter().enumerate() {
            assert_eq!(source[row as usize] as usize, copy);
        }
    }

    #[test]
    fn there_and_back() {
        let (tokens, k, experts, cols) = (300, 4, 7, 72);
        let x = random(tokens * cols, 1, 1.0);
        let index: Vec<u32> = (0..tokens * k).map(|i| ((i * i + i / 3) % experts) as u32).collect();
        let (mut position, mut source) = (vec![0; tokens * k], vec![0; tokens * k]);
        token_sort(&mut position, &mut source, &mut vec![0; experts], &index);
        let (rows, sum) = same_for_any_threads(|| {
            let (mut rows, mut y) = (vec![0.0; tokens * k * cols], vec![f32::NAN; tokens * cols]);
            token_permute(&mut rows, &x, &source, k);
            token_unpermute(&mut y, &rows, &position, k, false);
            token_unpermute(&mut y, &rows, &position, k, true);
            (rows, y)
        });
        for (row, &copy) in source.iter().enumerate() {
            let token = copy as usize / k;
            assert_eq!(rows[row * cols..][..cols], x[token * cols..][..cols]);
        }
        assert!(sum.iter().zip(&x).all(|(sum, x)| (sum - 8.0 * x).abs() <= 1e-5 * x.abs()));

        let weight = random(tokens * k, 2, 1.0);
        let (mut sorted, mut back) = (vec![0.0; tokens * k], vec![0.0; tokens * k]);
        weight_permute(&mut sorted, &weight, &source);
        weight_unpermute(&mut back, &sorted, &position);
        assert_eq!(back, weight);
        assert_eq!(sorted[0], weight[source[0] as usize]);
    }

    #[test]
    fn no_tokens() {
        let mut counts = [5; 3];
        token_sort(&mut [], &mut [], &mut counts, &[]);
        assert_eq!(counts, [0; 3]);
        token_permute(&mut [], &[], &[], 2);
        token_unpermute(&mut [], &[], &[], 2, false);
    }
}

//! Cross-entropy of the logits with its gradient in one pass over memory.

use super::math::{exp, exp_sum, max, sigmoid, sum_of};
use super::parallel::{GRAIN, join, run};
use super::simd::vectorized;
use rayon::prelude::*;

/// `x = cap · tanh(x / cap)`.
pub fn softcap(x: &mut [f32], cap: f32) {
    run(x.par_chunks_mut(GRAIN), |x| cap_all(x, cap));
}

/// Sum of `−ln softmax(logits)[label]` over the rows whose label is not negative. `logits` [rows, vocabulary]
/// are replaced by their gradient times `scale` (1 / the number of labels gives the mean); an ignored row
/// becomes zero. Logits that went through [`softcap`] with `cap` get the gradient of what went in.
///
/// # Panics
/// If a label is not below the vocabulary size.
pub fn cross_entropy(logits: &mut [f32], labels: &[i32], scale: f32, cap: Option<f32>) -> f64 {
    let cols = logits.len().checked_div(labels.len()).unwrap_or(0);
    assert_eq!(cols * labels.len(), logits.len(), "{} rows", labels.len());
    halve(logits, labels, cols, scale, cap)
}

/// Halves the rows until a task is small enough, so that the losses are added in an order that only the shape
/// decides.
fn halve(logits: &mut [f32], labels: &[i32], cols: usize, scale: f32, cap: Option<f32>) -> f64 {
    let rows = labels.len();
    if rows < 2 || logits.len() <= 2 * GRAIN {
        return loss_rows(logits, labels, scale, cap);
    }
    let (first, second) = logits.split_at_mut(rows / 2 * cols);
    let (one, two) = labels.split_at(rows / 2);
    let (one, two) = join(|| halve(first, one, cols, scale, cap), || halve(second, two, cols, scale, cap));
    one + two
}

vectorized! {
    fn cap_all(x: &mut [f32], cap: f32) {
        for x in x {
            *x = cap * (2.0 * sigmoid(2.0 * *x / cap) - 1.0);
        }
    }
}

vectorized! {
    fn loss_rows(logits: &mut [f32], labels: &[i32], scale: f32, cap: Option<f32>) -> f64 {
        // Part of a row whose exponentials are added in f32.
        const STRIP: usize = 2048;
        let mut loss = 0.0;
        if logits.is_empty() {
            return loss;
        }
        let cols = logits.len() / labels.len();
        for (row, &label) in logits.chunks_exact_mut(cols).zip(labels) {
            let Ok(label) = usize::try_from(label) else {
                row.fill(0.0);
                continue;
            };
            let most = max(row);
            let chosen = row[label];
            let mut total = 0.0;
            if let Some(cap) = cap {
                for strip in row.chunks(STRIP) {
                    total += f64::from(sum_of(strip, |x| exp(x - most)));
                }
                loss += total.ln() + f64::from(most) - f64::from(chosen);
                let factor = (f64::from(scale) / total) as f32;
                // The slope of the cap at its result y is 1 − (y / cap)².
                let slope = |y: f32| (1.0 - y / cap) * (1.0 + y / cap);
                for x in &mut *row {
                    *x = exp(*x - most) * factor * slope(*x);
                }
                row[label] -= scale * slope(chosen);
                continue;
            }
            for strip in row.chunks_mut(STRIP) {
                total += f64::from(exp_sum(strip, most));
            }
            loss += total.ln() + f64::from(most) - f64::from(chosen);
            let factor = (f64::from(scale) / total) as f32;
            for x in &mut *row {
                *x *= factor;
            }
            row[label] -= scale;
        }
        loss
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{close, differences, random, same_for_any_threads, wide};
    use super::*;

    fn naive(logits: &[f64], labels: &[i32]) -> f64 {
        let cols = logits.len() / labels.len();
        let rows = logits.chunks(cols).zip(labels).filter(|(_, label)| **label >= 0);
        rows.map(|(row, &label)| row.iter().map(|x| x.exp()).sum::<f64>().ln() - row[label as usize]).sum()
    }

    #[test]
    fn gradient_matches_finite_differences() {
        let (rows, cols) = (5, 77);
        let logits = random(rows * cols, 1, 2.0);
        let labels = [3, -100, 76, 0, 41];
        let mut grad = logits.clone();
        let loss = cross_entropy(&mut grad, &labels, 0.25, None);
        assert!((loss - naive(&wide(&logits), &labels)).abs() < 1e-5);
        close("dlogits", &grad, &differences(&logits, |x| 0.25 * naive(x, &labels)), 1e-5);
        assert!(grad[cols..2 * cols].iter().all(|&x| x == 0.0), "an ignored row");
    }

    #[test]
    fn gradient_through_a_cap() {
        let (rows, cols, cap) = (3, 90, 2.5);
        let logits = random(rows * cols, 1, 3.0);
        let labels = [3, 89, -1];
        let capped = |x: &[f64]| -> Vec<f64> { x.iter().map(|x| cap * (x / cap).tanh()).collect() };
        let mut grad = logits.clone();
        softcap(&mut grad, cap as f32);
        close("capped", &grad, &capped(&wide(&logits)), 1e-6);
        let loss = cross_entropy(&mut grad, &labels, 0.5, Some(cap as f32));
        assert!((loss - naive(&capped(&wide(&logits)), &labels)).abs() < 1e-5);
        close("dlogits", &grad, &differences(&logits, |x| 0.5 * naive(&capped(x), &labels)), 1e-5);
    }

    #[test]
    fn large_logits_do_not_overflow() {
        let mut logits = [1e4, -1e4, 0.0];
        assert_eq!(cross_entropy(&mut logits, &[0], 1.0, None), 0.0);
        assert_eq!(logits, [0.0; 3]);
    }

    #[test]
    fn any_threads_and_no_rows() {
        let (rows, cols) = (90, 5000);
        let logits = random(rows * cols, 1, 3.0);
        let labels: Vec<i32> = (0..rows as i32).map(|r| if r % 5 == 0 { -1 } else { r * 50 }).collect();
        let loss = same_for_any_threads(|| cross_entropy(&mut logits.clone(), &labels, 1.0, None));
        let want = naive(&wide(&logits), &labels);
        assert!((loss - want).abs() < 1e-6 * want, "{loss} for {want}");
        assert_eq!(cross_entropy(&mut [], &[], 1.0, None), 0.0);
    }
}

//! What evens out the load of experts: a loss on the scores, or a step of the bias that the choice is made with.

use super::math::sum_of;
use super::parallel::{GRAIN, join};
use super::route::{Score, score_all, softmax_terms};
use super::simd::vectorized;

/// Keeps the shares finite when all scores vanish.
const TINY: f32 = 1e-20;

/// The loss that evens out the load (Switch, arXiv 2101.03961, eq. 4, for `k` experts a token), taken over each
/// `sequence` of tokens by itself: `weight · experts / k · Σₑ fₑ · Pₑ`, where `fₑ` is the share of the tokens
/// that chose expert e and `Pₑ` the mean of its scores, which are divided by their sum over all experts. Returns
/// the sum over the sequences and adds its gradient to `dlogits` [tokens, experts]; the choice has none.
///
/// `index` [tokens, k] is the choice. `load` `[sequences, experts]` is overwritten with what the gradient of a
/// token's scores is.
#[allow(clippy::too_many_arguments)]
pub fn balance_loss(
    dlogits: &mut [f32],
    load: &mut [f32],
    logits: &[f32],
    index: &[u32],
    k: usize,
    sequence: usize,
    score: Score,
    weight: f32,
) -> f64 {
    let experts = logits.len() * k / index.len().max(1);
    assert!(dlogits.len() == logits.len() && experts * index.len() == logits.len() * k, "{experts} experts");
    assert_eq!(load.len() * sequence, logits.len(), "sequences of {sequence} tokens");
    if logits.is_empty() {
        return 0.0;
    }
    let each = sequence * experts;
    let chosen = index.chunks_exact(sequence * k);
    let sequences = dlogits.chunks_exact_mut(each).zip(logits.chunks_exact(each)).zip(chosen);
    let share = weight * experts as f32 / (k as f32 * sequence as f32 * sequence as f32);
    let mut loss = 0.0;
    for (((dlogits, logits), chosen), load) in sequences.zip(load.chunks_exact_mut(experts)) {
        load.fill(0.0);
        chosen.iter().for_each(|&expert| load[expert as usize] += 1.0);
        load.iter_mut().for_each(|load| *load *= share);
        loss += halve(dlogits, logits, load, score);
    }
    loss
}

/// Halves the rows until a task is small enough, so that the losses are added in an order that only the shape
/// decides.
fn halve(dlogits: &mut [f32], logits: &[f32], load: &[f32], score: Score) -> f64 {
    let rows = logits.len() / load.len();
    if rows < 2 || logits.len() <= 2 * GRAIN {
        return loss_rows(dlogits, logits, load, score);
    }
    let middle = rows / 2 * load.len();
    let ((one, two), (first, second)) = (dlogits.split_at_mut(middle), logits.split_at(middle));
    let (one, two) = join(|| halve(one, first, load, score), || halve(two, second, load, score));
    one + two
}

vectorized! {
    fn loss_rows(dlogits: &mut [f32], logits: &[f32], load: &[f32], score: Score) -> f64 {
        // Scores of some experts at a time, so that their number has no limit.
        const STRIP: usize = 64;
        let mut scores = [0.0; STRIP];
        let mut loss = 0.0;
        let rows = dlogits.chunks_exact_mut(load.len()).zip(logits.chunks_exact(load.len()));
        for (dlogits, logits) in rows {
            let (most, total) = softmax_terms(logits, score);
            let (mut all, mut mean) = (0.0, 0.0);
            for (logits, load) in logits.chunks(STRIP).zip(load.chunks(STRIP)) {
                let scores = &mut scores[..logits.len()];
                score_all(scores, logits, score, most, total);
                all += sum_of(scores, |score| score);
                mean += scores.iter().zip(load).map(|(score, load)| score * load).sum::<f32>();
            }
            let all = all + TINY;
            let mean = mean / all;
            loss += f64::from(mean);
            let strips = dlogits.chunks_mut(STRIP).zip(logits.chunks(STRIP)).zip(load.chunks(STRIP));
            for ((dlogits, logits), load) in strips {
                let scores = &mut scores[..logits.len()];
                score_all(scores, logits, score, most, total);
                for ((dlogit, score_of), load) in dlogits.iter_mut().zip(&*scores).zip(load) {
                    let slope = match score {
                        Score::Sigmoid => score_of * (1.0 - score_of),
                        // The mean has been taken off already: that is all there is to the softmax.
                        Score::Softmax => *score_of,
                    };
                    *dlogit += (load - mean) / all * slope;
                }
            }
        }
        loss
    }
}

/// `load (+)= counts`: tokens of each expert over the micro batches of a step.
pub fn count_load(load: &mut [f32], counts: &[u32], accumulate: bool) {
    assert_eq!(load.len(), counts.len());
    for (load, &count) in load.iter_mut().zip(counts) {
        *load = count as f32 + if accumulate { *load } else { 0.0 };
    }
}

/// Balancing without a loss (arXiv 2408.15664): an expert with less than the mean `load` has `rate` added to its
/// `bias`, one with more has it taken off.
pub fn update_bias(bias: &mut [f32], load: &[f32], rate: f32) {
    assert_eq!(bias.len(), load.len());
    let mean = load.iter().map(|&load| f64::from(load)).sum::<f64>() / load.len().max(1) as f64;
    for (bias, &load) in bias.iter_mut().zip(load) {
        match f64::from(load).partial_cmp(&mean) {
            Some(std::cmp::Ordering::Less) => *bias += rate,
            Some(std::cmp::Ordering::Greater) => *bias -= rate,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{close, differences, random, same_for_any_threads, wide};
    use super::*;

    fn naive(
        logits: &[f64],
        index: &[u32],
        (k, sequence, experts): (usize, usize, usize),
        score: Score,
    ) -> f64 {
        let sequences = logits.chunks(sequence * experts).zip(index.chunks(sequence * k));
        let loss = sequences.map(|(logits, index)| {
            let mut p = vec![0.0; experts];
            for row in logits.chunks(experts) {
                let scores: Vec<f64> = match score {
                    Score::Sigmoid => row.iter().map(|x| 1.0 / (1.0 + (-x).exp())).collect(),
                    Score::Softmax => row.iter().map(|x| x.exp()).collect(),
                };
                let all: f64 = scores.iter().sum();
                p.iter_mut().zip(scores).for_each(|(p, score)| *p += score / all / sequence as f64);
            }
            let f = |e: usize| index.iter().filter(|&&i| i as usize == e).count() as f64 / sequence as f64;
            (0..experts).map(|e| f(e) * p[e]).sum::<f64>() * experts as f64 / k as f64
        });
        loss.sum()
    }

    #[test]
    fn loss_and_gradient() {
        let (tokens, sequence, experts, k) = (12, 4, 70, 3);
        let logits = random(tokens * experts, 1, 1.5);
        let index: Vec<u32> = (0..tokens as u32 * 3).map(|i| (i * i + i) % 70).collect();
        for score in [Score::Sigmoid, Score::Softmax] {
            let (mut dlogits, mut load) = (vec![0.5; logits.len()], vec![9.0; 3 * experts]);
            let loss = balance_loss(&mut dlogits, &mut load, &logits, &index, k, sequence, score, 0.25);
            let want = 0.25 * naive(&wide(&logits), &index, (k, sequence, experts), score);
            assert!((loss - want).abs() < 1e-6 * want, "{score:?}: {loss} for {want}");
            let slopes = differences(&logits, |x| 100.0 * naive(x, &index, (k, sequence, experts), score));
            let scaled: Vec<f32> = dlogits.iter().map(|d| (d - 0.5) * 400.0).collect();
            close("dlogits", &scaled, &slopes, 1e-3);
        }
    }

    #[test]
    fn an_even_load_costs_its_weight_whatever_the_threads() {
        let (tokens, experts, k) = (2048, 64, 4);
        let index: Vec<u32> = (0..tokens as u32 * 4).map(|i| i % 64).collect();
        let loss = same_for_any_threads(|| {
            let (mut dlogits, mut load) = (vec![0.0; tokens * experts], vec![0.0; experts]);
            let logits = vec![0.5; tokens * experts];
            balance_loss(&mut dlogits, &mut load, &logits, &index, k, tokens, Score::Softmax, 0.01)
        });
        assert!((loss - 0.01).abs() < 1e-8, "{loss}");
        assert_eq!(balance_loss(&mut [], &mut [], &[], &[], k, 8, Score::Softmax, 1.0), 0.0);
    }

    #[test]
    fn the_bias_goes_against_the_load() {
        let (mut load, mut bias) = ([0.0; 4], [0.5; 4]);
        count_load(&mut load, &[1, 0, 5, 0], false);
        count_load(&mut load, &[1, 1, 3, 1], true);
        assert_eq!(load, [2.0, 1.0, 8.0, 1.0]);
        update_bias(&mut bias, &load, 0.25);
        assert_eq!(bias, [0.75, 0.75, 0.25, 0.75]);
        update_bias(&mut bias, &[3.0; 4], 0.25);
        assert_eq!(bias, [0.75, 0.75, 0.25, 0.75]);
    }
}

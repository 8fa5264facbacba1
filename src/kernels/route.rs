//! Choice of experts: scores of the router's logits, the k best, their weights, and the gradient of the
//! weights.
//!
//! The choice may be biased to balance the load; the weights come from the scores without the bias. The
//! choice itself has no gradient.

use super::math::{exp, max, sigmoid, sum_of};
use super::parallel::{rows_per_task, run};
use super::simd::vectorized;
use rayon::prelude::*;

/// Most experts a token can choose.
pub const MOST_CHOSEN: usize = 64;

/// Most groups that experts can be divided into.
pub const MOST_GROUPS: usize = 64;

/// Keeps the weights finite when all chosen scores vanish.
const TINY: f32 = 1e-20;

/// How a logit becomes a score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Score {
    /// Each expert by itself.
    Sigmoid,
    /// Relative to all experts.
    Softmax,
}

/// How tokens choose experts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gating {
    /// Experts a token chooses.
    pub k: usize,
    pub score: Score,
    /// Weights are divided by the sum of the chosen scores.
    pub normalize: bool,
    /// Weights are multiplied by this.
    pub scale: f32,
    /// Equal groups of experts, and those that a token keeps to: the ones of the best score.
    pub groups: usize,
    pub top_groups: usize,
    pub group_score: GroupScore,
}

/// What makes the score of a group of experts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupScore {
    /// The sum of its two best keys (DeepSeek-V3, arXiv 2412.19437).
    BestTwo,
    /// Its best key (DeepSeek-V2, arXiv 2405.04434).
    Best,
}

/// Chooses `k` of the experts for every row of `logits` [tokens, experts], best first and the lowest number
/// first among equals. Writes their numbers to `index` and their weights to `weight`, both [tokens, k]: the
/// score, divided by the sum of the chosen scores with `normalize`, times `scale`. `bias` `[experts]` is
/// added for the choice only, that of groups included.
pub fn gating_top_k(
    index: &mut [u32],
    weight: &mut [f32],
    logits: &[f32],
    bias: Option<&[f32]>,
    gating: &Gating,
) {
    let Gating { k, groups, top_groups, .. } = *gating;
    let experts = experts(logits.len(), index.len(), k);
    assert!(weight.len() == index.len() && bias.is_none_or(|b| b.len() == experts));
    assert!((1..=MOST_GROUPS).contains(&groups) && experts.is_multiple_of(groups), "{groups} groups");
    assert!(top_groups <= groups && experts / groups * top_groups >= k, "{top_groups} groups for {k}");
    let bias = bias.unwrap_or(&[]);
    let rows = rows_per_task(experts);
    let tasks = index.par_chunks_mut(rows * k).zip(weight.par_chunks_mut(rows * k));
    run(tasks.zip(logits.par_chunks(rows * experts)), |((index, weight), logits)| {
        choose_rows(index, weight, logits, bias, gating);
    });
}

/// Gradient of the weights of [`gating_top_k`]: overwrites `dlogits` [tokens, experts] from `dweight`
/// [tokens, k].
pub fn gating_top_k_grad(
    dlogits: &mut [f32],
    dweight: &[f32],
    logits: &[f32],
    index: &[u32],
    gating: &Gating,
) {
    let k = gating.k;
    let experts = experts(logits.len(), index.len(), k);
    assert!(dlogits.len() == logits.len() && dweight.len() == index.len());
    let rows = rows_per_task(experts);
    let operands =
        dweight.par_chunks(rows * k).zip(logits.par_chunks(rows * experts)).zip(index.par_chunks(rows * k));
    run(dlogits.par_chunks_mut(rows * experts).zip(operands), |(dlogits, ((dweight, logits), index))| {
        grad_rows(dlogits, dweight, logits, index, gating);
    });
}

/// The number of experts, from the sizes of the logits and of the choice.
fn experts(logits: usize, chosen: usize, k: usize) -> usize {
    assert!((1..=MOST_CHOSEN).contains(&k) && chosen.is_multiple_of(k), "{k} experts a token");
    let tokens = chosen / k;
    let experts = logits.checked_div(tokens).unwrap_or(k);
    assert!(experts >= k && tokens * experts == logits, "{k} of {experts} experts for {tokens} tokens");
    experts
}

vectorized! {
    fn choose_rows(
        index: &mut [u32],
        weight: &mut [f32],
        logits: &[f32],
        bias: &[f32],
        gating: &Gating,
    ) {
        let Gating { k, score, normalize, scale, groups, top_groups, group_score } = *gating;
        // Scores of some experts at a time, so that their number has no limit.
        const STRIP: usize = 64;
        let mut scores = [0.0; STRIP];
        let experts = logits.len() / (index.len() / k);
        let rows = index.chunks_exact_mut(k).zip(weight.chunks_exact_mut(k));
        for ((index, weight), logits) in rows.zip(logits.chunks_exact(experts)) {
            let (most, total) = softmax_terms(logits, score);
            let mut open = [true; MOST_GROUPS];
            if top_groups < groups {
                choose_groups(&mut open[..groups], logits, bias, (score, most, total), (top_groups, group_score));
            }
            let mut keys = [0.0; MOST_CHOSEN];
            let mut chosen = 0;
            for (strip, logits) in logits.chunks(STRIP).enumerate() {
                score_all(&mut scores, logits, score, most, total);
                for (i, &value) in scores[..logits.len()].iter().enumerate() {
                    let expert = strip * STRIP + i;
                    if !open[expert / (experts / groups)] {
                        continue;
                    }
                    let key = value + bias.get(expert).copied().unwrap_or(0.0);
                    // Only a better one moves up, so equals stay in the order of their numbers.
                    if chosen == k && (key <= keys[k - 1] || key.is_nan()) {
                        continue;
                    }
                    let mut place = chosen.min(k - 1);
                    while place > 0 && key > keys[place - 1] {
                        keys[place] = keys[place - 1];
                        index[place] = index[place - 1];
                        weight[place] = weight[place - 1];
                        place -= 1;
                    }
                    (keys[place], index[place], weight[place]) = (key, expert as u32, value);
                    chosen = (chosen + 1).min(k);
                }
            }
            let sum = if normalize { weight.iter().sum::<f32>() + TINY } else { 1.0 };
            for weight in weight {
                *weight = *weight / sum * scale;
            }
        }
    }
}

vectorized! {
    fn grad_rows(
        dlogits: &mut [f32],
        dweight: &[f32],
        logits: &[f32],
        index: &[u32],
        gating: &Gating,
    ) {
        let Gating { k, score, normalize, scale, .. } = *gating;
        let experts = logits.len() / (index.len() / k);
        let rows = dweight.chunks_exact(k).zip(index.chunks_exact(k)).zip(logits.chunks_exact(experts));
        for (dlogits, ((dweight, index), logits)) in dlogits.chunks_exact_mut(experts).zip(rows) {
            let (most, total) = softmax_terms(logits, score);
            let mut p = [0.0; MOST_CHOSEN];
            let mut dp = [0.0; MOST_CHOSEN];
            for (p, &expert) in p.iter_mut().zip(index) {
                score_all(std::slice::from_mut(p), &logits[expert as usize..][..1], score, most, total);
            }
            let (p, dp) = (&p[..k], &mut dp[..k]);
            let sum = if normalize { p.iter().sum::<f32>() + TINY } else { 1.0 };
            let drift: f32 = dweight.iter().zip(p).map(|(d, p)| d * p).sum();
            let drift = if normalize { drift / sum } else { 0.0 };
            for (dp, dweight) in dp.iter_mut().zip(dweight) {
                *dp = scale * (dweight - drift) / sum;
            }
            match score {
                Score::Sigmoid => {
                    dlogits.fill(0.0);
                    for ((dp, p), &expert) in dp.iter().zip(p).zip(index) {
                        dlogits[expert as usize] = dp * p * (1.0 - p);
                    }
                }
                Score::Softmax => {
                    let mean = dp.iter().zip(p).map(|(d, p)| d * p).sum::<f32>();
                    score_all(dlogits, logits, score, most, total);
                    for dlogit in &mut *dlogits {
                        *dlogit *= -mean;
                    }
                    for ((dp, p), &expert) in dp.iter().zip(p).zip(index) {
                        dlogits[expert as usize] += dp * p;
                    }
                }
            }
        }
    }
}

/// Leaves those groups of experts open whose score is best, the first among equals.
#[inline(always)]
fn choose_groups(
    open: &mut [bool],
    logits: &[f32],
    bias: &[f32],
    (score, most, total): (Score, f32, f32),
    (top_groups, group_score): (usize, GroupScore),
) {
    let mut sums = [0.0; MOST_GROUPS];
    let each = logits.len() / open.len();
    for (group, (sum, logits)) in sums.iter_mut().zip(logits.chunks_exact(each)).enumerate() {
        let mut best = [f32::NEG_INFINITY; 2];
        for (i, logit) in logits.iter().enumerate() {
            let mut key = [0.0];
            score_all(&mut key, std::slice::from_ref(logit), score, most, total);
            let key = key[0] + bias.get(group * each + i).copied().unwrap_or(0.0);
            match best {
                [first, _] if key > first => best = [key, first],
                [_, second] if key > second => best[1] = key,
                _ => {}
            }
        }
        let one = each == 1 || group_score == GroupScore::Best;
        *sum = if one { best[0] } else { best[0] + best[1] };
    }
    open.fill(false);
    for _ in 0..top_groups {
        // Sums that are no numbers compare with nothing: the first closed group is taken then.
        let closed = (0..open.len()).filter(|&group| !open[group]);
        let best = closed.reduce(|best, group| if sums[group] > sums[best] { group } else { best });
        best.into_iter().for_each(|group| open[group] = true);
    }
}

/// The largest logit and the sum of the exponentials; of no meaning for the sigmoid.
#[inline(always)]
pub(super) fn softmax_terms(logits: &[f32], score: Score) -> (f32, f32) {
    match score {
        Score::Sigmoid => (0.0, 1.0),
        Score::Softmax => {
            let most = max(logits);
            (most, sum_of(logits, |x| exp(x - most)))
        }
    }
}

#[inline(always)]
pub(super) fn score_all(scores: &mut [f32], logits: &[f32], score: Score, most: f32, total: f32) {
    match score {
        Score::Sigmoid => scores.iter_mut().zip(logits).for_each(|(s, &x)| *s = sigmoid(x)),
        Score::Softmax => scores.iter_mut().zip(logits).for_each(|(s, &x)| *s = exp(x - most) / total),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{close, differences, random, same_for_any_threads, wide};
    use super::*;

    fn scores(logits: &[f64], score: Score) -> Vec<f64> {
        match score {
            Score::Sigmoid => logits.iter().map(|x| 1.0 / (1.0 + (-x).exp())).collect(),
            Score::Softmax => {
                let total: f64 = logits.iter().map(|x| x.exp()).sum();
                logits.iter().map(|x| x.exp() / total).collect()
            }
        }
    }

    fn weights(logits: &[f64], index: &[u32], score: Score, normalize: bool, scale: f64) -> Vec<f64> {
        let scores = scores(logits, score);
        let chosen: Vec<f64> = index.iter().map(|&e| scores[e as usize]).collect();
        let sum = if normalize { chosen.iter().sum() } else { 1.0 };
        chosen.iter().map(|p| p / sum * scale).collect()
    }

    fn plain(k: usize, score: Score) -> Gating {
        Gating {
            k,
            score,
            normalize: true,
            scale: 1.0,
            groups: 1,
            top_groups: 1,
            group_score: GroupScore::BestTwo,
        }
    }

    #[test]
    fn groups_with_the_two_best_experts() {
        // Groups of three: the second has the best expert, the first and the last the better two together.
        let logits = [2.0, 1.9, -5.0, 3.0, -5.0, -4.0, 0.0, 0.0, 0.0, 1.0, 1.5, 2.5];
        let choose = |groups, top_groups, bias: Option<&[f32]>| {
            let (mut index, mut weight) = ([9; 3], [0.0; 3]);
            let gating = Gating { groups, top_groups, ..plain(3, Score::Sigmoid) };
            gating_top_k(&mut index, &mut weight, &logits, bias, &gating);
            index
        };
        assert_eq!(choose(1, 1, None), [3, 11, 0]);
        assert_eq!(choose(4, 2, None), [11, 0, 1]);
        assert_eq!(choose(4, 1, None), [0, 1, 2]);
        let mut bias = [0.0; 12];
        bias[4] = 1.0;
        assert_eq!(choose(4, 1, Some(&bias)), [4, 3, 5], "the bias takes part in the choice of groups");
        let (mut index, mut weight) = ([9; 3], [0.0; 3]);
        let gating = Gating { groups: 3, top_groups: 2, ..plain(3, Score::Softmax) };
        gating_top_k(&mut index, &mut weight, &[f32::NAN; 6], None, &gating);
        assert_eq!(index, [0, 1, 2]);
    }

    #[test]
    fn choice_weights_and_gradient() {
        let (tokens, experts, k) = (7, 150, 5);
        let logits = random(tokens * experts, 1, 1.5);
        let bias = random(experts, 2, 0.2);
        let dweight = random(tokens * k, 3, 1.0);
        for (score, normalize) in
            [(Score::Sigmoid, true), (Score::Sigmoid, false), (Score::Softmax, true), (Score::Softmax, false)]
        {
            let (mut index, mut weight) = (vec![0; tokens * k], vec![0.0; tokens * k]);
            let gating = Gating { normalize, scale: 3.0, ..plain(k, score) };
            gating_top_k(&mut index, &mut weight, &logits, Some(&bias), &gating);
            let mut dlogits = vec![9.0; logits.len()];
            gating_top_k_grad(&mut dlogits, &dweight, &logits, &index, &gating);
            for t in 0..tokens {
                let row = &logits[t * experts..][..experts];
                let (index, dweight) = (&index[t * k..][..k], &dweight[t * k..][..k]);
                let keys: Vec<f64> =
                    scores(&wide(row), score).iter().zip(&bias).map(|(p, &b)| p + f64::from(b)).collect();
                let mut order: Vec<u32> = (0..experts as u32).collect();
                order.sort_by(|&a, &b| keys[b as usize].total_cmp(&keys[a as usize]));
                assert_eq!(index, &order[..k]);
                close(
                    "weight",
                    &weight[t * k..][..k],
                    &weights(&wide(row), index, score, normalize, 3.0),
                    1e-6,
                );
                let loss = |row: &[f64]| -> f64 {
                    let w = weights(row, index, score, normalize, 3.0);
                    w.iter().zip(dweight).map(|(w, &d)| w * f64::from(d)).sum()
                };
                close("dlogits", &dlogits[t * experts..][..experts], &differences(row, loss), 1e-5);
            }
        }
    }

    #[test]
    fn the_lowest_number_wins_among_equals() {
        let logits = [0.5, 1.0, 1.0, 0.5, 1.0, 0.5];
        let (mut index, mut weight) = ([9; 4], [0.0; 4]);
        gating_top_k(&mut index, &mut weight, &logits, None, &plain(4, Score::Sigmoid));
        assert_eq!(index, [1, 2, 4, 0]);
        assert!((weight.iter().sum::<f32>() - 1.0).abs() < 1e-6);
        let bias = [0.0, -1.0, 0.0, 0.0, 0.0, 0.0];
        gating_top_k(&mut index, &mut weight, &logits, Some(&bias), &plain(4, Score::Sigmoid));
        assert_eq!(index, [2, 4, 0, 3]);
    }

    #[test]
    fn a_row_of_nan_still_names_different_experts() {
        let (mut index, mut weight) = ([9; 3], [0.0; 3]);
        gating_top_k(&mut index, &mut weight, &[f32::NAN; 5], None, &plain(3, Score::Softmax));
        assert_eq!(index, [0, 1, 2]);
        assert!(weight.iter().all(|w| w.is_nan()));
    }

    #[test]
    fn any_threads_and_no_tokens() {
        let (tokens, experts, k) = (700, 96, 8);
        let logits = random(tokens * experts, 1, 1.5);
        let gating = plain(k, Score::Sigmoid);
        same_for_any_threads(|| {
            let (mut index, mut weight) = (vec![0; tokens * k], vec![0.0; tokens * k]);
            gating_top_k(&mut index, &mut weight, &logits, None, &gating);
            let mut dlogits = vec![0.0; logits.len()];
            gating_top_k_grad(&mut dlogits, &weight, &logits, &index, &gating);
            (index, weight, dlogits)
        });
        gating_top_k(&mut [], &mut [], &[], None, &gating);
        gating_top_k_grad(&mut [], &[], &[], &[], &gating);
    }
}

//! Attention over packed sequences, layout `TND`.

use super::Kernel;
use crate::descriptor::{BOOL, FLOAT, Tensor, UINT8};
use crate::executor::{Arguments, Refusal, Run};
use crate::memory::Memory;
use crate::process::lock;
use crate::stream::Fault;
use std::collections::BTreeSet;
use std::sync::Mutex;

pub const KERNELS: &[(&str, Kernel)] =
    &[("aclnnFlashAttentionVarLenScore", forward), ("aclnnFlashAttentionUnpaddingScoreGrad", backward)];

/// The side of the mask that the sparse modes take in place of a whole one.
const MASK: i64 = 2048;
/// The statistics of a row are there so many times.
const REPEATED: usize = 8;
const RIGHT_DOWN: i64 = 3;
const BAND: i64 = 4;

/// Shapes and what a query sees.
struct Attention {
    heads: usize,
    key_heads: usize,
    channels: usize,
    value_channels: usize,
    scale: f32,
    /// Ends of the sequences.
    ends: Vec<usize>,
    mask: Tensor,
    /// Keys before a query's own that it sees.
    before: i64,
}

impl Attention {
    fn new(a: &Arguments, query: &Tensor, key: &Tensor, value: &Tensor) -> Result<Attention, Refusal> {
        let (
            &[tokens, heads, channels],
            &[keys, key_heads, key_channels],
            &[values, value_heads, value_channels],
        ) = (&query.shape[..], &key.shape[..], &value.shape[..])
        else {
            return Err(Refusal::wrong("query, key and value have three dimensions in layout TND"));
        };
        let same = keys == values
            && key_heads == value_heads
            && channels == key_channels
            && value_channels <= channels;
        if !same || heads % key_heads != 0 || heads != a.integer("headNum")? || tokens != keys {
            return Err(Refusal::wrong(format!(
                "shapes {:?}, {:?}, {:?}",
                query.shape, key.shape, value.shape
            )));
        }
        if query.of != key.of || query.of != value.of || !query.is_float() {
            return Err(Refusal::wrong("query, key and value are not of one type"));
        }
        if a.text("inputLayout")? != "TND" || a.number("keepProb")? != 1.0 {
            return Err(Refusal::wrong("only layout TND without dropout is emulated"));
        }
        let ends = a.integers("actualSeqQLenOptional")?.unwrap_or_default();
        if ends != a.integers("actualSeqKvLenOptional")?.unwrap_or_default()
            || ends.last() != Some(&tokens)
            || ends.windows(2).any(|pair| pair[0] > pair[1])
        {
            return Err(Refusal::wrong(format!("ends {ends:?} of the sequences do not lead to {tokens}")));
        }
        let mask = a.tensor("attenMaskOptional")?;
        let allowed = mask.of == BOOL || (mask.of == UINT8 && query.of != FLOAT);
        if !allowed || mask.shape != [MASK, MASK] {
            return Err(Refusal::wrong(format!("a mask of {:?} and type {}", mask.shape, mask.of)));
        }
        let before = match (a.integer("sparseMode")?, a.integer("preTokens")?, a.integer("nextTokens")?) {
            (RIGHT_DOWN, _, _) => i64::MAX,
            (BAND, before, 0) => before,
            (mode, before, next) => {
                return Err(Refusal::wrong(format!(
                    "sparse mode {mode} with {before} and {next} is not emulated"
                )));
            }
        };
        Ok(Attention {
            heads: heads as usize,
            key_heads: key_heads as usize,
            channels: channels as usize,
            value_channels: value_channels as usize,
            scale: a.number("scaleValue")? as f32,
            ends: ends.into_iter().map(|end| end as usize).collect(),
            mask,
            before,
        })
    }

    /// A wrong mask says nothing on hardware. A mask is looked at as a whole once.
    fn verify_mask(&self, memory: &Memory) -> Result<(), Fault> {
        static VERIFIED: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());
        if lock(&VERIFIED).contains(&self.mask.address) {
            return Ok(());
        }
        let mask = self.mask.load(memory)?;
        let side = MASK as usize;
        let wrong = (0..mask.len()).find(|at| (mask[*at] != 0.0) != (at % side > at / side));
        if let Some(at) = wrong {
            return Err(Fault::new(format!("the mask at [{}, {}] is {}", at / side, at % side, mask[at])));
        }
        lock(&VERIFIED).insert(self.mask.address);
        Ok(())
    }

    /// Calls `row` for each query of each head: its token and head, and the keys it sees.
    fn rows(&self, mut row: impl FnMut(usize, usize, std::ops::Range<usize>)) {
        let mut start = 0;
        for end in &self.ends {
            for token in start..*end {
                let first = (token as i64).saturating_sub(self.before).max(start as i64) as usize;
                (0..self.heads).for_each(|head| row(token, head, first..token + 1));
            }
            start = *end;
        }
    }

    fn score(&self, query: &[f32], key: &[f32]) -> f32 {
        self.scale * query.iter().zip(key).map(|(q, k)| q * k).sum::<f32>()
    }

    /// Where the channels of a token's head begin.
    fn query_at(&self, token: usize, head: usize) -> usize {
        (token * self.heads + head) * self.channels
    }

    fn key_at(&self, token: usize, head: usize) -> usize {
        (token * self.key_heads + head * self.key_heads / self.heads) * self.channels
    }

    fn value_at(&self, token: usize, head: usize) -> usize {
        (token * self.key_heads + head * self.key_heads / self.heads) * self.value_channels
    }

    fn out_at(&self, token: usize, head: usize) -> usize {
        (token * self.heads + head) * self.value_channels
    }
}

fn forward(a: &Arguments) -> Result<Run, Refusal> {
    a.must_be_null(&["realShiftOptional", "dropMaskOptional", "paddingMaskOptional", "prefixOptional"])?;
    let (query, key, value) = (a.tensor("query")?, a.tensor("key")?, a.tensor("value")?);
    let attention = Attention::new(a, &query, &key, &value)?;
    let (most, sum, out) =
        (a.tensor("softmaxMaxOut")?, a.tensor("softmaxSumOut")?, a.tensor("attentionOutOut")?);
    let statistics = query.shape[0] as usize * attention.heads * REPEATED;
    if [&most, &sum].iter().any(|s| s.of != FLOAT || s.elements() != statistics) {
        return Err(Refusal::wrong("statistics have 32 bits, 8 for each token and head"));
    }
    if out.elements() != query.shape[0] as usize * attention.heads * attention.value_channels {
        return Err(Refusal::wrong(format!("a result of {:?}", out.shape)));
    }
    Ok(Box::new(move |memory| {
        attention.verify_mask(memory)?;
        let (q, k, v) = (query.load(memory)?, key.load(memory)?, value.load(memory)?);
        let mut result = vec![0.0; out.elements()];
        let (mut largest, mut sums) = (vec![0.0; statistics], vec![0.0; statistics]);
        attention.rows(|token, head, keys| {
            let own = &q[attention.query_at(token, head)..][..attention.channels];
            let score =
                |other| attention.score(own, &k[attention.key_at(other, head)..][..attention.channels]);
            let scores: Vec<f32> = keys.clone().map(score).collect();
            let top = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let all: f32 = scores.iter().map(|score| (score - top).exp()).sum();
            let row = &mut result[attention.out_at(token, head)..][..attention.value_channels];
            for (other, score) in keys.zip(&scores) {
                let share = (score - top).exp() / all;
                let values = &v[attention.value_at(other, head)..][..attention.value_channels];
                row.iter_mut().zip(values).for_each(|(sum, value)| *sum += share * value);
            }
            let at = (token * attention.heads + head) * REPEATED;
            largest[at..at + REPEATED].fill(top);
            sums[at..at + REPEATED].fill(all);
        });
        most.store(memory, &largest)?;
        sum.store(memory, &sums)?;
        out.store(memory, &result)
    }))
}

fn backward(a: &Arguments) -> Result<Run, Refusal> {
    a.must_be_null(&[
        "pseShiftOptional",
        "dropMaskOptional",
        "paddingMaskOptional",
        "prefixOptional",
        "softmaxInOptional",
    ])?;
    let [query, key, value, dy] = ["query", "keyIn", "value", "dy"].map(|name| a.tensor(name));
    let (query, key, value, dy) = (query?, key?, value?, dy?);
    let attention = Attention::new(a, &query, &key, &value)?;
    let [most, sum, out] =
        ["softmaxMaxOptional", "softmaxSumOptional", "attentionInOptional"].map(|name| a.tensor(name));
    let (most, sum, out) = (most?, sum?, out?);
    let (dq, dk, dv) = (a.tensor("dqOut")?, a.tensor("dkOut")?, a.tensor("dvOut")?);
    if dq.shape != query.shape || dk.shape != key.shape || dv.shape != value.shape || dy.shape != out.shape {
        return Err(Refusal::wrong("gradients have the shapes of what they are gradients of"));
    }
    Ok(Box::new(move |memory| {
        attention.verify_mask(memory)?;
        let (q, k, v) = (query.load(memory)?, key.load(memory)?, value.load(memory)?);
        let (d_output, output) = (dy.load(memory)?, out.load(memory)?);
        let (largest, sums) = (most.load(memory)?, sum.load(memory)?);
        let (mut d_query, mut d_key, mut d_value) =
            (vec![0.0; q.len()], vec![0.0; k.len()], vec![0.0; v.len()]);
        let (channels, value_channels) = (attention.channels, attention.value_channels);
        attention.rows(|token, head, keys| {
            let (at, out_at) = (attention.query_at(token, head), attention.out_at(token, head));
            let statistic = (token * attention.heads + head) * REPEATED;
            let own = &d_output[out_at..][..value_channels];
            let dot: f32 = own.iter().zip(&output[out_at..][..value_channels]).map(|(dy, y)| dy * y).sum();
            for other in keys {
                let (key_at, value_at) = (attention.key_at(other, head), attention.value_at(other, head));
                let score = attention.score(&q[at..][..channels], &k[key_at..][..channels]);
                let share = (score - largest[statistic]).exp() / sums[statistic];
                let d_share: f32 =
                    own.iter().zip(&v[value_at..][..value_channels]).map(|(dy, v)| dy * v).sum();
                let d_score = share * (d_share - dot) * attention.scale;
                for channel in 0..channels {
                    d_query[at + channel] += d_score * k[key_at + channel];
                    d_key[key_at + channel] += d_score * q[at + channel];
                }
                for channel in 0..value_channels {
                    d_value[value_at + channel] += share * own[channel];
                }
            }
        });
        dq.store(memory, &d_query)?;
        dk.store(memory, &d_key)?;
        dv.store(memory, &d_value)
    }))
}

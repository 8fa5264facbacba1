//! Rotary positions, layout `[1, tokens, heads, channels]`.

use super::Kernel;
use crate::executor::{Arguments, Refusal, Run};

pub const KERNELS: &[(&str, Kernel)] = &[("aclnnRotaryPositionEmbedding", rotate)];

const HALVES: i64 = 0;
const PAIRS: i64 = 1;

fn rotate(a: &Arguments) -> Result<Run, Refusal> {
    let [x, cos, sin, out] = ["x", "cos", "sin", "out"].map(|name| a.tensor(name));
    let (x, cos, sin, out) = (x?, cos?, sin?, out?);
    let mode = a.integer("mode")?;
    let &[1, tokens, heads, channels] = &x.shape[..] else {
        return Err(Refusal::wrong(format!(
            "only [1, tokens, heads, channels] is emulated, not {:?}",
            x.shape
        )));
    };
    if cos.shape != [1, tokens, 1, channels]
        || sin.shape != cos.shape
        || out.shape != x.shape
        || channels % 2 != 0
    {
        return Err(Refusal::wrong(format!("cos {:?}, sin {:?}, out {:?}", cos.shape, sin.shape, out.shape)));
    }
    if x.of != cos.of || x.of != sin.of || channels >= 896 || !matches!(mode, HALVES | PAIRS) {
        return Err(Refusal::wrong("one type, fewer than 896 channels, mode 0 or 1"));
    }
    let (heads, channels) = (heads as usize, channels as usize);
    Ok(Box::new(move |memory| {
        let (values, cos, sin) = (x.load(memory)?, cos.load(memory)?, sin.load(memory)?);
        let half = channels / 2;
        let turned = |at: usize| {
            let (row, channel) = (at / channels * channels, at % channels);
            // The other one of the pair, negative for the first of the two.
            let other = match mode {
                HALVES if channel < half => -values[row + channel + half],
                HALVES => values[row + channel - half],
                _ if channel % 2 == 0 => -values[at + 1],
                _ => values[at - 1],
            };
            let angle = at / (heads * channels) * channels + channel;
            values[at] * cos[angle] + other * sin[angle]
        };
        out.store(memory, &(0..values.len()).map(turned).collect::<Vec<_>>())
    }))
}

//! 8-bit floats with a scale for each block of 128×128 elements, as DeepSeek-V3 publishes its weights.
//!
//! An element is `e4m3(byte) * scale`, the scale being that of the block in a second tensor of f32, whose shape is that of
//! the first divided by 128 and rounded up, and whose name ends in `_scale_inv`. Format of a byte: "FP8 Formats for Deep
//! Learning" (Micikevicius et al., 2022), E4M3: no infinities, `S.1111.111` is no number.

use std::ops::Range;

/// Rows and columns of a block.
const BLOCK: u64 = 128;
/// The largest number.
const LARGEST: f32 = 448.0;

const DECODED: [f32; 256] = {
    let mut values = [0.0; 256];
    let mut byte = 0;
    while byte < 256 {
        values[byte] = decoded(byte as u8);
        byte += 1;
    }
    values
};

const fn decoded(byte: u8) -> f32 {
    let sign = ((byte & 0x80) as u32) << 24;
    let (exponent, mantissa) = ((byte >> 3 & 15) as u32, (byte & 7) as u32);
    let magnitude = match (exponent, mantissa) {
        (15, 7) => f32::NAN.to_bits(),
        // Multiples of 2⁻⁹.
        (0, _) => (mantissa as f32 * 0.001953125).to_bits(),
        _ => (exponent + 120) << 23 | mantissa << 20,
    };
    f32::from_bits(sign | magnitude)
}

/// The value of a byte.
pub fn decode(byte: u8) -> f32 {
    DECODED[byte as usize]
}

/// The byte nearest to `x`, ties to even; no number beyond 464, as PyTorch converts.
pub fn encode(x: f32) -> u8 {
    let bits = x.to_bits();
    let (sign, magnitude) = ((bits >> 24) as u8 & 0x80, bits & 0x7fff_ffff);
    // 2⁻⁶ is the smallest normal number, 480 would be the next after 448.
    if magnitude >= 480f32.to_bits() {
        return sign | 0x7f;
    }
    if magnitude < 0.015625f32.to_bits() {
        // Adding 2¹⁴ leaves the last place of a float at 2⁻⁹: the addition rounds.
        let shifted = (f32::from_bits(magnitude) + 16384.0).to_bits();
        return sign | (shifted - 16384f32.to_bits()) as u8;
    }
    let even = magnitude >> 20 & 1;
    let rounded = magnitude - (120 << 23) + 0x7_ffff + even;
    sign | (rounded >> 20) as u8
}

/// The name of the tensor that holds the scales of `name`.
pub fn scale_name(name: &str) -> String {
    format!("{name}_scale_inv")
}

/// The shape of the scales of a tensor; `None` for a vector, which has no blocks.
pub fn scale_shape(shape: &[u64]) -> Option<Vec<u64>> {
    let blocks = shape.len().checked_sub(2)?;
    let divided = shape.iter().enumerate().map(|(i, n)| if i < blocks { *n } else { n.div_ceil(BLOCK) });
    Some(divided.collect())
}

/// The blocks of the matrices of a tensor `[…, rows, columns]`.
#[derive(Debug, Clone, Copy)]
pub struct Grid {
    rows: u64,
    columns: u64,
}

impl Grid {
    pub fn new(shape: &[u64]) -> Grid {
        let (rows, columns) = match *shape {
            [.., rows, columns] => (rows, columns),
            _ => (1, shape.iter().product()),
        };
        Grid { rows: rows.max(1), columns: columns.max(1) }
    }

    /// Blocks side by side.
    pub fn blocks_across(self) -> u64 {
        self.columns.div_ceil(BLOCK)
    }

    /// The row of blocks that an element is in, counted over all matrices.
    pub fn block_row(self, element: u64) -> u64 {
        let row = element / self.columns;
        row / self.rows * self.rows.div_ceil(BLOCK) + row % self.rows / BLOCK
    }

    /// Elements of `range` that follow one another in a block, and the number of the block.
    pub fn blocks(self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, u64)> {
        let mut at = range.start;
        std::iter::from_fn(move || {
            let start = at;
            let column = start % self.columns;
            let left = (BLOCK - column % BLOCK).min(self.columns - column);
            at = (start + left).min(range.end);
            let block = self.block_row(start) * self.blocks_across() + column / BLOCK;
            (start < range.end).then_some((start..at, block))
        })
    }
}

/// The bytes and the scales of a matrix or of several, `shape` being `[…, rows, columns]`: the largest element of each
/// block becomes 448.
pub fn quantize(values: &[f32], shape: &[u64]) -> (Vec<u8>, Vec<f32>) {
    let grid = Grid::new(shape);
    let blocks = scale_shape(shape).map_or(1, |shape| shape.iter().product::<u64>());
    let mut scales = vec![0f32; blocks as usize];
    let runs = || grid.blocks(0..values.len() as u64);
    let of = |elements: Range<u64>| elements.start as usize..elements.end as usize;
    for (elements, block) in runs() {
        let largest = values[of(elements)].iter().fold(0f32, |most, x| most.max(x.abs()));
        scales[block as usize] = scales[block as usize].max(largest);
    }
    // A block of zeros keeps its zeros with any scale.
    scales.iter_mut().for_each(|scale| *scale = if *scale > 0.0 { *scale / LARGEST } else { 1.0 });
    let mut bytes = vec![0; values.len()];
    for (elements, block) in runs() {
        let (range, scale) = (of(elements), scales[block as usize]);
        for (byte, x) in bytes[range.clone()].iter_mut().zip(&values[range]) {
            // Dividing by a rounded quotient may end above the largest number.
            *byte = encode((x / scale).clamp(-LARGEST, LARGEST));
        }
    }
    (bytes, scales)
}

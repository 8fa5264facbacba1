//! 4-bit floats with a scale for each group of 32, as gpt-oss publishes its experts.
//!
//! A tensor `NAME` of shape `[…, columns, rows]` lies transposed in two tensors of bytes: `NAME_blocks`, `[…, rows, groups, 16]`,
//! two elements in a byte, the even one in its lower half, and `NAME_scales`, `[…, rows, groups]`, with `32 · groups = columns`. An
//! element is `e2m1(4 bits) · 2^(scale - 127)`. Format: "OCP Microscaling Formats (MX) Specification", version 1.0, MXFP4.

use super::read::{BUFFER, Reader};
use crate::base::Line;
use crate::diag::Diagnostic;

/// Elements that share a scale.
const GROUP: usize = 32;
/// The bytes that they lie in.
const BLOCK: usize = GROUP / 2;

/// E2M1: sign, two bits of exponent, one of mantissa.
const ELEMENTS: [f32; 16] =
    [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];

/// The two elements of a byte.
const PAIRS: [[f32; 2]; 256] = {
    let mut pairs = [[0.0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [ELEMENTS[byte & 15], ELEMENTS[byte >> 4]];
        byte += 1;
    }
    pairs
};

/// The name of the tensor whose elements and scales lie apart, if `blocks` names its elements.
pub(super) fn name(blocks: &str) -> Option<&str> {
    blocks.strip_suffix("_blocks")
}

/// The name of the tensor that holds the elements of `name`.
pub(super) fn blocks_name(name: &str) -> String {
    format!("{name}_blocks")
}

/// The name of the tensor that holds the scales of `name`.
pub(super) fn scale_name(name: &str) -> String {
    format!("{name}_scales")
}

/// The shape of the tensor that blocks and scales of these shapes are; `None` where they do not fit each other.
pub(super) fn shape(blocks: &[u64], scales: &[u64]) -> Option<Vec<u64>> {
    let (bytes, groups) = blocks.split_last()?;
    let [outer @ .., rows, across] = groups else { return None };
    (*bytes == BLOCK as u64 && scales == groups).then(|| [outer, &[across * GROUP as u64, *rows]].concat())
}

/// E8M0: a power of two, all bits set being no number.
fn scale(byte: u8) -> f32 {
    match byte {
        0 => f32::from_bits(1 << 22),
        255 => f32::NAN,
        _ => f32::from_bits(u32::from(byte) << 23),
    }
}

/// Writes the elements of groups.
fn decode(blocks: &[[u8; BLOCK]], scales: &[u8], out: &mut [[f32; GROUP]]) {
    for ((block, byte), out) in blocks.iter().zip(scales).zip(out) {
        let scale = scale(*byte);
        for (byte, out) in block.iter().zip(out.as_chunks_mut().0) {
            *out = PAIRS[usize::from(*byte)].map(|x| x * scale);
        }
    }
}

/// Elements of a matrix that are read together: `columns` that lie side by side in each of `rows`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Patch {
    /// The first row, counted over all matrices, and the distance to the next.
    row: u64,
    step: u64,
    rows: u64,
    column: u64,
    columns: u64,
    /// The place of the first element in what is read, and the distances to those of the next row and the next column.
    first: u64,
    strides: [u64; 2],
}

/// Columns and rows of the matrices of a tensor.
#[derive(Debug, Clone, Copy)]
struct Matrix {
    columns: u64,
    rows: u64,
}

impl Matrix {
    /// The row, counted over all matrices, and the column of an element.
    fn place(self, at: u64) -> [u64; 2] {
        let column = at / self.rows;
        [column / self.columns * self.rows + at % self.rows, column % self.columns]
    }

    /// Whether `b` is `a` one column further, in the tensor and in what is read, and each stays in its column.
    fn beside(self, a: &Line, b: &Line) -> bool {
        a.count > 0
            && b.at == a.at + self.rows
            && b.first == a.first + 1
            && (a.count, a.step, a.stride) == (b.count, b.step, b.stride)
            && a.at % self.rows + (a.count - 1) * a.step < self.rows
            && self.place(b.at)[1] > 0
    }

    /// Calls `each` with patches that together are `lines`.
    fn patches<E>(self, lines: &[Line], mut each: impl FnMut(Patch) -> Result<(), E>) -> Result<(), E> {
        lines.chunk_by(|a, b| self.beside(a, b)).try_for_each(|same| match same {
            [Line { count, at, step, first, stride }, _, ..] => {
                let [row, column] = self.place(*at);
                let (columns, strides) = (same.len() as u64, [*stride, 1]);
                each(Patch { row, step: *step, rows: *count, column, columns, first: *first, strides })
            }
            _ => same.iter().flat_map(|line| self.split(*line)).try_for_each(&mut each),
        })
    }

    /// A line, which goes down the rows and then on to the next column.
    fn split(self, mut line: Line) -> impl Iterator<Item = Patch> {
        std::iter::from_fn(move || {
            let Line { count, at, step, first, stride } = line;
            if count == 0 {
                return None;
            }
            let ([row, column], inside) = (self.place(at), at % self.rows);
            let rows = (self.rows - inside).div_ceil(step).min(count);
            // Where steps fill a column, the line comes to the same rows of the next.
            let alike = self.rows.is_multiple_of(step) && inside < step;
            let columns = if alike { (count / rows).min(self.columns - column) } else { 1 };
            let read = rows * columns;
            line = Line { count: count - read, at: at + read * step, first: first + read * stride, ..line };
            Some(Patch { row, step, rows, column, columns, first, strides: [stride, stride * rows] })
        })
    }
}

impl Reader<'_> {
    /// Reads `lines` of a tensor of 4-bit floats as [`Reader::read`] does.
    ///
    /// Whole groups are read. Rows come together where at least half of what lies from the first to the last is wanted, as with a
    /// gate and an up projection in turns: copying a row costs less than a system call.
    pub(super) fn read_packed(
        &mut self,
        lines: &[Line],
        origin: u64,
        out: &mut [f32],
    ) -> Result<(), Diagnostic> {
        let [.., columns, rows] = self.tensor.shape[..] else { return Ok(()) };
        let [group, block] = [GROUP, BLOCK].map(|n| n as u64);
        let across = columns / group;
        let (mut blocks, mut scales, mut values) = (Vec::new(), Vec::new(), Vec::new());
        Matrix { columns, rows }.patches(lines, |patch| {
            let (first, last) = (patch.column / group, (patch.column + patch.columns - 1) / group);
            let (groups, pitch) = (last - first + 1, patch.step * across);
            let together = if 2 * groups < pitch { 1 } else { (BUFFER as u64 / (pitch * block)).max(1) };
            let skipped = (patch.column % group) as usize;
            values.resize(groups as usize, [0.0; GROUP]);
            for start in (0..patch.rows).step_by(together as usize) {
                let rows = together.min(patch.rows - start);
                let span = ((rows - 1) * pitch + groups) as usize;
                blocks.resize(span, [0; BLOCK]);
                scales.resize(span, 0);
                let from = (patch.row + start * patch.step) * across + first;
                self.read_blocks(from * block, blocks.as_flattened_mut())?;
                self.read_scales(from, &mut scales)?;
                for i in 0..rows {
                    let read = (i * pitch) as usize..(i * pitch + groups) as usize;
                    decode(&blocks[read.clone()], &scales[read], &mut values);
                    let wanted = &values.as_flattened()[skipped..][..patch.columns as usize];
                    let at = (patch.first - origin + (start + i) * patch.strides[0]) as usize;
                    match patch.strides[1] as usize {
                        1 => out[at..at + wanted.len()].copy_from_slice(wanted),
                        stride => (at..).step_by(stride).zip(wanted).for_each(|(at, x)| out[at] = *x),
                    }
                }
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn patches_are_their_lines(
            (columns, rows) in (1u64..7, 1u64..7),
            (at, step, stride) in (0u64..40, 1u64..9, 1u64..9),
            (count, neighbours) in (0u64..30, 1u64..5),
        ) {
            let line = |k| Line { count, at: at + k * rows, step, first: 7 + k, stride: stride * 5 };
            let lines: Vec<Line> = (0..neighbours).map(line).collect();
            let matrix = Matrix { columns, rows };
            let mut found = Vec::new();
            matrix.patches(&lines, |p| {
                for (i, k) in (0..p.rows).flat_map(|i| (0..p.columns).map(move |k| (i, k))) {
                    let place = [p.row + i * p.step, p.column + k];
                    assert!(place[1] < columns && place[0] / rows == p.row / rows);
                    found.push((p.first + i * p.strides[0] + k * p.strides[1], place));
                }
                Ok::<_, ()>(())
            }).unwrap();
            let pairs = lines.iter().flat_map(|line| line.pairs());
            let mut wanted: Vec<_> = pairs.map(|(at, first)| (first as u64, matrix.place(at as u64))).collect();
            found.sort_unstable();
            wanted.sort_unstable();
            prop_assert_eq!(found, wanted);
        }
    }
}

//! 4-bit floats with a scale for each group of 32, as gpt-oss publishes its experts.
//!
//! A tensor `NAME` of shape `[…, columns, rows]` lies transposed in two tensors of bytes: `NAME_blocks`, `[…, rows, groups, 16]`,
//! two elements in a byte, the even one in its lower half, and `NAME_scales`, `[…, rows, groups]`, with `32 · groups = columns`. An
//! element is `e2m1(4 bits) · 2^(scale - 127)`. Format: "OCP Microscaling Formats (MX) Specification", version 1.0, MXFP4.

use super::read::Reader;
use crate::base::Line;
use crate::diag::Diagnostic;

/// Elements that share a scale.
const GROUP: u64 = 32;
/// The bytes that they lie in.
const BYTES: u64 = GROUP / 2;

/// E2M1: sign, two bits of exponent, one of mantissa.
const DECODED: [f32; 16] =
    [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];

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
    let [outer @ .., rows, groups, BYTES] = blocks else { return None };
    (*scales == blocks[..blocks.len() - 1]).then(|| [outer, &[groups * GROUP, *rows]].concat())
}

/// E8M0: a power of two, all bits set being no number.
fn scale(byte: u8) -> f32 {
    match byte {
        0 => f32::from_bits(1 << 22),
        255 => f32::NAN,
        _ => f32::from_bits(u32::from(byte) << 23),
    }
}

/// Writes the elements from `column` on, which the bytes begin with.
fn decode(bytes: &[u8], scales: &[u8], column: u64, out: &mut [f32]) {
    let (mut at, mut left) = ((column % 2) as usize, (GROUP - column % GROUP) as usize);
    let mut out = out.iter_mut();
    for byte in scales {
        let scale = scale(*byte);
        for (i, x) in (at..).zip(out.by_ref().take(left)) {
            *x = DECODED[(bytes[i / 2] >> (4 * (i % 2)) & 15) as usize] * scale;
        }
        (at, left) = (at + left, GROUP as usize);
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
        b.at == a.at + self.rows
            && b.first == a.first + 1
            && (a.count, a.step, a.stride) == (b.count, b.step, b.stride)
            && a.at % self.rows + (a.count - 1) * a.step < self.rows
            && self.place(b.at)[1] > 0
    }

    fn patches(
        self,
        lines: &[Line],
        mut each: impl FnMut(Patch) -> Result<(), Diagnostic>,
    ) -> Result<(), Diagnostic> {
        for same in lines.chunk_by(|a, b| self.beside(a, b)) {
            let Line { count, at, step, first, stride } = same[0];
            let [row, column] = self.place(at);
            if same.len() > 1 {
                let (columns, strides) = (same.len() as u64, [stride, 1]);
                each(Patch { row, step, rows: count, column, columns, first, strides })?;
            } else {
                self.split(same[0]).try_for_each(&mut each)?;
            }
        }
        Ok(())
    }

    /// A line, which goes down the rows and then on to the next column.
    fn split(self, mut line: Line) -> impl Iterator<Item = Patch> {
        std::iter::from_fn(move || {
            let Line { count, at, step, first, stride } = line;
            let ([row, column], inside) = (self.place(at), at % self.rows);
            let rows = (self.rows - inside).div_ceil(step).min(count);
            let alike = self.rows.is_multiple_of(step) && inside < step;
            let columns = if alike && count > 0 { (count / rows).min(self.columns - column) } else { 1 };
            let read = rows * columns;
            line = Line {
                count: count - read * u64::from(count > 0),
                at: at + read * step,
                first: first + read * stride,
                ..line
            };
            (count > 0).then_some(Patch {
                row,
                step,
                rows,
                column,
                columns,
                first,
                strides: [stride, stride * rows],
            })
        })
    }
}

impl Reader<'_> {
    /// Reads `lines` of a tensor of 4-bit floats as [`Reader::read`] does.
    pub(super) fn read_packed(
        &mut self,
        lines: &[Line],
        origin: u64,
        out: &mut [f32],
    ) -> Result<(), Diagnostic> {
        let [.., columns, rows] = self.tensor.shape[..] else { return Ok(()) };
        let (mut bytes, mut scales, mut values) = (Vec::new(), Vec::new(), Vec::new());
        Matrix { columns, rows }.patches(lines, |patch| {
            let (first, last) = (patch.column, patch.column + patch.columns - 1);
            bytes.resize((last / 2 - first / 2 + 1) as usize, 0);
            scales.resize((last / GROUP - first / GROUP + 1) as usize, 0);
            values.resize(patch.columns as usize, 0.0);
            for i in 0..patch.rows {
                let start = (patch.row + i * patch.step) * columns + first;
                self.read_blocks(start / 2, &mut bytes)?;
                self.read_scales(start / GROUP, &mut scales)?;
                let at = (patch.first - origin + i * patch.strides[0]) as usize;
                if patch.strides[1] == 1 {
                    decode(&bytes, &scales, first, &mut out[at..at + values.len()]);
                } else {
                    decode(&bytes, &scales, first, &mut values);
                    let places = (at..).step_by(patch.strides[1] as usize);
                    places.zip(&values).for_each(|(at, value)| out[at] = *value);
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
            let lines: Vec<Line> = (0..neighbours).map(line).filter(|line| line.count > 0).collect();
            let matrix = Matrix { columns, rows };
            let mut found = Vec::new();
            matrix.patches(&lines, |p| {
                for (i, k) in (0..p.rows).flat_map(|i| (0..p.columns).map(move |k| (i, k))) {
                    let place = [p.row + i * p.step, p.column + k];
                    assert!(place[1] < columns && place[0] / rows == p.row / rows);
                    found.push((p.first + i * p.strides[0] + k * p.strides[1], place));
                }
                Ok(())
            }).unwrap();
            let pairs = lines.iter().flat_map(|line| line.pairs());
            let mut wanted: Vec<_> = pairs.map(|(at, first)| (first as u64, matrix.place(at as u64))).collect();
            found.sort_unstable();
            wanted.sort_unstable();
            prop_assert_eq!(found, wanted);
        }
    }
}

//! Which elements of a checkpoint's tensors a parameter is: one declaration, for reading and for writing.
//!
//! A parameter is a strided part of a tensor, or of one tensor an expert. That covers experts in one tensor or apart,
//! projections that share a tensor (one behind the other, or row by row in turn) and matrices that lie transposed.

use super::parameter::Parameter;
use crate::base::Line;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// A strided part of a tensor: element `[i, j, …]` of the parameter (of an expert's part of it, where a checkpoint holds
/// a tensor for each) is element `offset + i * strides[0] + j * strides[1] + …` of the tensor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// Shape of the whole tensor.
    pub shape: Vec<u64>,
    pub offset: u64,
    pub strides: Vec<u64>,
}

/// How parameters that name the same tensor lie in it. Their shapes are `[out, in]`, or `[out]` for biases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Joint {
    /// The first dimension counts experts.
    pub experts: bool,
    /// The tensor's matrices are `[in, out]`.
    pub transposed: bool,
    /// Rows take turns instead of lying one parameter behind the other.
    pub interleaved: bool,
}

impl Slice {
    /// The part that each of `parameters` is of the tensor they share, in the order of its rows; `None` where that is all
    /// of it, in the parameter's own order.
    pub(super) fn joint(parameters: &[&Parameter], joint: Joint) -> Vec<Option<Slice>> {
        let stacked = joint.experts && parameters.iter().all(|p| p.per_expert().is_none());
        let axis = usize::from(stacked);
        let rows: u64 = parameters.iter().map(|p| p.part_shape()[axis]).sum();
        let step = if joint.interleaved { parameters.len() as u64 } else { 1 };
        let mut before = 0;
        let slices = parameters.iter().map(|p| {
            let dims = p.part_shape();
            let first = before;
            before += if joint.interleaved { 1 } else { dims[axis] };
            let (mut shape, mut strides, offset) = match dims.get(axis + 1) {
                Some(&columns) if joint.transposed => (vec![columns, rows], vec![step, rows], first),
                Some(&columns) => (vec![rows, columns], vec![step * columns, 1], first * columns),
                None => (vec![rows], vec![step], first),
            };
            if stacked {
                strides.insert(0, shape.iter().product());
                shape.insert(0, dims[0]);
            }
            let plain = parameters.len() == 1 && !(joint.transposed && dims.len() > axis + 1);
            (!plain).then_some(Slice { shape, offset, strides })
        });
        slices.collect()
    }

    /// Whether every element of a part of shape `dims` lies inside the tensor.
    pub fn fits(&self, dims: &[u64]) -> bool {
        let product = |sizes: &[u64]| sizes.iter().try_fold(1u64, |n, size| n.checked_mul(*size));
        let mut spans =
            self.strides.iter().zip(dims).map(|(stride, n)| stride.checked_mul(n.checked_sub(1)?));
        let last = spans.try_fold(self.offset, |sum, span| sum.checked_add(span?));
        self.strides.len() == dims.len()
            && last.zip(product(&self.shape)).is_some_and(|(last, all)| last < all)
    }
}

impl Parameter {
    /// How elements `range` of the flattened parameter lie in its tensors: the number of the tensor (the expert where each
    /// has its own, else 0) and elements that lie at equal distances in both. The lines cover every element once and are as
    /// long as the layout allows.
    pub fn lines(&self, range: Range<u64>) -> impl Iterator<Item = (u64, Line)> + '_ {
        let part: u64 = self.part_shape().iter().product();
        let grid = Grid::new(self);
        // Without elements there is nothing to divide.
        let each = part.max(1);
        let parts = range.start / each..range.end.div_ceil(each);
        parts.flat_map(move |tensor| {
            let first = tensor * part;
            let inside = range.start.saturating_sub(first)..(range.end - first).min(part);
            let shift = move |line: Line| (tensor, Line { first: line.first + first, ..line });
            grid.clone().lines(inside).map(shift)
        })
    }
}

/// A parameter's part in a tensor as matrices that lie apart, with as few dimensions as its strides allow.
#[derive(Clone)]
struct Grid {
    offset: u64,
    /// Size and stride of the dimensions in front of the matrix, together: at most the experts.
    outer: [u64; 2],
    rows: [u64; 2],
    columns: [u64; 2],
}

impl Grid {
    fn new(parameter: &Parameter) -> Grid {
        let dims = parameter.part_shape();
        let Some(slice) = &parameter.slice else {
            let all = dims.iter().product();
            return Grid { offset: 0, outer: [1, all], rows: [1, all], columns: [all, 1] };
        };
        // Dimensions that follow one another without a gap are one.
        let mut merged: Vec<[u64; 2]> = Vec::with_capacity(3);
        for (&n, &stride) in dims.iter().zip(&slice.strides) {
            match merged.last_mut() {
                Some([size, outer]) if *outer == n * stride => (*size, *outer) = (*size * n, stride),
                _ => merged.push([n, stride]),
            }
        }
        let mut next = || merged.pop().unwrap_or([1, 0]);
        let (columns, rows, outer) = (next(), next(), next());
        Grid { offset: slice.offset, outer, rows, columns }
    }

    /// The lines of elements `range` of the part.
    fn lines(self, range: Range<u64>) -> impl Iterator<Item = Line> {
        let Grid { offset, outer: [_, outer_stride], rows: [rows, row_stride], columns: [columns, step] } =
            self;
        let matrix = rows * columns;
        (range.start / matrix..range.end.div_ceil(matrix)).flat_map(move |block| {
            let (start, base) = (block * matrix, offset + block * outer_stride);
            let (from, to) = (range.start.saturating_sub(start), (range.end - start).min(matrix));
            // The tensor is walked along the shorter of its two distances.
            let by_row = row_stride >= step || rows == 1;
            let lines = if by_row { from / columns..to.div_ceil(columns) } else { 0..columns };
            lines.filter_map(move |line| {
                let (first, last, at, step, stride) = if by_row {
                    let inside = |x: u64| x.saturating_sub(line * columns).min(columns);
                    (inside(from), inside(to), line * row_stride, step, 1)
                } else {
                    let inside = |x: u64| x.saturating_sub(line).div_ceil(columns);
                    (inside(from), inside(to), line * step, row_stride, columns)
                };
                let own = if by_row { line * columns } else { line };
                (first < last).then(|| Line {
                    count: last - first,
                    at: base + at + first * step,
                    step,
                    first: start + own + first * stride,
                    stride,
                })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::DType;
    use crate::model::{Init, Part};
    use proptest::prelude::*;

    fn parameter(name: &str, shape: &[u64]) -> Parameter {
        Parameter {
            name: name.into(),
            shape: shape.to_vec(),
            dtype: DType::F32,
            part: Part::Experts,
            trainable: true,
            init: Init::Constant(0.0),
            slice: None,
        }
    }

    fn join(mut parameters: Vec<Parameter>, joint: Joint) -> Vec<Parameter> {
        let slices = Slice::joint(&parameters.iter().collect::<Vec<_>>(), joint);
        parameters.iter_mut().zip(slices).for_each(|(parameter, slice)| parameter.slice = slice);
        parameters
    }

    /// Where an element of a parameter lies, dimension by dimension.
    fn place(parameter: &Parameter, element: u64) -> (u64, u64) {
        let dims = parameter.part_shape();
        let part: u64 = dims.iter().product();
        let (tensor, mut left) = (element / part, element % part);
        let Some(slice) = &parameter.slice else { return (tensor, left) };
        let mut at = slice.offset;
        for (n, stride) in dims.iter().zip(&slice.strides).rev() {
            at += left % n * stride;
            left /= n;
        }
        (tensor, at)
    }

    #[test]
    fn rows_of_a_shared_tensor() {
        let of = |joint| {
            let joined = join(vec![parameter("a", &[2, 3]), parameter("a", &[2, 3])], joint);
            joined.iter().map(|p| (0..6).map(|i| place(p, i).1).collect::<Vec<_>>()).collect::<Vec<_>>()
        };
        let plain = Joint::default();
        assert_eq!(of(plain), [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]);
        assert_eq!(of(Joint { interleaved: true, ..plain }), [[0, 1, 2, 6, 7, 8], [3, 4, 5, 9, 10, 11]]);
        assert_eq!(of(Joint { transposed: true, ..plain }), [[0, 4, 8, 1, 5, 9], [2, 6, 10, 3, 7, 11]]);
        let both = Joint { transposed: true, interleaved: true, ..plain };
        assert_eq!(of(both), [[0, 4, 8, 2, 6, 10], [1, 5, 9, 3, 7, 11]]);
    }

    proptest! {
        #[test]
        fn lines_cover_a_range_once(
            dims in prop::array::uniform3(1u64..5),
            more in 1u64..4,
            (experts, transposed, interleaved, apart, vectors) in any::<(bool, bool, bool, bool, bool)>(),
            cut in prop::array::uniform2(0.0..1.0),
        ) {
            let shape = |rows| match (experts, vectors) {
                (true, false) => vec![dims[0], rows, dims[2]],
                (true, true) => vec![dims[0], rows],
                (false, false) => vec![rows, dims[2]],
                (false, true) => vec![rows],
            };
            let name = if experts && apart { "x.{e}" } else { "x" };
            let other = if interleaved { dims[1] } else { more };
            let pair = vec![parameter(name, &shape(dims[1])), parameter(name, &shape(other))];
            let pair = join(pair, Joint { experts, transposed, interleaved });
            let mut covered = Vec::new();
            for p in &pair {
                let slice = p.slice.as_ref().unwrap();
                prop_assert!(slice.fits(p.part_shape()));
                let all = p.elements();
                let [a, b] = cut.map(|share| (all as f64 * share) as u64);
                let (from, to) = (a.min(b), a.max(b));
                for range in [0..from, from..to, to..all] {
                    let mut seen: Vec<_> = p.lines(range.clone()).flat_map(|(tensor, line)| {
                        line.pairs().map(move |(at, first)| (first as u64, (tensor, at as u64)))
                    }).collect();
                    seen.sort_unstable();
                    let wanted: Vec<_> = range.map(|i| (i, place(p, i))).collect();
                    prop_assert_eq!(&seen, &wanted);
                    covered.extend(seen.into_iter().map(|(_, place)| place));
                }
            }
            // Both together are the whole of their tensors.
            covered.sort_unstable();
            let tensors = pair[0].per_expert().unwrap_or(1);
            let each: u64 = pair[0].slice.as_ref().unwrap().shape.iter().product();
            prop_assert!(covered.into_iter().eq((0..tensors).flat_map(|t| (0..each).map(move |at| (t, at)))));
        }
    }
}

//! Products of groups of rows with a matrix each, and what brings rows into groups.

use super::Kernel;
use super::matmul::multiply;
use crate::descriptor::{FLOAT, INT32, INT64, Tensor};
use crate::executor::{Arguments, Refusal, Run};
use crate::memory::Memory;
use crate::stream::Fault;
use std::ops::Range;

pub const KERNELS: &[(&str, Kernel)] = &[
    ("aclnnGroupedMatmulV4", grouped),
    ("aclnnGroupedMatmulAdd", grouped_add),
    ("aclnnMoeTokenPermute", permute),
    ("aclnnMoeTokenUnpermute", unpermute),
];

/// Row ranges of the groups: a list of ends, or of counts.
fn ranges(list: &Tensor, counts: bool, rows: usize, memory: &Memory) -> Result<Vec<Range<usize>>, Fault> {
    let mut start = 0;
    let mut ranges = Vec::new();
    for number in list.load_integers(memory)? {
        let end = if counts { start + number as usize } else { number as usize };
        if end < start || end > rows {
            return Err(Fault::new(format!("a group from row {start} to {end} of {rows}")));
        }
        ranges.push(start..end);
        start = end;
    }
    Ok(ranges)
}

const UNUSED: [&str; 12] = [
    "biasOptional",
    "scaleOptional",
    "offsetOptional",
    "antiquantScaleOptional",
    "antiquantOffsetOptional",
    "perTokenScaleOptional",
    "activationInputOptional",
    "activationQuantScaleOptional",
    "activationQuantOffsetOptional",
    "activationFeatureOutOptional",
    "dynQuantScaleOutOptional",
    "groupListOptional",
];

fn grouped(a: &Arguments) -> Result<Run, Refusal> {
    a.must_be_null(&UNUSED[..11])?;
    let (x, weight, out) = (a.single("x")?, a.single("weight")?, a.single("out")?);
    let list = a.tensor("groupListOptional")?;
    let (split, group, counts) =
        (a.integer("splitItem")?, a.integer("groupType")?, a.integer("groupListType")? == 1);
    if !matches!(split, 2 | 3) || a.integer("actType")? != 0 || list.of != INT64 {
        return Err(Refusal::wrong("one result, no activation, a list of groups of type int64"));
    }
    if x.of != weight.of || x.of != out.of || !x.is_float() {
        return Err(Refusal::wrong(format!("types {}, {} and {} are not one", x.of, weight.of, out.of)));
    }
    let shapes = format!("x {:?}, weight {:?}, out {:?}, {group} groups", x.shape, weight.shape, out.shape);
    match (group, &x.shape[..], &weight.shape[..], &out.shape[..]) {
        (0, &[m, k], &[e, k2, n], &[m2, n2])
            if k == k2 && m == m2 && n == n2 && list.elements() as i64 == e =>
        {
            let (m, k, n) = (m as usize, k as usize, n as usize);
            Ok(Box::new(move |memory| {
                let (rows, weights) = (x.load(memory)?, weight.load(memory)?);
                // Rows behind the last group stay as they are.
                let mut result = out.load(memory)?;
                for (expert, range) in ranges(&list, counts, m, memory)?.into_iter().enumerate() {
                    let product = multiply(
                        &rows[range.start * k..range.end * k],
                        &weights[expert * k * n..][..k * n],
                        range.len(),
                        k,
                        n,
                    );
                    result[range.start * n..range.end * n].copy_from_slice(&product);
                }
                out.store(memory, &result)
            }))
        }
        (2, &[k, m], &[m2, n], &[e, k2, n2])
            if m == m2 && k == k2 && n == n2 && list.elements() as i64 == e =>
        {
            if x.strides[0] != 1 {
                return Err(Refusal::wrong("x is to be the transposed view of its rows"));
            }
            Ok(Box::new(move |memory| {
                let result = weight_gradients(&x, &weight, &list, counts, memory)?;
                out.store(memory, &result)
            }))
        }
        _ => Err(Refusal::wrong(shapes)),
    }
}

/// `x_eᵀ · y_e` for each group of rows; `x` is `[k, m]`.
fn weight_gradients(
    x: &Tensor,
    y: &Tensor,
    list: &Tensor,
    counts: bool,
    memory: &Memory,
) -> Result<Vec<f32>, Fault> {
    let (k, m, n) = (x.shape[0] as usize, x.shape[1] as usize, y.columns());
    let (columns, rows) = (x.load(memory)?, y.load(memory)?);
    let mut result = Vec::new();
    for range in ranges(list, counts, m, memory)? {
        let own: Vec<f32> = columns.chunks(m).flat_map(|row| &row[range.clone()]).copied().collect();
        result.extend(multiply(&own, &rows[range.start * n..range.end * n], k, range.len(), n));
    }
    Ok(result)
}

/// Adds the gradients of the groups' matrices to sums of 32 bits.
fn grouped_add(a: &Arguments) -> Result<Run, Refusal> {
    let [x, y, list, sum] = ["x", "weight", "groupList", "yRef"].map(|name| a.tensor(name));
    let (x, y, list, sum) = (x?, y?, list?, sum?);
    let [transpose_x, transpose_y, group] =
        ["transposeX", "transposeWeight", "groupType"].map(|name| a.integer(name));
    if (transpose_x?, transpose_y?, group?) != (1, 0, 2)
        || sum.of != FLOAT
        || list.of != INT64
        || x.of != y.of
    {
        return Err(Refusal::wrong("only with x transposed, groups of rows and a sum of 32 bits"));
    }
    let (&[m, k], &[m2, n]) = (&x.shape[..], &y.shape[..]) else {
        return Err(Refusal::wrong(format!("shapes {:?} and {:?} are no matrices", x.shape, y.shape)));
    };
    if m != m2 || sum.shape != [list.elements() as i64 * k, n] {
        return Err(Refusal::wrong(format!("x {:?}, weight {:?}, yRef {:?}", x.shape, y.shape, sum.shape)));
    }
    let transposed = Tensor { shape: vec![k, m], strides: vec![x.strides[1], x.strides[0]], ..x };
    Ok(Box::new(move |memory| {
        let more = weight_gradients(&transposed, &y, &list, false, memory)?;
        let old = sum.load(memory)?;
        sum.store(memory, &old.iter().zip(&more).map(|(old, more)| old + more).collect::<Vec<_>>())
    }))
}

/// Rows sorted by expert; `sortedIndices` of each pair is the row that it becomes.
fn permute(a: &Arguments) -> Result<Run, Refusal> {
    let (tokens, indices) = (a.tensor("tokens")?, a.tensor("indices")?);
    let (rows, sorted) = (a.tensor("permuteTokensOut")?, a.tensor("sortedIndicesOut")?);
    let right =
        rows.elements() == indices.elements() * tokens.columns() && sorted.elements() == indices.elements();
    if !right || sorted.of != INT32 || a.integer("numOutTokens")? != 0 || a.integer("paddedMode")? != 0 {
        let shapes = (&tokens.shape, &indices.shape, &rows.shape, &sorted.shape);
        return Err(Refusal::wrong(format!(
            "shapes {shapes:?}; all tokens, no padding, positions of 32 bits"
        )));
    }
    Ok(Box::new(move |memory| {
        let (input, experts) = (tokens.load(memory)?, indices.load_integers(memory)?);
        let (columns, top_k) = (tokens.columns(), indices.columns());
        let mut order: Vec<usize> = (0..experts.len()).collect();
        order.sort_by_key(|pair| experts[*pair]);
        let mut positions = vec![0.0; order.len()];
        order.iter().enumerate().for_each(|(row, pair)| positions[*pair] = row as f32);
        let permuted: Vec<f32> =
            order.iter().flat_map(|pair| &input[pair / top_k * columns..][..columns]).copied().collect();
        rows.store(memory, &permuted)?;
        sorted.store(memory, &positions)
    }))
}

/// The sum of a token's rows, each times its probability.
fn unpermute(a: &Arguments) -> Result<Run, Refusal> {
    let (rows, sorted, probs) =
        (a.tensor("permutedTokens")?, a.tensor("sortedIndices")?, a.optional("probsOptional")?);
    let out = a.tensor("out")?;
    let tokens = out.shape.first().copied().unwrap_or(0) as usize;
    let top_k = sorted.elements().checked_div(tokens).unwrap_or(1);
    if sorted.of != INT32 || rows.columns() != out.columns() || (probs.is_none() && top_k != 1) {
        let shapes = (&rows.shape, &sorted.shape, &out.shape);
        return Err(Refusal::wrong(format!(
            "shapes {shapes:?}; without probabilities each token has one row"
        )));
    }
    Ok(Box::new(move |memory| {
        let (input, positions) = (rows.load(memory)?, sorted.load_integers(memory)?);
        let weights = probs.map_or(Ok(vec![1.0; positions.len()]), |probs| probs.load(memory))?;
        let columns = rows.columns();
        let mut sum = vec![0.0f32; out.elements()];
        for (pair, (position, weight)) in positions.iter().zip(&weights).enumerate() {
            let row = &input[*position as usize * columns..][..columns];
            let token = &mut sum[pair / top_k * columns..][..columns];
            token.iter_mut().zip(row).for_each(|(sum, value)| *sum += weight * value);
        }
        out.store(memory, &sum)
    }))
}

//! Softmax over the last dimension, the loss that goes with it, and sums.

use super::Kernel;
use crate::descriptor::{INT64, Tensor};
use crate::executor::{Arguments, Refusal, Run};
use crate::stream::Fault;

pub const KERNELS: &[(&str, Kernel)] = &[
    ("aclnnSoftmax", |a| {
        by_row(a, "self", |row| {
            let logs = log_softmax(row);
            logs.into_iter().map(f32::exp).collect()
        })
    }),
    ("aclnnLogSoftmax", |a| by_row(a, "self", log_softmax)),
    ("aclnnSoftmaxBackward", |a| {
        backward(a, |dy, y| {
            let dot: f32 = dy.iter().zip(y).map(|(dy, y)| dy * y).sum();
            dy.iter().zip(y).map(|(dy, y)| y * (dy - dot)).collect()
        })
    }),
    ("aclnnLogSoftmaxBackward", |a| {
        backward(a, |dy, y| {
            let sum: f32 = dy.iter().sum();
            dy.iter().zip(y).map(|(dy, y)| dy - y.exp() * sum).collect()
        })
    }),
    ("aclnnNLLLoss", loss),
    ("aclnnNLLLossBackward", loss_backward),
    ("aclnnReduceSum", reduce_sum),
];

fn log_softmax(row: &[f32]) -> Vec<f32> {
    let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f32 = row.iter().map(|x| (x - most).exp()).sum();
    row.iter().map(|x| x - most - sum.ln()).collect()
}

fn last_dimension(a: &Arguments, tensor: &Tensor) -> Result<(), Refusal> {
    let dim = a.integer("dim")?;
    match dim == -1 || dim == tensor.shape.len() as i64 - 1 {
        true => Ok(()),
        false => Err(Refusal::wrong(format!("dimension {dim} is not the last one, others are not emulated"))),
    }
}

fn by_row(a: &Arguments, from: &str, f: fn(&[f32]) -> Vec<f32>) -> Result<Run, Refusal> {
    let (from, to) = (a.tensor(from)?, a.tensor("out")?);
    last_dimension(a, &from)?;
    if from.shape != to.shape {
        return Err(Refusal::wrong(format!("shape {:?} into {:?}", from.shape, to.shape)));
    }
    Ok(Box::new(move |memory| {
        let values = from.load(memory)?;
        to.store(memory, &values.chunks(from.columns()).flat_map(f).collect::<Vec<_>>())
    }))
}

fn backward(a: &Arguments, f: fn(&[f32], &[f32]) -> Vec<f32>) -> Result<Run, Refusal> {
    let (dy, y, to) = (a.tensor("gradOutput")?, a.tensor("output")?, a.tensor("out")?);
    last_dimension(a, &y)?;
    if dy.shape != y.shape || y.shape != to.shape {
        return Err(Refusal::wrong(format!("shapes {:?}, {:?}, {:?}", dy.shape, y.shape, to.shape)));
    }
    Ok(Box::new(move |memory| {
        let (d_output, output) = (dy.load(memory)?, y.load(memory)?);
        let rows = d_output.chunks(y.columns()).zip(output.chunks(y.columns()));
        to.store(memory, &rows.flat_map(|(dy, y)| f(dy, y)).collect::<Vec<_>>())
    }))
}

const MEAN: i64 = 1;
const SUM: i64 = 2;

/// Log-probabilities, targets and weights of a loss, of one shape.
fn classes(a: &Arguments) -> Result<(Tensor, Tensor, Tensor), Refusal> {
    let (logs, target, weight) = (a.tensor("self")?, a.tensor("target")?, a.tensor("weight")?);
    let right = logs.shape.len() == 2 && target.shape == logs.shape[..1] && weight.shape == logs.shape[1..];
    match right && matches!(a.integer("reduction")?, MEAN | SUM) {
        true => Ok((logs, target, weight)),
        false => {
            let shapes = (&logs.shape, &target.shape, &weight.shape);
            Err(Refusal::wrong(format!("shapes of self, target, weight: {shapes:?}; reduction is 1 or 2")))
        }
    }
}

/// Row, class and weight of the targets that count.
fn counted(targets: &[i64], weights: &[f32], ignored: i64) -> Result<Vec<(usize, usize, f32)>, Fault> {
    let mut counted = Vec::new();
    for (row, target) in targets.iter().enumerate().filter(|(_, target)| **target != ignored) {
        let class = usize::try_from(*target).ok().filter(|class| *class < weights.len());
        let class =
            class.ok_or_else(|| Fault::new(format!("target {target} of {} classes", weights.len())))?;
        counted.push((row, class, weights[class]));
    }
    Ok(counted)
}

fn loss(a: &Arguments) -> Result<Run, Refusal> {
    let (logs, target, weight) = classes(a)?;
    let (out, total, ignored) = (a.tensor("out")?, a.tensor("totalWeightOut")?, a.integer("ignoreIndex")?);
    let mean = a.integer("reduction")? == MEAN;
    Ok(Box::new(move |memory| {
        let (values, targets, weights) =
            (logs.load(memory)?, target.load_integers(memory)?, weight.load(memory)?);
        let counted = counted(&targets, &weights, ignored)?;
        let columns = logs.columns();
        let sum: f64 =
            counted.iter().map(|(row, class, w)| -f64::from(values[row * columns + class] * w)).sum();
        let all: f64 = counted.iter().map(|(_, _, w)| f64::from(*w)).sum();
        total.store(memory, &[all as f32])?;
        out.store(memory, &[(if mean { sum / all } else { sum }) as f32])
    }))
}

fn loss_backward(a: &Arguments) -> Result<Run, Refusal> {
    let (logs, target, weight) = classes(a)?;
    let (dy, total, out) = (a.tensor("gradOutput")?, a.tensor("totalWeight")?, a.tensor("out")?);
    let (ignored, mean) = (a.integer("ignoreIndex")?, a.integer("reduction")? == MEAN);
    if out.shape != logs.shape {
        return Err(Refusal::wrong(format!("shape {:?} is not {:?}", out.shape, logs.shape)));
    }
    Ok(Box::new(move |memory| {
        let (targets, weights) = (target.load_integers(memory)?, weight.load(memory)?);
        let all = total.load(memory)?[0];
        let scale = dy.load(memory)?[0] / if mean { all } else { 1.0 };
        let mut gradient = vec![0.0; logs.elements()];
        for (row, class, weight) in counted(&targets, &weights, ignored)? {
            gradient[row * logs.columns() + class] = -scale * weight;
        }
        out.store(memory, &gradient)
    }))
}

/// Adds up in 64 bits over the dimensions given, or all.
fn reduce_sum(a: &Arguments) -> Result<Run, Refusal> {
    let (from, to) = (a.tensor("self")?, a.tensor("out")?);
    let rank = from.shape.len() as i64;
    let dims = a.integers("dims")?.unwrap_or_default();
    let dims: Vec<i64> = if dims.is_empty() { (0..rank).collect() } else { dims };
    let summed = |dim: i64| dims.iter().any(|d| d.rem_euclid(rank.max(1)) == dim);
    let kept: Vec<i64> = (0..rank).filter(|dim| !summed(*dim)).collect();
    let expected: i64 = kept.iter().map(|dim| from.shape[*dim as usize]).product();
    if to.elements() as i64 != expected || a.integer("dtype")? != i64::from(to.of) {
        return Err(Refusal::wrong(format!(
            "the sum of {:?} over {dims:?} is not {:?}",
            from.shape, to.shape
        )));
    }
    // The dimensions that stay first, then those that are added up.
    let order: Vec<usize> =
        kept.iter().copied().chain((0..rank).filter(|dim| summed(*dim))).map(|d| d as usize).collect();
    let ordered = Tensor {
        shape: order.iter().map(|dim| from.shape[*dim]).collect(),
        strides: order.iter().map(|dim| from.strides[*dim]).collect(),
        ..from
    };
    Ok(Box::new(move |memory| {
        let values = ordered.load(memory)?;
        let each = values.len().checked_div(to.elements()).unwrap_or(0).max(1);
        let sums: Vec<f32> = match values.is_empty() {
            true => vec![0.0; to.elements()],
            false => values
                .chunks(each)
                .map(|part| part.iter().map(|x| f64::from(*x)).sum::<f64>() as f32)
                .collect(),
        };
        to.store(memory, &sums)
    }))
}

/// Whether indices have a type that operators take.
pub fn is_index(tensor: &Tensor) -> bool {
    matches!(tensor.of, INT64 | crate::descriptor::INT32)
}

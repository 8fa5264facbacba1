//! Operators that look at one element at a time.

use super::Kernel;
use crate::descriptor::Tensor;
use crate::executor::{Arguments, Refusal, Run};

pub const KERNELS: &[(&str, Kernel)] = &[
    ("aclnnAdd", |a| binary(a, "self", "other", "out", a.number("alpha")?, |x, y, alpha| x + alpha * y)),
    ("aclnnInplaceAdd", |a| {
        binary(a, "selfRef", "other", "selfRef", a.number("alpha")?, |x, y, alpha| x + alpha * y)
    }),
    ("aclnnMul", |a| binary(a, "self", "other", "out", 0.0, |x, y, _| x * y)),
    ("aclnnInplaceMul", |a| binary(a, "selfRef", "other", "selfRef", 0.0, |x, y, _| x * y)),
    ("aclnnDiv", |a| binary(a, "self", "other", "out", 0.0, |x, y, _| x / y)),
    ("aclnnMuls", |a| unary(a, "self", "out", a.number("other")?, |x, scale| x * scale)),
    ("aclnnInplaceMuls", |a| unary(a, "selfRef", "selfRef", a.number("other")?, |x, scale| x * scale)),
    ("aclnnSigmoid", |a| unary(a, "self", "out", 0.0, |x, _| 1.0 / (1.0 + (-x).exp()))),
    ("aclnnSilu", |a| unary(a, "self", "out", 0.0, |x, _| x / (1.0 + (-x).exp()))),
    ("aclnnExp", |a| unary(a, "self", "out", 0.0, |x, _| x.exp())),
    ("aclnnCast", |a| unary(a, "self", "out", 0.0, |x, _| x)),
    ("aclnnInplaceCopy", |a| unary(a, "src", "selfRef", 0.0, |x, _| x)),
    ("aclnnInplaceZero", |a| fill(a, 0.0)),
    ("aclnnInplaceFillScalar", |a| fill(a, a.number("value")? as f32)),
];

fn unary(a: &Arguments, from: &str, to: &str, by: f64, f: fn(f32, f32) -> f32) -> Result<Run, Refusal> {
    let (from, to) = (a.tensor(from)?, a.tensor(to)?);
    if from.shape != to.shape {
        return Err(Refusal::wrong(format!("shape {:?} into {:?}", from.shape, to.shape)));
    }
    Ok(Box::new(move |memory| {
        let values: Vec<f32> = from.load(memory)?.into_iter().map(|x| f(x, by as f32)).collect();
        to.store(memory, &values)
    }))
}

fn fill(a: &Arguments, value: f32) -> Result<Run, Refusal> {
    let to = a.tensor("selfRef")?;
    Ok(Box::new(move |memory| to.store(memory, &vec![value; to.elements()])))
}

fn binary(
    a: &Arguments,
    left: &str,
    right: &str,
    to: &str,
    by: f64,
    f: fn(f32, f32, f32) -> f32,
) -> Result<Run, Refusal> {
    let (left, right, to) = (a.tensor(left)?, a.tensor(right)?, a.tensor(to)?);
    let (left, right) = (broadcast(&left, &to.shape)?, broadcast(&right, &to.shape)?);
    Ok(Box::new(move |memory| {
        let (x, y) = (left.load(memory)?, right.load(memory)?);
        let values: Vec<f32> = x.iter().zip(&y).map(|(x, y)| f(*x, *y, by as f32)).collect();
        to.store(memory, &values)
    }))
}

/// The tensor as one of `shape`: dimensions of 1, and those it lacks in front, are repeated.
pub fn broadcast(tensor: &Tensor, shape: &[i64]) -> Result<Tensor, Refusal> {
    let refused = || Refusal::wrong(format!("shape {:?} is not repeated to {shape:?}", tensor.shape));
    let lacking = shape.len().checked_sub(tensor.shape.len()).ok_or_else(refused)?;
    let mut strides = vec![0; lacking];
    for ((own, stride), wanted) in tensor.shape.iter().zip(&tensor.strides).zip(&shape[lacking..]) {
        strides.push(match own {
            own if own == wanted => *stride,
            1 => 0,
            _ => return Err(refused()),
        });
    }
    Ok(Tensor { shape: shape.to_vec(), strides, ..tensor.clone() })
}

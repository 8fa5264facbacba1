//! Operators that look at one element at a time.

use super::Kernel;
use crate::descriptor::Tensor;
use crate::executor::{Arguments, Refusal, Run};

pub const KERNELS: &[(&str, Kernel)] = &[
    ("aclnnAdd", |a| binary(a, "self", "other", "out", a.number("alpha")?, |x, y, alpha| x + alpha * y)),
    ("aclnnInplaceAdd", |a| {
        binary(a, "selfRef", "other", "selfRef", a.number("alpha")?, |x, y, alpha| x + alpha * y)
    }),
    ("aclnnSub", |a| binary(a, "self", "other", "out", a.number("alpha")?, |x, y, alpha| x - alpha * y)),
    ("aclnnMaximum", |a| binary(a, "self", "other", "out", 0.0, |x, y, _| x.max(y))),
    ("aclnnMinimum", |a| binary(a, "self", "other", "out", 0.0, |x, y, _| x.min(y))),
    ("aclnnSigmoidBackward", |a| {
        binary(a, "gradOutput", "output", "gradInput", 0.0, |dy, y, _| dy * y * (1.0 - y))
    }),
    ("aclnnSiluBackward", |a| {
        binary(a, "gradOutput", "self", "gradInput", 0.0, |dy, x, _| {
            let y = 1.0 / (1.0 + (-x).exp());
            dy * y * (1.0 + x * (1.0 - y))
        })
    }),
    ("aclnnMul", |a| binary(a, "self", "other", "out", 0.0, |x, y, _| x * y)),
    ("aclnnInplaceMul", |a| binary(a, "selfRef", "other", "selfRef", 0.0, |x, y, _| x * y)),
    ("aclnnDiv", |a| binary(a, "self", "other", "out", 0.0, |x, y, _| x / y)),
    ("aclnnMuls", |a| unary(a, "self", "out", a.number("other")?, |x, scale| x * scale)),
    ("aclnnInplaceMuls", |a| unary(a, "selfRef", "selfRef", a.number("other")?, |x, scale| x * scale)),
    ("aclnnDivs", |a| unary(a, "self", "out", a.number("other")?, |x, by| x / by)),
    ("aclnnInplaceDivs", |a| unary(a, "selfRef", "selfRef", a.number("other")?, |x, by| x / by)),
    ("aclnnAdds", |a| unary(a, "self", "out", a.number("other")? * a.number("alpha")?, |x, more| x + more)),
    ("aclnnInplaceAdds", |a| {
        unary(a, "selfRef", "selfRef", a.number("other")? * a.number("alpha")?, |x, more| x + more)
    }),
    ("aclnnLog", |a| unary(a, "self", "out", 0.0, |x, _| x.ln())),
    ("aclnnSign", |a| unary(a, "self", "result", 0.0, |x, _| if x == 0.0 { 0.0 } else { x.signum() })),
    ("aclnnNeg", |a| unary(a, "self", "out", 0.0, |x, _| -x)),
    ("aclnnAbs", |a| unary(a, "self", "out", 0.0, |x, _| x.abs())),
    ("aclnnSqrt", |a| unary(a, "self", "out", 0.0, |x, _| x.sqrt())),
    ("aclnnReciprocal", |a| unary(a, "self", "out", 0.0, |x, _| 1.0 / x)),
    ("aclnnLeScalar", |a| unary(a, "self", "out", a.number("other")?, |x, y| f32::from(u8::from(x <= y)))),
    ("aclnnLtScalar", |a| unary(a, "self", "out", a.number("other")?, |x, y| f32::from(u8::from(x < y)))),
    ("aclnnGeScalar", |a| unary(a, "self", "out", a.number("other")?, |x, y| f32::from(u8::from(x >= y)))),
    ("aclnnGtScalar", |a| unary(a, "self", "out", a.number("other")?, |x, y| f32::from(u8::from(x > y)))),
    ("aclnnClamp", clamp),
    ("aclnnSWhere", choose),
    ("aclnnSigmoid", |a| unary(a, "self", "out", 0.0, |x, _| 1.0 / (1.0 + (-x).exp()))),
    ("aclnnSilu", |a| unary(a, "self", "out", 0.0, |x, _| x / (1.0 + (-x).exp()))),
    ("aclnnExp", |a| unary(a, "self", "out", 0.0, |x, _| x.exp())),
    ("aclnnCast", |a| unary(a, "self", "out", 0.0, |x, _| x)),
    ("aclnnInplaceCopy", copy),
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

fn clamp(a: &Arguments) -> Result<Run, Refusal> {
    let (from, to) = (a.tensor("self")?, a.tensor("out")?);
    let (least, most) = (a.optional_number("clipValueMin")?, a.optional_number("clipValueMax")?);
    if least.is_none() && most.is_none() {
        return Err(Refusal::wrong("neither a least nor a largest value"));
    }
    let (least, most) =
        (least.map_or(f32::NEG_INFINITY, |v| v as f32), most.map_or(f32::INFINITY, |v| v as f32));
    Ok(Box::new(move |memory| {
        let values: Vec<f32> = from.load(memory)?.into_iter().map(|x| x.max(least).min(most)).collect();
        to.store(memory, &values)
    }))
}

fn choose(a: &Arguments) -> Result<Run, Refusal> {
    let to = a.tensor("out")?;
    let [condition, left, right] =
        ["condition", "self", "other"].map(|name| broadcast(&a.tensor(name)?, &to.shape));
    let (condition, left, right) = (condition?, left?, right?);
    Ok(Box::new(move |memory| {
        let (condition, left, right) = (condition.load(memory)?, left.load(memory)?, right.load(memory)?);
        let chosen = |at: usize| if condition[at] != 0.0 { left[at] } else { right[at] };
        to.store(memory, &(0..left.len()).map(chosen).collect::<Vec<_>>())
    }))
}

/// The source is repeated to the shape that it is copied to.
fn copy(a: &Arguments) -> Result<Run, Refusal> {
    let to = a.tensor("selfRef")?;
    let from = broadcast(&a.tensor("src")?, &to.shape)?;
    Ok(Box::new(move |memory| to.store(memory, &from.load(memory)?)))
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

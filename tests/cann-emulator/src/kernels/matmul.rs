//! Products of matrices.

use super::Kernel;
use crate::descriptor::Tensor;
use crate::executor::{Arguments, Refusal, Run};

pub const KERNELS: &[(&str, Kernel)] = &[("aclnnMatmul", product), ("aclnnMm", product), ("aclnnAddmm", sum)];

fn product(a: &Arguments) -> Result<Run, Refusal> {
    let (x, y, out) = (a.tensor("self")?, a.tensor("mat2")?, a.tensor("out")?);
    let ([m, k], [k2, n], [m2, n2]) = (matrix(&x)?, matrix(&y)?, matrix(&out)?);
    if k != k2 || m != m2 || n != n2 {
        return Err(Refusal::wrong(format!("{:?} × {:?} is not {:?}", x.shape, y.shape, out.shape)));
    }
    if x.of != y.of || x.of != out.of || !x.is_float() {
        return Err(Refusal::wrong(format!("types {}, {} and {} are not one", x.of, y.of, out.of)));
    }
    Ok(Box::new(move |memory| {
        let (x, y) = (x.load(memory)?, y.load(memory)?);
        out.store(memory, &multiply(&x, &y, m, k, n))
    }))
}

/// `beta · self + alpha · mat1 × mat2`
fn sum(a: &Arguments) -> Result<Run, Refusal> {
    let [old, x, y, out] = ["self", "mat1", "mat2", "out"].map(|name| a.tensor(name));
    let (old, x, y, out) = (old?, x?, y?, out?);
    let (alpha, beta) = (a.number("alpha")? as f32, a.number("beta")? as f32);
    let ([m, k], [k2, n]) = (matrix(&x)?, matrix(&y)?);
    if k != k2 || matrix(&out)? != [m, n] || old.shape != out.shape {
        return Err(Refusal::wrong(format!(
            "{:?} + {:?} × {:?} is not {:?}",
            old.shape, x.shape, y.shape, out.shape
        )));
    }
    if x.of != y.of || x.of != out.of || x.of != old.of || !x.is_float() {
        return Err(Refusal::wrong(format!(
            "types {}, {}, {} and {} are not one",
            old.of, x.of, y.of, out.of
        )));
    }
    Ok(Box::new(move |memory| {
        let (old, x, y) = (old.load(memory)?, x.load(memory)?, y.load(memory)?);
        let product = multiply(&x, &y, m, k, n);
        out.store(
            memory,
            &old.iter().zip(&product).map(|(old, new)| beta * old + alpha * new).collect::<Vec<_>>(),
        )
    }))
}

fn matrix(tensor: &Tensor) -> Result<[usize; 2], Refusal> {
    match tensor.shape[..] {
        [rows, columns] => Ok([rows as usize, columns as usize]),
        _ => Err(Refusal::wrong(format!("shape {:?} is no matrix", tensor.shape))),
    }
}

/// `[m, k] × [k, n]`
pub fn multiply(x: &[f32], y: &[f32], m: usize, k: usize, n: usize) -> Vec<f32> {
    let mut out = vec![0.0; m * n];
    for row in 0..m {
        for inner in 0..k {
            let factor = x[row * k + inner];
            for (sum, value) in out[row * n..][..n].iter_mut().zip(&y[inner * n..][..n]) {
                *sum += factor * value;
            }
        }
    }
    out
}

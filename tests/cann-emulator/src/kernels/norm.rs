//! Norms.

use super::Kernel;
use crate::descriptor::FLOAT;
use crate::executor::{Arguments, Refusal, Run};

pub const KERNELS: &[(&str, Kernel)] = &[("aclnnRmsNorm", rms_norm), ("aclnnRmsNormGrad", rms_norm_grad)];

fn rms_norm(a: &Arguments) -> Result<Run, Refusal> {
    let (x, gamma, y, rstd) = (a.tensor("x")?, a.tensor("gamma")?, a.tensor("yOut")?, a.tensor("rstdOut")?);
    let (columns, eps) = (gamma.elements(), a.number("epsilon")? as f32);
    if x.shape != y.shape
        || x.columns() != columns
        || rstd.of != FLOAT
        || rstd.elements() * columns != x.elements()
    {
        let shapes = (&x.shape, &gamma.shape, &y.shape, &rstd.shape);
        return Err(Refusal::wrong(format!("shapes of x, gamma, y, rstd: {shapes:?}; rstd has 32 bits")));
    }
    Ok(Box::new(move |memory| {
        let (input, weight) = (x.load(memory)?, gamma.load(memory)?);
        let mut scales = Vec::new();
        let mut output = Vec::new();
        for row in input.chunks(columns) {
            let mean = row.iter().map(|x| x * x).sum::<f32>() / columns as f32;
            let scale = 1.0 / (mean + eps).sqrt();
            scales.push(scale);
            output.extend(row.iter().zip(&weight).map(|(x, gamma)| x * scale * gamma));
        }
        rstd.store(memory, &scales)?;
        y.store(memory, &output)
    }))
}

fn rms_norm_grad(a: &Arguments) -> Result<Run, Refusal> {
    let [dy, x, rstd, gamma] = ["dy", "x", "rstd", "gamma"].map(|name| a.tensor(name));
    let (dy, x, rstd, gamma) = (dy?, x?, rstd?, gamma?);
    let (dx, d_gamma) = (a.tensor("dxOut")?, a.tensor("dgammaOut")?);
    let columns = gamma.elements();
    if dy.shape != x.shape || dx.shape != x.shape || x.columns() != columns || d_gamma.elements() != columns {
        let shapes = (&dy.shape, &x.shape, &gamma.shape, &dx.shape, &d_gamma.shape);
        return Err(Refusal::wrong(format!("shapes of dy, x, gamma, dx, dgamma: {shapes:?}")));
    }
    if d_gamma.of != FLOAT || rstd.of != FLOAT {
        return Err(Refusal::wrong("rstd and dgamma have 32 bits"));
    }
    Ok(Box::new(move |memory| {
        let (d_output, input) = (dy.load(memory)?, x.load(memory)?);
        let (scales, weight) = (rstd.load(memory)?, gamma.load(memory)?);
        let (mut d_input, mut d_weight) = (Vec::new(), vec![0.0f32; columns]);
        for ((d_row, row), scale) in d_output.chunks(columns).zip(input.chunks(columns)).zip(&scales) {
            let dot: f32 = d_row.iter().zip(row).zip(&weight).map(|((dy, x), gamma)| dy * x * gamma).sum();
            let mean = dot * scale * scale / columns as f32;
            for (at, (dy, x)) in d_row.iter().zip(row).enumerate() {
                d_weight[at] += dy * x * scale;
                d_input.push(scale * (dy * weight[at] - x * mean));
            }
        }
        dx.store(memory, &d_input)?;
        d_gamma.store(memory, &d_weight)
    }))
}

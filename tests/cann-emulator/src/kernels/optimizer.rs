//! AdamW.

use super::Kernel;
use crate::descriptor::FLOAT;
use crate::executor::{Arguments, Refusal, Run};

pub const KERNELS: &[(&str, Kernel)] = &[("aclnnApplyAdamWV2", adamw)];

/// Decay apart from the gradient, bias corrections from the step that `step` holds.
fn adamw(a: &Arguments) -> Result<Run, Refusal> {
    a.must_be_null(&["maxGradNormOptionalRef"])?;
    let [var, m, v, grad, step] = ["varRef", "mRef", "vRef", "grad", "step"].map(|name| a.tensor(name));
    let (var, m, v, grad, step) = (var?, m?, v?, grad?, step?);
    let number = |name: &str| a.number(name).map(|value| value as f32);
    let (lr, beta1, beta2) = (number("lr")?, number("beta1")?, number("beta2")?);
    let (decay, eps) = (number("weightDecay")?, number("eps")?);
    if [&m, &v, &grad].iter().any(|other| other.shape != var.shape) || step.elements() != 1 {
        return Err(Refusal::wrong(format!(
            "shapes of var, m, v, grad, step: {:?}, …, {:?}",
            var.shape, step.shape
        )));
    }
    if var.of != m.of || var.of != v.of || (var.of != grad.of && var.of != FLOAT) || step.of != FLOAT {
        return Err(Refusal::wrong("var, m and v are of one type, the step of 32 bits"));
    }
    if a.integer("amsgrad")? != 0 || a.integer("maximize")? != 0 {
        return Err(Refusal::wrong("amsgrad and maximize are not emulated"));
    }
    Ok(Box::new(move |memory| {
        let (mut weights, gradient) = (var.load(memory)?, grad.load(memory)?);
        let (mut first, mut second) = (m.load(memory)?, v.load(memory)?);
        let at = step.load(memory)?[0];
        let (correct1, correct2) = (1.0 - beta1.powf(at), 1.0 - beta2.powf(at));
        for (at, g) in gradient.into_iter().enumerate() {
            first[at] = beta1 * first[at] + (1.0 - beta1) * g;
            second[at] = beta2 * second[at] + (1.0 - beta2) * g * g;
            weights[at] *= 1.0 - lr * decay;
            weights[at] -= lr * (first[at] / correct1) / ((second[at] / correct2).sqrt() + eps);
        }
        m.store(memory, &first)?;
        v.store(memory, &second)?;
        var.store(memory, &weights)
    }))
}

//! Rules on what is kept: where, and in which precision.

use super::parallel::moe_blocks;
use crate::base::DType;
use crate::diag::{Diagnostic, Sink};
use crate::recipe::origins::Origins;
use crate::recipe::schema::machine::DeviceKind;
use crate::recipe::schema::parallel::Offload;
use crate::recipe::schema::recipe::Recipe;

/// Holds `recipe` against the rules on precision, offloading and what the device can multiply.
pub fn check(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    precision(recipe, origins, sink);
    half(recipe, origins, sink);
    device(recipe, origins, sink);
    offload(recipe, origins, sink);
}

/// Nothing is summed or kept in less precision than it is computed in.
fn precision(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    let precision = &recipe.parallel.precision;
    let params = precision.params;
    let kept = [("reduce", precision.reduce, "summed"), ("optimizer", precision.optimizer, "updated")];
    for (key, dtype, done) in kept {
        let mixed_halves = dtype.size() == params.size() && dtype != params;
        if dtype.size() > params.size() || (dtype == params && (dtype != DType::F16 || key == "reduce")) {
            continue;
        }
        let why = if mixed_halves { "another range" } else { "less precision" };
        let message = format!("`{key}` = {dtype} loses what is computed in {params}");
        let problem = Diagnostic::error("step::parallel::precision", message)
            .label(origins.nearest(&format!("parallel.precision.{key}")), format!("{done} with {why}"))
            .label(origins.span("parallel.precision.params"), format!("parameters are {params}"));
        sink.push(problem.help(format!("write `{key} = f32`")));
    }
}

/// Gradients of f16 need their loss scaled, which nothing here does.
fn half(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    if recipe.parallel.precision.params != DType::F16 {
        return;
    }
    let message = "small gradients become 0 in f16: the loss is not scaled";
    let problem = Diagnostic::warning("step::parallel::f16", message)
        .label(origins.nearest("parallel.precision.params"), "numbers under 6e-8 are 0");
    sink.push(problem.help("write `params = bf16`, which has the range of f32"));
}

/// The device multiplies matrices of the types that the recipe asks for.
fn device(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    let device = &recipe.cluster.device;
    if device.matmul_f32 {
        return;
    }
    let routers = moe_blocks(recipe)
        .into_iter()
        .map(|(name, moe)| (format!("model.moe {name}.router.precision"), moe.router.precision, "precision"));
    let params = ("parallel.precision.params".to_owned(), recipe.parallel.precision.params, "params");
    for (path, dtype, key) in std::iter::once(params).chain(routers) {
        if dtype != DType::F32 {
            continue;
        }
        let message = format!("`{}` multiplies no matrices of f32", device.name);
        let problem = Diagnostic::error("step::parallel::device_dtype", message)
            .label(origins.nearest(&path), format!("`{key}` is f32"))
            .label(origins.span("cluster.device.matmul_f32"), "says the device");
        sink.push(problem.help(format!("write `{key} = bf16` or `{key} = f16`")));
    }
}

/// What is moved to the host has to come back for a reason.
fn offload(recipe: &Recipe, origins: &Origins, sink: &mut Sink) {
    let parallel = &recipe.parallel;
    if parallel.offload == Offload::None {
        return;
    }
    let place = origins.nearest("parallel.offload");
    if recipe.cluster.device.kind == DeviceKind::Cpu {
        let message =
            format!("`offload = {}`, but `{}` is the host", parallel.offload, recipe.cluster.device.name);
        let problem = Diagnostic::error("step::parallel::offload_host", message)
            .label(place, "to the memory it is in already")
            .label(origins.span("cluster.device"), "its device is a cpu");
        sink.push(problem.help("write `offload = none`"));
    } else if parallel.offload == Offload::Params && !parallel.reshard_after_forward {
        let message = "parameters are offloaded, yet stay gathered from the forward to the backward pass";
        let problem = Diagnostic::error("step::parallel::offload_reshard", message)
            .label(place, "to save memory of the device")
            .label(origins.span("parallel.reshard_after_forward"), "to spend it");
        sink.push(problem.help("write `offload = optimizer`, or `reshard_after_forward = true`"));
    }
}

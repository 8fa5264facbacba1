//! The figures of a plan, compiled or estimated, as JSON: for programs, for the HTML page and for comparing two of them.

use super::forecast::{held_against, why};
use super::savings::savings_json;
use crate::model::Counts;
use crate::plan::estimate::{Engine, Moment};
use crate::plan::{Axis, Category, Forecast, Plan, Savings, terms};
use crate::recipe::{Cluster, Optimizer, Parallel, Train};
use serde_json::{Map, Value, json};

/// How many of the largest groups of buffers are listed.
const TERMS: usize = 12;

/// Everything that the page of a compiled plan shows, in bytes, seconds, elements and fractions.
pub fn summary(plan: &Plan, savings: Option<&Savings>) -> Value {
    let mesh = Axis::ALL.iter().map(|axis| (axis.word(), plan.mesh.size(*axis)));
    let batch = [plan.train.global_batch, plan.data.sequence, plan.program.accumulation];
    let mut all = recipe(&plan.cluster, &plan.parallel, &plan.train, batch);
    all.extend(object(json!({
        "recipe": plan.recipe,
        "profile": plan.profile,
        "engine": Engine::Native.word(),
        "basis": "program",
        "parameters": parameters(&plan.counts, plan.placement.shard_elements()),
        "mesh": words(mesh.chain(others(&plan.parallel))),
        "memory": memory(plan),
        "time": time(plan),
        "balanced_routing": balanced(plan),
        "traffic": traffic(plan),
        "program": { "instructions": plan.program.instrs.len(), "buffers": plan.program.buffers.len() },
        "saved_by": savings.map(savings_json),
    })));
    Value::Object(all)
}

/// The same of an estimate, as far as it has it, and every moment that can be the peak.
pub fn forecast_summary(forecast: &Forecast, savings: Option<&Savings>) -> Value {
    let (job, l) = (&forecast.job, &forecast.job.layout);
    let mesh = [
        (Axis::World.word(), l.devices()),
        (Axis::Fsdp.word(), l.fsdp),
        (Axis::Replicate.word(), l.replicate),
        (Axis::Ep.word(), l.ep),
        (Axis::EpFsdp.word(), l.ep_fsdp),
        (Axis::ExpertReplicate.word(), l.devices() / (l.pp * l.ep * l.ep_fsdp)),
    ];
    let batch = [forecast.train.global_batch, forecast.sequence, job.accumulate];
    let mut all = recipe(&forecast.cluster, &forecast.parallel, &forecast.train, batch);
    all.extend(object(json!({
        "recipe": forecast.recipe,
        "profile": forecast.profile,
        "engine": forecast.engine.word(),
        "basis": "estimate",
        "estimated": why(forecast),
        "accuracy": held_against(forecast),
        "not_run_natively": forecast.demands,
        "parameters": parameters(&forecast.counts, forecast.estimate.memory.held as u64),
        "mesh": words(mesh.into_iter().chain(others(&forecast.parallel))),
        "memory": forecast_memory(forecast),
        "time": forecast_time(forecast),
        "saved_by": savings.map(savings_json),
    })));
    Value::Object(all)
}

/// What a recipe asks for, whatever runs it.
fn recipe(
    c: &Cluster,
    p: &Parallel,
    train: &Train,
    [batch, sequence, times]: [u64; 3],
) -> Map<String, Value> {
    object(json!({
        "cluster": {
            "name": c.name,
            "device": c.device.name,
            "nodes": c.nodes,
            "devices_per_node": c.devices_per_node,
            "devices": c.devices(),
        },
        "batch": {
            "sequences": batch,
            "sequence": sequence,
            "tokens": batch * sequence,
            "micro_batch": train.micro_batch,
            "accumulation": times,
        },
        "recompute": p.recompute.to_string(),
        "prefetch": p.prefetch,
        "precision": format!("{}/{}/{}", p.precision.params, p.precision.reduce, p.precision.optimizer),
        "offload": p.offload.to_string(),
        "reshard_after_forward": p.reshard_after_forward,
        "loss_chunk": train.loss_chunk,
        "optimizer": match train.optimizer {
            Optimizer::AdamW(_) => "adamw",
            Optimizer::Muon(_) => "muon",
        },
    }))
}

fn parameters(c: &Counts, held: u64) -> Value {
    json!({
        "total": c.total,
        "active": c.active,
        "experts": c.experts,
        "tensors": c.tensors,
        "mtp": c.mtp,
        "held_by_a_rank": held,
    })
}

/// The axes that the native program does not divide over.
fn others(p: &Parallel) -> [(&'static str, u64); 3] {
    [("tp", p.tp), ("cp", p.cp), ("pp", p.pp)]
}

fn memory(plan: &Plan) -> Value {
    let (m, program) = (&plan.memory, &plan.program);
    let largest = terms(program, m).into_iter().take(TERMS).map(|term| {
        json!({
            "name": term.name,
            "category": term.category.word(),
            "buffers": term.buffers,
            "bytes": term.bytes,
        })
    });
    let operation = program.instrs.get(m.peak_instr).map(|op| op.name());
    let mut all = fit(m.peak, plan.cluster.device.memory, m.dominating().map(|(category, _)| category));
    all.extend(object(json!({
        "at_peak": categories(m.categories()),
        "peak_at": format!("instruction {}, {}", m.peak_instr, operation.unwrap_or_default()),
        "peak_instruction": m.peak_instr,
        "peak_operation": operation,
        "host": m.host,
        "persistent": program.persistent,
        "arena": program.arena,
        "largest_at_peak": largest.collect::<Vec<_>>(),
    })));
    Value::Object(all)
}

fn forecast_memory(forecast: &Forecast) -> Value {
    let m = &forecast.estimate.memory;
    let whole = |(category, bytes): (Category, f64)| (category, bytes as u64);
    let (peak, at) = m.peak();
    let moments = Moment::ALL.iter().zip(&m.moments).map(|(moment, at)| {
        let shown = m.categories(at);
        json!({
            "moment": moment.word(),
            "bytes": shown.iter().map(|(_, bytes)| bytes).sum::<f64>() as u64,
            "categories": categories(shown.into_iter().map(whole)),
        })
    });
    let device = forecast.cluster.device.memory;
    let mut all = fit(forecast.needed(), device, Some(m.dominating().0));
    all.extend(object(json!({
        "at_peak": categories(m.categories(at).into_iter().map(whole)),
        "peak_at": peak.word(),
        "stage": m.stage,
        "moments": moments.collect::<Vec<_>>(),
        "remedy": forecast.remedy,
    })));
    Value::Object(all)
}

fn fit(peak: u64, device: u64, dominating: Option<Category>) -> Map<String, Value> {
    object(json!({
        "peak": peak,
        "device": device,
        "fits": peak <= device,
        "headroom": device as i128 - peak as i128,
        "dominating": dominating.map(Category::word),
    }))
}

fn categories(all: impl Iterator<Item = (Category, u64)>) -> Value {
    words(all.map(|(category, bytes)| (category.word(), bytes)))
}

/// Memory and time if every rank of an expert group got the same number of rows.
fn balanced(plan: &Plan) -> Value {
    let (peak, step) = plan.imbalanced(1.0);
    json!({ "peak": peak, "step": step })
}

fn time(plan: &Plan) -> Value {
    let t = &plan.time;
    let spent = t.spent.iter().map(|(bound, seconds)| (bound.word(), *seconds));
    json!({
        "step": t.step,
        "tokens_per_second_device": t.tokens,
        "model_flops": t.flops,
        "mfu": t.mfu,
        "communication": t.communication,
        "exposed": t.exposed,
        "bubble": 0.0,
        "bound": t.bound().word(),
        "spent": words(spent),
    })
}

fn forecast_time(forecast: &Forecast) -> Value {
    let t = &forecast.estimate.time;
    let spent = t.spent().into_iter().map(|(bound, seconds)| (bound.word(), seconds));
    json!({
        "step": t.step,
        "tokens_per_second_device": t.throughput(),
        "model_flops": t.flops * forecast.job.layout.devices() as f64,
        "mfu": t.mfu(),
        "communication": t.communication,
        "exposed": t.exposed,
        "bubble": t.bubble,
        "bound": t.bound().word(),
        "spent": words(spent),
    })
}

fn traffic(plan: &Plan) -> Value {
    let sent = plan.traffic.sent.iter().map(|((collective, axis), n)| {
        json!({
            "collective": collective,
            "axis": axis.word(),
            "ranks": plan.mesh.size(*axis),
            "bytes": n,
        })
    });
    Value::Array(sent.collect())
}

/// Numbers by name.
fn words<T: Into<Value>>(all: impl Iterator<Item = (&'static str, T)>) -> Value {
    Value::Object(all.map(|(word, value)| (word.to_owned(), value.into())).collect())
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

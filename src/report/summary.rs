//! The figures of a plan as JSON, for programs and for the HTML page.

use crate::plan::{Axis, Plan, terms};
use serde_json::{Map, Value, json};

/// How many of the largest groups of buffers are listed.
const TERMS: usize = 12;

/// Everything that the page of text shows, in bytes, seconds, elements and fractions.
pub fn summary(plan: &Plan) -> Value {
    let (c, batch) = (&plan.cluster, plan.train.global_batch);
    json!({
        "recipe": plan.recipe,
        "profile": plan.profile,
        "cluster": {
            "name": c.name,
            "device": c.device.name,
            "nodes": c.nodes,
            "devices_per_node": c.devices_per_node,
            "devices": plan.mesh.devices,
        },
        "parameters": {
            "total": plan.counts.total,
            "active": plan.counts.active,
            "experts": plan.counts.experts,
            "tensors": plan.counts.tensors,
            "mtp": plan.counts.mtp,
            "held_by_a_rank": plan.placement.shard_elements(),
        },
        "mesh": mesh(plan),
        "batch": {
            "sequences": batch,
            "sequence": plan.data.sequence,
            "tokens": batch * plan.data.sequence,
            "micro_batch": plan.train.micro_batch,
            "accumulation": plan.program.accumulation,
        },
        "recompute": plan.parallel.recompute.to_string(),
        "prefetch": plan.parallel.prefetch,
        "left_out": plan.demands,
        "memory": memory(plan),
        "time": time(plan),
        "traffic": traffic(plan),
        "program": { "instructions": plan.program.instrs.len(), "buffers": plan.program.buffers.len() },
    })
}

fn mesh(plan: &Plan) -> Value {
    let sizes = Axis::ALL.iter().map(|axis| (axis.word().to_owned(), json!(plan.mesh.size(*axis))));
    Value::Object(sizes.collect())
}

fn memory(plan: &Plan) -> Value {
    let (m, program) = (&plan.memory, &plan.program);
    let categories = m.at_peak.iter().map(|(category, n)| (category.word().to_owned(), json!(n)));
    let largest = terms(program, m).into_iter().take(TERMS).map(|term| {
        json!({
            "name": term.name,
            "category": term.category.word(),
            "buffers": term.buffers,
            "bytes": term.bytes,
        })
    });
    let device = plan.cluster.device.memory;
    json!({
        "peak": m.peak,
        "device": device,
        "fits": m.peak <= device,
        "host": m.host,
        "headroom": device as i128 - m.peak as i128,
        "persistent": program.persistent,
        "arena": program.arena,
        "unused_at_peak": m.slack,
        "at_peak": categories.collect::<Map<_, _>>(),
        "dominating": m.dominating().map(|(category, _)| category.word()),
        "largest_at_peak": largest.collect::<Vec<_>>(),
        "peak_instruction": m.peak_instr,
        "peak_operation": program.instrs.get(m.peak_instr).map(|op| op.name()),
    })
}

fn time(plan: &Plan) -> Value {
    let t = &plan.time;
    let spent = t.spent.iter().map(|(bound, seconds)| (bound.word().to_owned(), json!(seconds)));
    json!({
        "step": t.step,
        "tokens_per_second_device": t.tokens,
        "model_flops": t.flops,
        "mfu": t.mfu,
        "communication": t.communication,
        "exposed": t.exposed,
        "bound": t.bound().word(),
        "spent": spent.collect::<Map<_, _>>(),
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

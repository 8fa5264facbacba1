//! A plan as a page of text.

use super::quantity::{bytes, count, seconds};
use super::sheet::{Sheet, fit, machine};
use super::style::Style;
use crate::model::Part;
use crate::plan::{Axis, Contents, Plan, terms};
use crate::recipe::DeviceKind;

/// The imbalance of routing that is shown beside balance.
const BUSY: f64 = 1.5;

/// One line: recipe, machine, size and whether it fits.
pub fn headline(plan: &Plan, style: Style) -> String {
    let (machine, fit) = (machine(&plan.cluster), fit(plan.memory.peak, plan.cluster.device.memory, style));
    let parameters = count(plan.counts.total as f64);
    format!("{} on {machine}: {parameters} parameters, {fit}", style.bold(&plan.recipe))
}

/// Mesh, parameters, memory of a device by category, time, communication of a step, and the program in figures.
pub fn plan_page(plan: &Plan, style: Style) -> String {
    let mut page = Sheet::new(&plan.recipe, plan.profile.as_deref(), &plan.cluster, style);
    page.parameters(
        &plan.counts,
        plan.model.mtp.as_ref().map(|mtp| mtp.usage),
        plan.placement.shard_elements() as f64,
    );
    mesh(plan, &mut page);
    let train = &plan.train;
    page.batch([train.global_batch, plan.data.sequence, train.micro_batch, plan.program.accumulation]);
    page.memory(plan.memory.peak, plan.cluster.device.memory, plan.memory.categories());
    if plan.program.routed.iter().any(|r| r.capacity < r.bound) {
        page.line("", &style.dim(&imbalance(plan)));
    }
    checkpoints(plan, &mut page);
    let t = &plan.time;
    let spent = t.spent.iter().filter(|(_, spent)| **spent > 5e-4 * t.step);
    page.time([t.step, t.tokens, t.mfu], spent.map(|(bound, spent)| (bound.word(), *spent)));
    page.waits(t.bound().word(), t.communication, t.exposed);
    communication(plan, &mut page);
    program(plan, &mut page);
    page.text
}

/// What routing is counted for, and memory and time of the other case: a busier rank, or balance.
fn imbalance(plan: &Plan) -> String {
    let takes = |factor: f64| {
        let (peak, step) = plan.imbalanced(factor);
        format!("{} and {} a step", bytes(peak), seconds(step))
    };
    match plan.parallel.ep_imbalance {
        Some(factor) if factor > 1.0 => format!(
            "the busiest rank gets {factor} times the average of expert rows; balanced routing takes {}",
            takes(1.0)
        ),
        _ => format!(
            "expert rows are counted for balanced routing; `ep_imbalance = {BUSY}` takes {}",
            takes(BUSY)
        ),
    }
}

fn mesh(plan: &Plan, page: &mut Sheet) {
    let size = |axis| plan.mesh.size(axis);
    let times = |axis: Axis| match size(axis) {
        1 => String::new(),
        n => format!(" × {n} {}", axis.word()),
    };
    page.line("mesh", &format!("dense    {} fsdp{}", size(Axis::Fsdp), times(Axis::Replicate)));
    if let Some(experts) = plan.params.iter().find(|p| p.part == Part::Experts) {
        let (ep, ep_fsdp) = (size(Axis::Ep), size(Axis::EpFsdp));
        let copies = times(Axis::ExpertReplicate);
        let (each, all) = (experts.shape[0] / ep, experts.shape[0]);
        page.line(
            "",
            &format!("experts  {ep} ep × {ep_fsdp} ep_fsdp{copies}, {each} of {all} experts a rank"),
        );
    }
}

/// What is written while training goes on, and the memory of the host that it takes.
fn checkpoints(plan: &Plan, page: &mut Sheet) {
    let Some(checkpoint) = &plan.checkpoint else { return };
    let steps = |every: u64| match every {
        every if every >= plan.train.steps => "behind the last step".to_owned(),
        1 => "behind every step".to_owned(),
        every => format!("every {every} steps"),
    };
    let all = bytes(plan.saved_bytes(Contents::State));
    page.gap();
    page.line("checkpoint", &format!("{all} {}, {} kept", steps(checkpoint.every), checkpoint.keep));
    if let Some(every) = checkpoint.weights_every {
        let weights = bytes(plan.saved_bytes(Contents::Weights));
        page.line("", &format!("{weights} of weights alone {}", steps(every)));
    }
    let host = plan.memory.host;
    if host > 0 {
        let node = bytes(host * plan.cluster.devices_per_node);
        let text = format!("{} of host memory a rank, {node} a node, to write from meanwhile", bytes(host));
        page.line("", &text);
    }
}

fn communication(plan: &Plan, page: &mut Sheet) {
    page.gap();
    if plan.traffic.sent.is_empty() {
        page.line("communication", "none: one rank holds everything");
        return;
    }
    let total = plan.traffic.sent.values().sum();
    page.line("communication", &format!("{} sent by a rank in a step", bytes(total)));
    for ((collective, axis), n) in &plan.traffic.sent {
        page.line(
            "",
            &format!("{:>9}  {collective:<14} over {} {}", bytes(*n), plan.mesh.size(*axis), axis.word()),
        );
    }
}

fn program(plan: &Plan, page: &mut Sheet) {
    let p = &plan.program;
    let text = format!("{} instructions over {} buffers", p.instrs.len(), p.buffers.len());
    page.gap();
    page.line("program", &text);
    let at = plan.memory.peak_instr;
    if let Some(op) = p.instrs.get(at) {
        let mut first = None;
        op.operands(|_, view| first = first.or(Some(view.buffer)));
        let near = first.map(|id| p.buffer(id).name.clone()).unwrap_or_default();
        page.line("", &format!("most memory at instruction {at} ({} near `{near}`)", op.name()));
        let largest = terms(p, &plan.memory).into_iter().take(3).map(|term| match term.buffers {
            1 => format!("{} {}", bytes(term.bytes), term.name),
            n => format!("{} {} ×{n}", bytes(term.bytes), term.name),
        });
        page.line("", &format!("largest there: {}", largest.collect::<Vec<_>>().join(", ")));
    }
    if plan.cluster.device.kind != DeviceKind::Cpu {
        page.line("", &page.style.dim("ranks of the native engine; `--engine` estimates those of another"));
    }
}

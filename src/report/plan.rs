//! A plan as a page of text.

use super::quantity::{bytes, count, percent, seconds};
use super::style::Style;
use crate::model::Part;
use crate::plan::{Axis, Contents, Plan, Savings, terms};
use crate::recipe::DeviceKind;
use std::fmt::Write;

/// Columns of a bar that fills the whole device.
const BAR: f64 = 40.0;

/// One line: recipe, machine, size and whether it fits.
pub fn headline(plan: &Plan, style: Style) -> String {
    let machine = machine(plan);
    let parameters = count(plan.counts.total as f64);
    format!("{} on {machine}: {parameters} parameters, {}", style.bold(&plan.recipe), fit(plan, style))
}

/// Mesh, parameters, memory of a device by category, time, communication of a step, and the program in figures.
pub fn plan_page(plan: &Plan, style: Style) -> String {
    let mut page = Page { text: String::new(), style };
    let title = match &plan.profile {
        Some(profile) => format!("{} ({profile})", plan.recipe),
        None => plan.recipe.clone(),
    };
    page.text.push_str(&format!("{} on {}\n\n", style.bold(&title), machine(plan)));
    left_out(plan, &mut page);
    parameters(plan, &mut page);
    mesh(plan, &mut page);
    memory(plan, &mut page);
    checkpoints(plan, &mut page);
    time(plan, &mut page);
    communication(plan, &mut page);
    program(plan, &mut page);
    page.text
}

struct Page {
    text: String,
    style: Style,
}

impl Page {
    /// A line with a heading in the margin, or below the one before it.
    fn line(&mut self, heading: &str, text: &str) {
        let heading = self.style.bold(&format!("{heading:<15}"));
        let _ = writeln!(self.text, "{heading}{text}");
    }
}

/// What the recipe asks for beyond the native program, so that nobody takes these figures for its own.
fn left_out(plan: &Plan, page: &mut Page) {
    if plan.demands.is_empty() {
        return;
    }
    let asked = plan.demands.iter().map(|demand| format!("{} = {}", demand.field, demand.value));
    let asked = page.style.warn(&asked.collect::<Vec<_>>().join(", "));
    page.line("left out", &format!("{asked}: the native program does not do this yet, and"));
    page.line("", "all figures below are those of the recipe without it");
    page.text.push('\n');
}

fn machine(plan: &Plan) -> String {
    let c = &plan.cluster;
    let each = format!("{} {}", c.devices_per_node, c.device.name);
    match c.nodes {
        1 => format!("{each} ({})", c.name),
        nodes => format!("{nodes} nodes × {each} = {} devices ({})", plan.mesh.devices, c.name),
    }
}

fn fit(plan: &Plan, style: Style) -> String {
    let (peak, has) = (plan.memory.peak, plan.cluster.device.memory);
    let text = format!("{} of {} a device", bytes(peak), bytes(has));
    if peak <= has {
        style.good(&text)
    } else {
        style.warn(&format!("{text}: does not fit by {}", bytes(peak - has)))
    }
}

fn parameters(plan: &Plan, page: &mut Page) {
    let c = &plan.counts;
    let [total, active] = [c.total, c.active].map(|n| count(n as f64));
    page.line("parameters", &format!("{total} total, {active} active a token, {} tensors", c.tensors));
    if c.mtp > 0 {
        let mtp = count(c.mtp as f64);
        page.line(
            "",
            &format!("{mtp} more for multi-token prediction ({} tensors), not trained", c.mtp_tensors),
        );
    }
    let held = plan.placement.shard_elements();
    page.line("", &format!("{} held by a rank", count(held as f64)));
}

fn mesh(plan: &Plan, page: &mut Page) {
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
    let (batch, sequence) = (plan.train.global_batch, plan.data.sequence);
    let tokens = count((batch * sequence) as f64);
    page.line("batch", &format!("{batch} sequences × {sequence} = {tokens} tokens a step"));
    let (micro, times) = (plan.train.micro_batch, plan.program.accumulation);
    page.line("", &format!("{times} micro batch{} of {micro} a device", if times == 1 { "" } else { "es" }));
}

fn memory(plan: &Plan, page: &mut Page) {
    page.text.push('\n');
    page.line("memory", &fit(plan, page.style));
    let whole = plan.cluster.device.memory.max(plan.memory.peak) as f64;
    let slack = ("unused at the peak", plan.memory.slack);
    let rows = plan.memory.at_peak.iter().map(|(category, n)| (category.word(), *n)).chain([slack]);
    let mut rows: Vec<_> = rows.filter(|(_, n)| *n > 0).collect();
    rows.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    for (what, n) in rows {
        let bar = "█".repeat((n as f64 / whole * BAR).round() as usize);
        page.line("", &format!("{:>9}  {what:<20} {bar}", bytes(n)));
    }
    if plan.program.routed.iter().any(|r| r.capacity < r.bound) {
        page.line("", &page.style.dim("expert rows are counted for balanced routing"));
    }
}

/// What is written while training goes on, and the memory of the host that it takes.
fn checkpoints(plan: &Plan, page: &mut Page) {
    let Some(checkpoint) = &plan.checkpoint else { return };
    let steps = |every: u64| match every {
        every if every >= plan.train.steps => "behind the last step".to_owned(),
        1 => "behind every step".to_owned(),
        every => format!("every {every} steps"),
    };
    let all = bytes(plan.saved_bytes(Contents::State));
    page.text.push('\n');
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

fn time(plan: &Plan, page: &mut Page) {
    let t = &plan.time;
    page.text.push('\n');
    let speed = format!("{} tokens/s a device, {} of the bf16 peak (MFU)", count(t.tokens), percent(t.mfu));
    page.line("time", &format!("{} a step: {speed}", seconds(t.step)));
    for (bound, spent) in &t.spent {
        let part = if t.step > 0.0 { spent / t.step } else { 0.0 };
        let bar = "█".repeat((part * BAR).round() as usize);
        page.line("", &format!("{:>9}  {:<20} {bar}", percent(part), bound.word()));
    }
    let waits = format!(
        "bound by {}; collectives take {}, {} of it with nothing to hide behind",
        t.bound().word(),
        seconds(t.communication),
        seconds(t.exposed)
    );
    page.line("", &waits);
}

/// What expert parallelism and meta initialisation save on a rank, each beside doing without.
pub fn savings_section(savings: &Savings, style: Style) -> String {
    let mut page = Page { text: "\n".into(), style };
    let shrinks = |from: u64, to: u64| format!("{:+.0}%", (to as f64 / from as f64 - 1.0) * 100.0);
    let mut heading = "saved by";
    if let Some(without) = &savings.without_ep {
        let (from, to) = (without.peak, savings.peak);
        let text = format!("{:>9} → {:<9} {:>5}", bytes(from), bytes(to), shrinks(from, to));
        page.line(heading, &format!("ep = {:<11} {text}   peak of a device", savings.ep));
        heading = "";
    }
    let rows = [
        (savings.whole_f32, savings.read, "host of a rank, built in f32 first"),
        (savings.whole, savings.read, "host of a rank, built in the type of the weights"),
        (savings.whole, savings.shard, "device, built there and sharded afterwards"),
    ];
    for (from, to, what) in rows {
        let text = format!("{:>9} → {:<9} {:>5}", bytes(from), bytes(to), shrinks(from, to));
        page.line(heading, &format!("init = meta      {text}   {what}"));
        heading = "";
    }
    let (peak, memory) = (savings.peak, savings.memory);
    if peak <= memory {
        let left = memory - peak;
        let part = percent(left as f64 / memory as f64);
        page.line("", &format!("headroom left    {:>9} {part:>17}   of {}", bytes(left), bytes(memory)));
    }
    page.text
}

fn communication(plan: &Plan, page: &mut Page) {
    page.text.push('\n');
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

fn program(plan: &Plan, page: &mut Page) {
    let p = &plan.program;
    let text = format!("{} instructions over {} buffers", p.instrs.len(), p.buffers.len());
    page.text.push('\n');
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
        page.line("", &page.style.dim("ranks of the native engine; an engine of its own may keep more"));
    }
}

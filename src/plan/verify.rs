//! Proves that a program can be run without harm, whoever wrote it.
//!
//! After this, a device may take for granted: every view lies inside its buffer and every buffer inside its region;
//! buffers that are alive at the same time do not overlap; what an instruction writes overlaps none of its other
//! operands; nothing is read before it was written; shapes fit.

use super::arena::{ALIGN, lifetimes, resident};
use super::compile::{Plan, VERSION};
use super::memory::Category;
use super::mesh::Axis;
use super::ops::{Access, Op};
use super::program::{BufferId, Program, Rows, View};
use super::shapes;
use super::workspace;
use crate::base::DType;
use crate::diag::Diagnostic;
use crate::model::ParamId;
use crate::recipe::DeviceKind;
use std::collections::{BTreeMap, HashSet};

/// Checks a plan that comes from a file.
///
/// # Errors
/// A diagnostic that names the instruction or the buffer that breaks a rule.
pub fn verify(plan: &Plan) -> Result<(), Diagnostic> {
    check(plan).map_err(|message| {
        Diagnostic::error("step::plan::invalid", format!("this plan cannot be run: {message}"))
            .help("compile the recipe again: `stepc plan RECIPE --output FILE`")
    })
}

fn check(plan: &Plan) -> Result<(), String> {
    if plan.version != VERSION {
        return Err(format!("its version is {}, this program runs version {VERSION}", plan.version));
    }
    let program = &plan.program;
    let ranges = [&program.begin, &program.micro, &program.update];
    let ends = [0, program.begin.end, program.micro.end];
    let ordered = ranges.iter().zip(ends).all(|(range, start)| range.start == start && range.end >= start);
    if !ordered || program.update.end != program.instrs.len() {
        return Err("its phases do not follow one another".into());
    }
    mesh(plan)?;
    regions(program)?;
    room(plan)?;
    placement(plan)?;
    operands(plan)?;
    overlaps(program)
}

/// A device that computes in f32 has room for the widened operands of every instruction, and nobody else uses it.
fn room(plan: &Plan) -> Result<(), String> {
    let program = &plan.program;
    let Some(view) = program.workspace else {
        let missing = plan.cluster.device.kind == DeviceKind::Cpu && workspace::needed(program) > 0;
        return if missing { Err("it has no room to widen half-precision operands".into()) } else { Ok(()) };
    };
    if !inside(program, view) {
        return Err("its workspace lies outside of a buffer".into());
    }
    let buffer = program.buffer(view.buffer);
    let used = program.instrs.iter().any(|op| {
        let mut used = false;
        op.operands(|_, operand| used |= operand.buffer == view.buffer);
        used
    });
    let alone = view.offset == 0 && buffer.persistent && buffer.dtype == DType::F32 && !used;
    if !alone || program.bytes(view.buffer) < workspace::needed(program) {
        return Err("its workspace is too small or used by others".into());
    }
    Ok(())
}

fn mesh(plan: &Plan) -> Result<(), String> {
    let mesh = plan.mesh;
    let sizes = [mesh.devices, mesh.fsdp, mesh.ep, mesh.ep_fsdp, plan.program.accumulation];
    if sizes.contains(&0) || plan.train.micro_batch == 0 || plan.data.sequence == 0 {
        return Err("a size of its mesh or batch is zero".into());
    }
    let experts = mesh.ep.checked_mul(mesh.ep_fsdp).unwrap_or(0);
    if experts == 0 || !mesh.devices.is_multiple_of(mesh.fsdp) || !mesh.devices.is_multiple_of(experts) {
        return Err("its mesh does not divide the devices".into());
    }
    let known = plan.params.len() as u32;
    let placed = plan.placement.units.iter().flat_map(|unit| unit.params.iter().map(|p| p.param));
    if placed.chain(plan.placement.frozen.iter().copied()).any(|param| param.0 >= known) {
        return Err("it places a parameter that it does not list".into());
    }
    Ok(())
}

/// Units are made of their parameters, one behind the other, and cut into equal shards; frozen parameters have buffers.
fn placement(plan: &Plan) -> Result<(), String> {
    let elements = |param: ParamId| {
        let shape = &plan.params[param.0 as usize].shape;
        shape.iter().try_fold(1u64, |n, side| n.checked_mul(*side)).ok_or("a parameter has too many elements")
    };
    for unit in &plan.placement.units {
        let divide = if unit.axis == Axis::EpFsdp { plan.mesh.ep } else { 1 };
        let mut end = 0u64;
        for placed in &unit.params {
            if placed.offset != end || placed.elements.checked_mul(divide) != Some(elements(placed.param)?) {
                return Err(format!("unit `{}` is not made of its parameters", unit.name));
            }
            end = end.checked_add(placed.elements).ok_or("a unit has too many elements")?;
        }
        let shard = end.div_ceil(plan.mesh.size(unit.axis));
        if unit.elements != end || unit.decayed > end || unit.shard != shard {
            return Err(format!("unit `{}` is not cut into equal shards", unit.name));
        }
    }
    let (frozen, views) = (&plan.placement.frozen, &plan.program.frozen);
    let held = frozen.iter().zip(views).map(|(param, view)| Ok(whole(plan, *view, elements(*param)?)));
    let held: Vec<bool> = held.collect::<Result<_, String>>()?;
    if frozen.len() != views.len() || held.contains(&false) {
        return Err("a frozen parameter has no buffer of its size".into());
    }
    shards(plan)
}

/// Every unit has a persistent shard of parameters, in the order of the units.
fn shards(plan: &Plan) -> Result<(), String> {
    let buffers = plan.program.buffers.iter().filter(|b| b.persistent && b.category == Category::Parameters);
    let fit = buffers.map(|b| (b.rows, b.cols));
    if !fit.eq(plan.placement.units.iter().map(|unit| (Rows::Fixed(1), unit.shard))) {
        return Err("the units and their shards do not match".into());
    }
    Ok(())
}

/// Whether a view is a persistent buffer of so many elements.
fn whole(plan: &Plan, view: View, elements: u64) -> bool {
    let fits = view.rows == Rows::Fixed(1) && view.cols == elements;
    fits && inside(&plan.program, view) && plan.program.buffer(view.buffer).persistent
}

/// Buffers lie inside their region and have a size that can be counted.
fn regions(program: &Program) -> Result<(), String> {
    for (index, buffer) in program.buffers.iter().enumerate() {
        if let Rows::Routed(slot) = buffer.rows
            && slot.0 as usize >= program.routed.len()
        {
            return Err(format!("buffer `{}` has the rows of an unknown routing", buffer.name));
        }
        let region = if buffer.persistent { program.persistent } else { program.arena };
        let bytes = program.rows(buffer.rows).checked_mul(buffer.cols);
        let bytes = bytes.and_then(|n| n.checked_mul(buffer.dtype.size())).filter(|n| *n <= region);
        let inside = bytes.is_some()
            && buffer.offset.is_multiple_of(ALIGN)
            && buffer.offset.saturating_add(resident(program, BufferId(index as u32))) <= region;
        if !inside {
            return Err(format!("buffer `{}` lies outside of its region", buffer.name));
        }
    }
    Ok(())
}

fn inside(program: &Program, view: View) -> bool {
    let Some(buffer) = program.buffers.get(view.buffer.0 as usize) else { return false };
    if let Rows::Routed(slot) = view.rows
        && slot.0 as usize >= program.routed.len()
    {
        return false;
    }
    let size = program.rows(buffer.rows) * buffer.cols;
    let end = program.rows(view.rows).checked_mul(view.cols).and_then(|n| n.checked_add(view.offset));
    end.is_some_and(|end| end <= size)
}

/// Every operand of every instruction.
fn operands(plan: &Plan) -> Result<(), String> {
    let program = &plan.program;
    let inputs = [program.tokens, program.labels, program.positions];
    let tables = program.ropes.iter().flat_map(|r| [r.cos, r.sin]);
    let tokens = plan.train.micro_batch.checked_mul(plan.data.sequence).map(Rows::Fixed);
    if inputs.iter().any(|view| Some(view.rows) != tokens || view.cols != 1) {
        return Err("its inputs are not those of a micro batch".into());
    }
    let known = Rows::Fixed(plan.data.sequence);
    if program.ropes.iter().any(|r| r.cos.rows != known || r.sin.rows != known || r.rotary != 2 * r.cos.cols)
    {
        return Err("its position tables do not cover a sequence".into());
    }
    for view in inputs.into_iter().chain(tables).chain(program.logits) {
        if !inside(program, view) || !program.buffer(view.buffer).persistent {
            return Err("an input, a table or the logits lie outside of the persistent region".into());
        }
    }
    let mut written: HashSet<BufferId> = HashSet::new();
    for (at, op) in program.instrs.iter().enumerate() {
        let name = op.name();
        let mut views: Vec<(Access, View)> = Vec::new();
        op.operands(|access, view| views.push((access, view)));
        if views.iter().any(|(_, view)| !inside(program, *view)) {
            return Err(format!("instruction {at} ({name}) reaches outside of a buffer"));
        }
        for (i, (access, view)) in views.iter().enumerate() {
            let buffer = program.buffer(view.buffer);
            if *access != Access::Write && !buffer.persistent && !written.contains(&view.buffer) {
                return Err(format!(
                    "instruction {at} ({name}) reads `{}` before it is written",
                    buffer.name
                ));
            }
            let clash = views[..i].iter().any(|(other, seen)| {
                (*access != Access::Read || *other != Access::Read) && overlap(program, *view, *seen)
            });
            if clash {
                return Err(format!("instruction {at} ({name}) uses `{}` twice at once", buffer.name));
            }
        }
        written.extend(views.iter().filter(|(a, _)| *a != Access::Read).map(|(_, view)| view.buffer));
        shapes::check(op).map_err(|what| format!("instruction {at} ({name}): {what}"))?;
        references(plan, op).map_err(|what| format!("instruction {at} ({name}): {what}"))?;
    }
    Ok(())
}

/// Units and routings that an instruction names exist and have the sizes of its operands.
fn references(plan: &Plan, op: &Op) -> Result<(), String> {
    let program = &plan.program;
    let sized = |unit: super::UnitId, view: View| {
        let unit = plan.placement.units.get(unit.0 as usize).ok_or("unknown unit")?;
        if view.rows == Rows::Fixed(1) && view.cols == unit.shard {
            Ok(unit)
        } else {
            Err("not the unit's shard")
        }
    };
    let slot = |slot: super::SlotId, routed: View| {
        let known = (slot.0 as usize) < program.routed.len();
        if known && routed.rows == Rows::Routed(slot) {
            Ok(())
        } else {
            Err("rows of another routing".to_owned())
        }
    };
    match op {
        Op::Embedding { table, .. } if table.rows != Rows::Fixed(plan.vocab) => {
            Err("not the vocabulary".into())
        }
        Op::EmbeddingGrad { d_table, .. } if d_table.view.rows != Rows::Fixed(plan.vocab) => {
            Err("not the vocabulary".into())
        }
        Op::CrossEntropy { logits, .. } if logits.cols != plan.vocab => Err("not the vocabulary".into()),
        Op::Gather { shard, full, unit, axis } => {
            let unit = sized(*unit, *shard)?;
            let ranks = Rows::Fixed(plan.mesh.size(*axis));
            let fits = full.rows == ranks && full.cols == unit.shard && unit.axis == *axis;
            if fits { Ok(()) } else { Err("not the whole unit".into()) }
        }
        Op::ReduceScatter { full, shard, unit, axis } => {
            let unit = sized(*unit, shard.view)?;
            let ranks = Rows::Fixed(plan.mesh.size(*axis));
            let fits = full.rows == ranks && full.cols == unit.shard && unit.axis == *axis;
            if fits { Ok(()) } else { Err("not the whole unit".into()) }
        }
        Op::SumSquares { grad, unit, copies } => {
            sized(*unit, *grad)?;
            if *copies == 0 { Err("no copies".into()) } else { Ok(()) }
        }
        Op::ApplyAdamW { grad, unit, .. } => sized(*unit, *grad).map(|_| ()).map_err(Into::into),
        Op::Exchange { counts, local, slot } => {
            let known = (slot.0 as usize) < program.routed.len();
            let fits = Some(counts.cols) == local.cols.checked_mul(plan.mesh.ep);
            if known && fits { Ok(()) } else { Err("rows of another routing".into()) }
        }
        Op::Dispatch { out, slot: id, .. } => slot(*id, *out),
        Op::Combine { rows, slot: id, .. } => slot(*id, *rows),
        _ => Ok(()),
    }
}

fn overlap(program: &Program, a: View, b: View) -> bool {
    let range = |view: View| view.offset..view.offset + program.rows(view.rows) * view.cols;
    let (x, y) = (range(a), range(b));
    a.buffer == b.buffer && x.start < y.end && y.start < x.end
}

/// Buffers that are alive together have memory of their own.
fn overlaps(program: &Program) -> Result<(), String> {
    let mut persistent: Vec<(u64, u64)> = Vec::new();
    let mut events: Vec<(usize, bool, BufferId)> = Vec::new();
    for (index, buffer) in program.buffers.iter().enumerate() {
        if buffer.persistent {
            persistent.push((buffer.offset, resident(program, BufferId(index as u32))));
        }
    }
    persistent.sort_unstable();
    if persistent.windows(2).any(|pair| pair[0].0 + pair[0].1 > pair[1].0) {
        return Err("persistent buffers overlap".into());
    }
    for (id, life) in lifetimes(program) {
        events.push((life.start, true, id));
        events.push((life.end, false, id));
    }
    events.sort_unstable();
    let mut live: BTreeMap<u64, BufferId> = BTreeMap::new();
    for (at, starts, id) in events {
        let (offset, bytes) = (program.buffer(id).offset, resident(program, id));
        if bytes == 0 {
            continue;
        }
        if !starts {
            live.remove(&offset);
            continue;
        }
        let below = live.range(..=offset).next_back().map(|(o, &b)| o + resident(program, b));
        let above = live.range(offset..).next().map(|(o, _)| *o);
        if below.is_some_and(|end| end > offset) || above.is_some_and(|start| start < offset + bytes) {
            return Err(format!(
                "`{}` overlaps a buffer that is alive at instruction {at}",
                program.buffer(id).name
            ));
        }
        live.insert(offset, id);
    }
    Ok(())
}

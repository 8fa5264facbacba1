//! Whose fault it is when a loss or a gradient is no number: the step is run once more, up to where its first such number
//! comes from, on whichever rank.

use super::rank::Rank;
use crate::base::DType;
use crate::diag::Diagnostic;
use crate::model::ParamId;
use crate::plan::{Access, Axis, BufferId, Op, Plan, UnitId, View};

/// The first number of a step that is not finite.
pub(super) enum Culprit {
    /// A parameter, by its checkpoint name: bad before the step began.
    Parameter(String),
    /// The gradient of a parameter.
    Gradient(String),
    /// Something between: its name in the plan, and the operation that made it.
    Result(String, &'static str),
}

impl Culprit {
    /// What is wrong, and what helps.
    pub(super) fn describe(&self) -> (String, &'static str) {
        const TOO_FAST: &str =
            "the step was not applied; lower the learning rate, lengthen the warm-up or set `clip`";
        match self {
            Culprit::Parameter(name) => (
                format!("`{name}` is not finite"),
                "the step was not applied; start from other weights, or from a step before",
            ),
            Culprit::Gradient(name) => (format!("first in the gradient of `{name}`"), TOO_FAST),
            Culprit::Result(name, op) => (format!("first in `{name}`, a result of {op}"), TOO_FAST),
        }
    }
}

/// Twice the operands that an instruction has at most: places of a step are numbered by micro batch, instruction, operand and
/// whether the instruction has run.
const OPERANDS: u64 = 64;

impl Rank {
    /// Runs the micro batches of `step` again and names the first number that is not finite, the same on all ranks; `None`
    /// where only a sum over all was too large. Parameters stay as they are.
    pub(super) fn blame(&mut self, step: u64) -> Result<Option<Culprit>, Diagnostic> {
        let plan = std::sync::Arc::clone(&self.plan);
        let program = &plan.program;
        let mut scalars = self.scalars(step, false);
        self.walk(program.begin.clone(), &mut scalars)?;
        let mut first: Option<(u64, u64)> = None;
        for micro in 0..program.accumulation {
            scalars.micro = micro;
            self.load(micro);
            for at in program.micro.clone() {
                let op = &program.instrs[at];
                let place = (micro * program.instrs.len() as u64 + at as u64) * OPERANDS;
                first = first.or_else(|| self.bad(op, place, true));
                self.device.run(op, &mut scalars)?;
                first = first.or_else(|| self.bad(op, place, false));
            }
        }
        let (place, element) = first.unwrap_or((u64::MAX, 0));
        let least = self.device.least(place)?;
        if least == u64::MAX {
            return Ok(None);
        }
        // Of the ranks where it is that place, the one with the first element speaks for all.
        let ranks = plan.mesh.devices;
        let own = if place == least { element * ranks + self.number() } else { u64::MAX };
        let spokesman = self.device.least(own)?;
        let (element, rank) = (spokesman / ranks, spokesman % ranks);
        let op = &program.instrs[(least / OPERANDS) as usize % program.instrs.len()];
        let (_, view) = views(op)[(least % OPERANDS) as usize / 2];
        Ok(Some(culprit(&plan, op, view, element, rank)))
    }

    /// The first bad operand of an instruction: before it has run of what lives longer than the step, behind it of what it
    /// has written. Its place, and the element.
    fn bad(&self, op: &Op, place: u64, before: bool) -> Option<(u64, u64)> {
        let persistent = |view: View| self.plan.program.buffer(view.buffer).persistent;
        let looked_at = |access: Access, view: View| match before {
            true => access == Access::Read && persistent(view),
            false => access != Access::Read,
        };
        let operands = (0..).zip(views(op)).filter(|(_, (access, view))| looked_at(*access, *view));
        operands.into_iter().find_map(|(slot, (_, view)): (u64, _)| {
            let element = self.first_not_finite(view)?;
            let padding = whole(&self.plan, view.buffer).is_some_and(|(unit, _, sharded)| {
                let first = if sharded { self.first(unit) } else { 0 };
                first + view.offset + element >= self.plan.placement.unit(unit).elements
            });
            (!padding).then_some((place + 2 * slot + u64::from(!before), element))
        })
    }

    /// The first element of a view that is infinite or no number; none among whole numbers.
    fn first_not_finite(&self, view: View) -> Option<u64> {
        if self.plan.program.buffer(view.buffer).dtype == DType::I32 {
            return None;
        }
        self.device.read(view).iter().position(|x| !x.is_finite()).map(|at| at as u64)
    }

    /// Elements of a unit before this rank's shard.
    fn first(&self, unit: UnitId) -> u64 {
        first(&self.plan, unit, self.number())
    }
}

fn first(plan: &Plan, unit: UnitId, rank: u64) -> u64 {
    let unit = plan.placement.unit(unit);
    plan.mesh.coordinate(unit.axis, rank) * unit.shard
}

fn views(op: &Op) -> Vec<(Access, View)> {
    let mut views = Vec::new();
    op.operands(|access, view| views.push((access, view)));
    views
}

/// The unit whose parameters or gradients a buffer holds, whether it is the gradients, and whether only a shard of them.
fn whole(plan: &Plan, buffer: BufferId) -> Option<(UnitId, bool, bool)> {
    plan.program.instrs.iter().find_map(|op| match op {
        Op::Gather { full, unit, .. } if full.buffer == buffer => Some((*unit, false, false)),
        Op::ReduceScatter { full, unit, .. } if full.buffer == buffer => Some((*unit, true, false)),
        Op::ApplyAdamW { param, unit, .. } if param.buffer == buffer => Some((*unit, false, true)),
        Op::ApplyAdamW { grad, unit, .. } if grad.buffer == buffer => Some((*unit, true, true)),
        _ => None,
    })
}

/// Names what lies at `element` of a view of `rank`.
fn culprit(plan: &Plan, op: &Op, view: View, element: u64, rank: u64) -> Culprit {
    let element = view.offset + element;
    if let Some((unit, gradient, sharded)) = whole(plan, view.buffer) {
        let element = element + if sharded { first(plan, unit, rank) } else { 0 };
        let unit = plan.placement.unit(unit);
        let holds = |placed: &&crate::plan::Placed| {
            (placed.offset..placed.offset + placed.elements).contains(&element)
        };
        if let Some(placed) = unit.params.iter().find(holds) {
            let part = if unit.axis == Axis::EpFsdp { plan.mesh.coordinate(Axis::Ep, rank) } else { 0 };
            let name = tensor(plan, placed.param, part * placed.elements + element - placed.offset);
            return if gradient { Culprit::Gradient(name) } else { Culprit::Parameter(name) };
        }
    }
    if let Some(at) = plan.program.frozen.iter().position(|frozen| frozen.buffer == view.buffer) {
        return Culprit::Parameter(tensor(plan, plan.placement.frozen[at], element));
    }
    Culprit::Result(plan.program.buffer(view.buffer).name.clone(), op.name())
}

/// The checkpoint tensor that holds an element of a parameter.
fn tensor(plan: &Plan, param: ParamId, element: u64) -> String {
    let parameter = &plan.params[param.0 as usize];
    let holder = parameter.tensors().find(|tensor| tensor.elements.contains(&element));
    holder.map_or_else(|| parameter.name.clone(), |tensor| tensor.name)
}

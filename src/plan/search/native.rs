//! Memory of the native program for any mesh, without compiling it.
//!
//! Which buffers live when depends on few choices: the micro batch, what is recomputed, how far ahead units are gathered,
//! whether tokens travel. One program for each of these is lowered. Of a mesh, only the sizes of units depend: a program is
//! boiled down to the moments at which a unit is gathered or freed or its gradient comes and goes, and to the most that
//! everything else takes between two of them. Walking those few hundred moments with the unit sizes of a mesh gives the
//! largest number of live bytes exactly; what the arena cannot use is all that is missing.

use super::fields::Candidate;
use crate::model::Model;
use crate::plan::arena::{ALIGN, lifetimes, resident};
use crate::plan::compile::Task;
use crate::plan::lower::lower;
use crate::plan::mesh::{Axis, Mesh};
use crate::plan::ops::Op;
use crate::plan::placement::Placement;
use crate::plan::program::{BufferId, Program};
use crate::recipe::{DeviceKind, Precision, Recipe, Recompute};
use std::collections::HashMap;

/// What a program's buffers and their lifetimes depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Structure {
    micro_batch: u64,
    recompute: Recompute,
    prefetch: u64,
    /// `ep`, as far as the room for expert rows depends on it, and whether it is over 1.
    ep: u64,
    /// Dense and expert units that are used where they lie.
    in_place: [bool; 2],
}

/// A program without what depends on the mesh.
struct Skeleton {
    /// Persistent bytes outside units.
    constants: u64,
    /// The most that buffers outside units take before the first moment.
    before: u64,
    moments: Vec<Moment>,
}

/// A whole unit or its whole gradient comes or goes.
struct Moment {
    unit: u32,
    begins: bool,
    /// The most that buffers outside units take from here to the next moment.
    others: u64,
}

/// A unit, before it is divided.
struct UnitSize {
    elements: u64,
    experts: bool,
}

/// The skeletons of a recipe's programs, made when they are first needed.
pub struct Skeletons<'a> {
    recipe: &'a Recipe,
    model: &'a Model,
    units: Vec<UnitSize>,
    precision: Precision,
    known: HashMap<Structure, Skeleton>,
    /// Bytes of each whole unit on the mesh at hand.
    whole: Vec<u64>,
}

impl<'a> Skeletons<'a> {
    /// Nothing is lowered yet.
    pub fn new(recipe: &'a Recipe, model: &'a Model) -> Self {
        let mesh = Mesh { devices: 1, fsdp: 1, ep: 1, ep_fsdp: 1 };
        let placement = Placement::new(model, &mesh);
        let size = |unit: &crate::plan::Unit| UnitSize {
            elements: unit.elements,
            experts: unit.axis == Axis::EpFsdp,
        };
        let units: Vec<UnitSize> = placement.units.iter().map(size).collect();
        let whole = vec![0; units.len()];
        let precision = recipe.parallel.precision.clone();
        Skeletons { recipe, model, units, precision, known: HashMap::new(), whole }
    }

    /// Bytes of a rank that are live where they are most.
    pub fn live(&mut self, c: &Candidate) -> u64 {
        let structure = self.structure(c);
        if !self.known.contains_key(&structure) {
            let skeleton = self.lower(c);
            self.known.insert(structure, skeleton);
        }
        let p = &self.precision;
        // Shards of parameter and both moments, and of the gradient.
        let [params, state, reduce] = [p.params, p.optimizer, p.reduce].map(|dtype| dtype.size());
        let aligned = |bytes: u64| bytes.next_multiple_of(ALIGN);
        let mut persistent = 0;
        for (unit, whole) in self.units.iter().zip(&mut self.whole) {
            let (parts, ranks) = if unit.experts { (c.ep, c.ep_fsdp) } else { (1, c.fsdp) };
            let shard = (unit.elements / parts).div_ceil(ranks);
            persistent += 3 * aligned(shard * state) + aligned(shard * reduce);
            *whole = aligned(shard * ranks * params);
        }
        let skeleton = &self.known[&structure];
        let (mut live, mut most) = (0, skeleton.before);
        for moment in &skeleton.moments {
            let bytes = self.whole[moment.unit as usize];
            live = if moment.begins { live + bytes } else { live - bytes };
            most = most.max(live + moment.others);
        }
        persistent + skeleton.constants + most
    }

    fn structure(&self, c: &Candidate) -> Structure {
        let p = &self.precision;
        let one_type = p.params == p.optimizer && p.params == p.reduce;
        // So many times the balanced rows come to a rank at most, and memory is set aside for so many of them.
        let most = match (self.recipe.parallel.ep_imbalance, self.recipe.cluster.device.kind) {
            (None, DeviceKind::Cpu) => u64::MAX,
            (imbalance, _) => imbalance.unwrap_or(1.0).ceil() as u64,
        };
        Structure {
            micro_batch: c.micro_batch,
            recompute: c.recompute,
            prefetch: c.prefetch,
            ep: c.ep.min(most.max(2)),
            in_place: [c.fsdp, c.ep_fsdp].map(|ranks| one_type && ranks == 1),
        }
    }

    fn lower(&self, c: &Candidate) -> Skeleton {
        let recipe = c.applied(self.recipe);
        let mesh = Mesh::new(&recipe.parallel, recipe.cluster.devices());
        let placement = Placement::new(self.model, &mesh);
        Skeleton::of(&lower(&recipe, self.model, &mesh, &placement, Task::Train))
    }
}

impl Skeleton {
    fn of(program: &Program) -> Skeleton {
        let mut unit_of: Vec<Option<u32>> = vec![None; program.buffers.len()];
        let mut shards: Vec<bool> = vec![false; program.buffers.len()];
        for op in &program.instrs {
            match op {
                Op::Gather { full, unit, .. } | Op::ReduceScatter { full, unit, .. } => {
                    unit_of[full.buffer.0 as usize] = Some(unit.0);
                }
                Op::ApplyAdamW { grad, param, m, v, .. } => {
                    [grad, param, m, v].iter().for_each(|view| shards[view.buffer.0 as usize] = true);
                }
                _ => {}
            }
        }
        let persistent = |&id: &usize| program.buffers[id].persistent && !shards[id];
        let constants = (0..program.buffers.len()).filter(persistent);
        let constants = constants.map(|id| resident(program, BufferId(id as u32))).sum();

        let mut changes = vec![0i64; program.instrs.len() + 1];
        // Where, whether it begins (what ends at the same place goes first), which unit.
        let mut at: Vec<(usize, bool, u32)> = Vec::new();
        for (id, life) in lifetimes(program) {
            match unit_of[id.0 as usize] {
                Some(unit) => at.extend([(life.start, true, unit), (life.end, false, unit)]),
                None => {
                    let bytes = resident(program, id) as i64;
                    changes[life.start] += bytes;
                    changes[life.end] -= bytes;
                }
            }
        }
        at.sort_unstable();
        let mut live = 0;
        let others: Vec<u64> = changes
            .iter()
            .map(|change| {
                live += change;
                live as u64
            })
            .collect();
        let next = at.iter().skip(1).map(|(place, ..)| *place).chain([others.len()]);
        let moments = at.iter().zip(next).map(|(&(place, begins, unit), next)| Moment {
            unit,
            begins,
            others: others[place..next].iter().copied().max().unwrap_or_default(),
        });
        let first = at.first().map_or(others.len(), |(place, ..)| *place);
        let before = others[..first].iter().copied().max().unwrap_or_default();
        Skeleton { constants, before, moments: moments.collect() }
    }
}

//! When a unit is gathered, freed and its gradient reduced (FSDP2).
//!
//! The step is a sequence of stages, each needing some units. A stage's units are gathered `prefetch` stages ahead
//! and freed when the stage is over. A unit that one rank holds whole and in the right type is used where it lies.

use super::builder::{Builder, row};
use crate::model::{FfnModule, LayerModule, ParamId, Parameter};
use crate::plan::memory::Category;
use crate::plan::ops::{Accumulate, Op, Sum};
use crate::plan::placement::UnitId;
use crate::plan::program::{Rows, View};

/// The buffers of a unit and what has been done to it so far.
pub(in crate::plan) struct UnitState {
    /// Optimizer's parameters, gradient and moments: `[1, shard]`.
    pub param: View,
    pub grad: Option<View>,
    pub moments: Option<[View; 2]>,
    /// Whether the shard is the whole unit in the type that the operators read.
    in_place: bool,
    /// The whole unit, while it can be read.
    weights: Option<View>,
    /// The whole gradient, while it is being written, and the parameters that have been written to it.
    gradients: Option<View>,
    written: Vec<ParamId>,
    /// Whether the gradient shard holds something of this micro batch already.
    reduced: bool,
}

impl Builder<'_> {
    /// Shards, gradients and moments of all units.
    pub fn unit_buffers(&mut self) {
        let p = self.precision.clone();
        for unit in &self.placement.units {
            let buffer = |b: &mut Self, what: &str, dtype, category| {
                let name = format!("{}.{what}", unit.name);
                b.add_buffer(name, Rows::Fixed(1), unit.shard, dtype, category, true)
            };
            let alone = self.mesh.size(unit.axis) == 1;
            let one_type = p.params == p.optimizer && p.params == p.reduce;
            let param = buffer(self, "param", p.optimizer, Category::Parameters);
            let trains = self.task.trains();
            let grad = trains.then(|| buffer(self, "grad", p.reduce, Category::Gradients));
            let moments =
                trains.then(|| ["m", "v"].map(|what| buffer(self, what, p.optimizer, Category::Optimizer)));
            self.units.push(UnitState {
                param,
                grad,
                moments,
                in_place: alone && one_type,
                weights: None,
                gradients: None,
                written: Vec::new(),
                reduced: false,
            });
        }
    }

    /// The units that each stage reads: embedding, layers, head, layers backwards. Layers of multi-token prediction stand
    /// behind the others, and their heads behind the model's.
    pub fn all_stages(&self) -> Vec<Vec<UnitId>> {
        let unit_of = |param: ParamId| self.homes[&param].0;
        let units_of = |layer: &LayerModule| {
            let experts = match &layer.ffn {
                FfnModule::Moe(moe) => Some(unit_of(moe.gate)),
                FfnModule::Dense(_) => None,
            };
            [unit_of(layer.attention.norm)].into_iter().chain(experts).collect::<Vec<_>>()
        };
        let mtp = self.mtp();
        let layers = self.model.layers.iter().chain(mtp.iter().map(|mtp| &mtp.layer)).map(units_of);
        let layers: Vec<_> = layers.collect();
        let mut head = vec![unit_of(self.model.head)];
        if mtp.is_empty() {
            head.insert(0, unit_of(self.model.final_norm));
        }
        head.dedup();
        let mut stages = vec![vec![unit_of(self.model.embed)]];
        stages.extend(layers.iter().cloned());
        stages.push(head);
        stages.extend(mtp.iter().filter_map(|mtp| mtp.head).map(|head| vec![unit_of(head)]));
        if self.task.trains() {
            stages.extend(layers.into_iter().rev());
        }
        stages
    }

    /// Moves on to the next stage: its units become readable, and those of the next `prefetch` stages are on their way.
    pub fn enter(&mut self) {
        self.stage = self.stage.map_or(Some(0), |stage| Some(stage + 1));
        for id in self.within(0, self.reach()) {
            self.gather(id);
        }
    }

    /// Frees the units of the current stage, but for those that a stage within reach of the prefetch needs again; without
    /// resharding behind the forward pass, but for those that any later stage needs.
    pub fn leave(&mut self) {
        let reach = if self.recipe.parallel.reshard_after_forward { self.reach() } else { self.stages.len() };
        let again = self.within(1, reach);
        for id in self.current() {
            if !again.contains(&id) {
                self.free(id);
            }
        }
    }

    fn current(&self) -> Vec<UnitId> {
        self.stage.and_then(|stage| self.stages.get(stage).cloned()).unwrap_or_default()
    }

    /// Stages whose units are gathered at a time: the current one and those ahead.
    fn reach(&self) -> usize {
        self.recipe.parallel.prefetch as usize + 1
    }

    /// The units of the next `reach` stages, the current one among them, without the first `skip`.
    fn within(&self, skip: usize, reach: usize) -> Vec<UnitId> {
        let stages = self.stages.iter().skip(self.stage.unwrap_or(0));
        stages.take(reach).skip(skip).flatten().copied().collect()
    }

    fn gather(&mut self, id: UnitId) {
        let unit = self.placement.unit(id);
        let state = &mut self.units[id.0 as usize];
        if state.weights.is_some() {
            return;
        }
        let shard = state.param;
        if state.in_place {
            state.weights = Some(shard);
            return;
        }
        let (ranks, axis) = (self.mesh.size(unit.axis), unit.axis);
        let name = format!("{}.gathered", unit.name);
        let dtype = self.precision.params;
        let full = self.add_buffer(name, Rows::Fixed(ranks), unit.shard, dtype, Category::Gathered, false);
        self.units[id.0 as usize].weights = Some(full);
        self.emit(Op::Gather { shard, full, unit: id, axis });
    }

    fn free(&mut self, id: UnitId) {
        let state = &mut self.units[id.0 as usize];
        let Some(full) = state.weights.take() else { return };
        if !state.in_place {
            self.emit(Op::Free { full, unit: id });
        }
    }

    /// A stage that writes gradients: makes room for those of its units, and reduces them to this rank's shards behind it.
    pub fn with_gradients<T>(&mut self, scope: String, emit: impl FnOnce(&mut Self) -> T) -> T {
        self.scope = scope;
        self.enter();
        let units = self.current();
        units.iter().for_each(|id| self.begin_gradient(*id));
        let emitted = emit(self);
        units.iter().for_each(|id| self.finish_gradient(*id));
        self.leave();
        emitted
    }

    pub fn begin_gradient(&mut self, id: UnitId) {
        let unit = self.placement.unit(id);
        let state = &self.units[id.0 as usize];
        let full = match (state.in_place, state.grad) {
            (true, Some(grad)) => grad,
            _ => {
                let ranks = self.mesh.size(unit.axis);
                let name = format!("{}.gradient", unit.name);
                let (dtype, category) = (self.precision.params, Category::GatheredGradients);
                self.add_buffer(name, Rows::Fixed(ranks), unit.shard, dtype, category, false)
            }
        };
        let state = &mut self.units[id.0 as usize];
        state.gradients = Some(full);
        state.written.clear();
    }

    pub fn finish_gradient(&mut self, id: UnitId) {
        let axis = self.placement.unit(id).axis;
        let state = &mut self.units[id.0 as usize];
        let mode = if state.reduced { Accumulate::Always } else { Accumulate::AfterFirst };
        state.reduced = true;
        if let (Some(full), Some(grad), false) = (state.gradients.take(), state.grad, state.in_place) {
            let shard = Sum { view: grad, mode };
            self.emit(Op::ReduceScatter { full, shard, unit: id, axis });
        }
    }

    /// A parameter as a matrix, for reading: `[out, in]`, the experts of this rank one below the other.
    pub fn weight(&self, param: ParamId) -> View {
        let (unit, at) = self.homes[&param];
        let state = &self.units[unit.0 as usize];
        let whole = state.weights.expect("the stage of a parameter is entered before it is read");
        let placed = self.placement.unit(unit).params[at];
        matrix(whole, placed.offset, placed.elements, self.model.param(param))
    }

    /// A vector parameter for reading: `[1, elements]`.
    pub fn vector(&self, param: ParamId) -> View {
        row(self.weight(param))
    }

    /// Where the gradient of a parameter goes, and whether it is added to what is there.
    pub fn gradient(&mut self, param: ParamId) -> Sum {
        let (unit, at) = self.homes[&param];
        let placed = self.placement.unit(unit).params[at];
        let state = &mut self.units[unit.0 as usize];
        let whole = state.gradients.expect("room for gradients is made before they are written");
        let first = !state.written.contains(&param);
        state.written.push(param);
        let mode = match (first, state.in_place, state.reduced) {
            (false, ..) | (true, true, true) => Accumulate::Always,
            (true, true, false) => Accumulate::AfterFirst,
            (true, false, _) => Accumulate::Never,
        };
        Sum { view: matrix(whole, placed.offset, placed.elements, self.model.param(param)), mode }
    }
}

fn matrix(whole: View, offset: u64, elements: u64, parameter: &Parameter) -> View {
    let cols = *parameter.shape.last().unwrap_or(&1);
    let rows = Rows::Fixed(elements / cols);
    View { buffer: whole.buffer, offset: whole.offset + offset, rows, cols }
}

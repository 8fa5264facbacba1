//! Which rank holds which elements of which parameter.
//!
//! Parameters that are gathered together form a unit: the embedding, the dense part of a layer, the experts of a
//! layer, the head. A unit's parameters are laid one behind the other and cut into equal shards, so one collective
//! of equal counts gathers it and every rank carries the same load, whatever the shapes (cutting each parameter on
//! dimension 0 leaves a rank of 192 with up to 1.3 times the even share).

use super::mesh::{Axis, Mesh};
use crate::model::{FfnModule, LayerModule, Model, ParamId, Part};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Index of a unit in [`Placement::units`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnitId(pub u32);

/// A parameter's place inside its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    pub param: ParamId,
    /// Elements before it in the unit.
    pub offset: u64,
    /// Elements of it that one `ep` coordinate holds: all of a dense parameter, `experts / ep` of the experts.
    pub elements: u64,
}

/// Parameters that are gathered, freed and reduced together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unit {
    pub name: String,
    /// The axis it is sharded over.
    pub axis: Axis,
    /// Weight-decayed parameters come first.
    pub params: Vec<Placed>,
    pub elements: u64,
    /// The first `decayed` elements are subject to weight decay.
    pub decayed: u64,
    /// Elements of a rank's shard; the last shards of a unit may be partly or wholly padding.
    pub shard: u64,
}

impl Unit {
    /// The elements of the unit that the rank at `coordinate` on [`Unit::axis`] holds, without padding.
    pub fn held(&self, coordinate: u64) -> Range<u64> {
        let start = (coordinate * self.shard).min(self.elements);
        start..(start + self.shard).min(self.elements)
    }

    /// The axis along which ranks hold copies of the same shard.
    pub fn copies(&self) -> Axis {
        if self.axis == Axis::Fsdp { Axis::Replicate } else { Axis::ExpertReplicate }
    }

    /// What the shard of `rank` is made of.
    pub fn held_pieces(&self, mesh: &Mesh, rank: u64) -> Vec<Piece> {
        let held = self.held(mesh.coordinate(self.axis, rank));
        self.pieces(mesh, rank, held.clone(), held.start)
    }

    /// What `rank` writes into a checkpoint: its shard, divided evenly among the ranks that hold a copy of it, so that all
    /// ranks together write every element once.
    pub fn saved_pieces(&self, mesh: &Mesh, rank: u64) -> Vec<Piece> {
        let held = self.held(mesh.coordinate(self.axis, rank));
        let each = (held.end - held.start).div_ceil(mesh.size(self.copies()));
        let start = (held.start + mesh.coordinate(self.copies(), rank) * each).min(held.end);
        self.pieces(mesh, rank, start..(start + each).min(held.end), held.start)
    }

    /// The parameters in elements `range` of the unit, where the shard of `rank` starts at element `shard`.
    fn pieces(&self, mesh: &Mesh, rank: u64, range: Range<u64>, shard: u64) -> Vec<Piece> {
        let placed = self.params.iter().filter_map(|placed| {
            let start = range.start.max(placed.offset);
            let end = range.end.min(placed.offset + placed.elements);
            // Experts: this rank's part of the stacked parameter starts behind those of the lower `ep` coordinates.
            let first = match self.axis {
                Axis::EpFsdp => mesh.coordinate(Axis::Ep, rank) * placed.elements,
                _ => 0,
            };
            (start < end).then(|| Piece {
                param: placed.param,
                elements: first + start - placed.offset..first + end - placed.offset,
                offset: start - shard,
            })
        });
        placed.collect()
    }
}

/// A part of a rank's shard: which elements of which parameter it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    pub param: ParamId,
    /// Elements of the flattened parameter.
    pub elements: Range<u64>,
    /// Where they start in the shard.
    pub offset: u64,
}

/// All units, and the frozen parameters, which every rank holds whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    pub units: Vec<Unit>,
    pub frozen: Vec<ParamId>,
}

impl Placement {
    /// Places the trained part of a model on a mesh.
    pub fn new(model: &Model, mesh: &Mesh) -> Placement {
        let mut placement = Placement { units: Vec::new(), frozen: Vec::new() };
        placement.frozen.extend(model.trained().filter(|(_, p)| !p.trainable).map(|(id, _)| id));
        placement.add(model, mesh, "embed".into(), &[model.embed]);
        for (i, layer) in model.layers.iter().enumerate() {
            placement.layer(model, mesh, &format!("layer{i}"), layer, Vec::new());
        }
        // Where there is multi-token prediction, norms in front of heads are computed ahead of all heads.
        let mtp = model.trained_mtp();
        let mut final_norm = Some(model.final_norm);
        let mut head: Vec<ParamId> = final_norm.take_if(|_| mtp.is_empty()).into_iter().collect();
        head.extend((model.head != model.embed).then_some(model.head));
        placement.add(model, mesh, "head".into(), &head);
        for (i, mtp) in mtp.iter().enumerate() {
            let mut ends = vec![mtp.embed_norm, mtp.hidden_norm, mtp.project, mtp.norm];
            ends.extend(final_norm.take());
            placement.layer(model, mesh, &format!("mtp{i}"), &mtp.layer, ends);
            placement.add(model, mesh, format!("mtp{i}.head"), mtp.head.as_slice());
        }
        placement
    }

    /// The dense part of a layer with what is used `beside` it in its stage, and its experts.
    fn layer(&mut self, model: &Model, mesh: &Mesh, name: &str, layer: &LayerModule, beside: Vec<ParamId>) {
        let mut dense = beside;
        dense.extend(layer.attention.params());
        dense.push(layer.ffn_norm);
        dense.extend(layer.attention_norm_behind.into_iter().chain(layer.ffn_norm_behind));
        let mut experts = Vec::new();
        match &layer.ffn {
            FfnModule::Dense(mlp) => dense.extend(mlp.params()),
            FfnModule::Moe(moe) => {
                dense.extend(moe.dense());
                experts.extend(moe.experts());
            }
        }
        self.add(model, mesh, name.to_owned(), &dense);
        self.add(model, mesh, format!("{name}.experts"), &experts);
    }

    /// A unit of `params`; none where there are none.
    fn add(&mut self, model: &Model, mesh: &Mesh, name: String, params: &[ParamId]) {
        if params.is_empty() {
            return;
        }
        let experts = params.iter().any(|&id| model.param(id).part == Part::Experts);
        let (axis, divide) = if experts { (Axis::EpFsdp, mesh.ep) } else { (Axis::Fsdp, 1) };
        let (decayed, rest): (Vec<ParamId>, Vec<ParamId>) =
            params.iter().copied().partition(|&id| model.param(id).decayed());
        let mut unit = Unit { name, axis, params: Vec::new(), elements: 0, decayed: 0, shard: 0 };
        for (ids, decay) in [(decayed, true), (rest, false)] {
            for param in ids {
                let elements = model.param(param).elements() / divide;
                unit.params.push(Placed { param, offset: unit.elements, elements });
                unit.elements += elements;
            }
            if decay {
                unit.decayed = unit.elements;
            }
        }
        unit.shard = unit.elements.div_ceil(mesh.size(axis));
        self.units.push(unit);
    }

    /// The unit behind an id.
    pub fn unit(&self, id: UnitId) -> &Unit {
        &self.units[id.0 as usize]
    }

    /// Trainable elements that one rank holds, padding included.
    pub fn shard_elements(&self) -> u64 {
        self.units.iter().map(|unit| unit.shard).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However the mesh is cut, uneven shards and padding included, the ranks write every element once and hold it once for
    /// each copy.
    #[test]
    fn ranks_write_every_element_once() {
        let meshes = [(1, 1, 1, 1), (4, 4, 2, 2), (8, 4, 2, 2), (8, 2, 4, 1), (6, 3, 1, 2), (12, 12, 3, 4)];
        for (devices, fsdp, ep, ep_fsdp) in meshes {
            let mesh = Mesh { devices, fsdp, ep, ep_fsdp };
            for axis in [Axis::Fsdp, Axis::EpFsdp] {
                // The parameters [12, 5] and [24], of which an `ep` coordinate holds its part.
                let divide = if axis == Axis::EpFsdp { ep } else { 1 };
                let placed =
                    |param, offset, elements: u64| Placed { param: ParamId(param), offset, elements };
                let params = vec![placed(0, 0, 60 / divide), placed(1, 60 / divide, 24 / divide)];
                let elements = 84 / divide;
                let shard = elements.div_ceil(mesh.size(axis));
                let unit = Unit { name: "u".into(), axis, params, elements, decayed: 0, shard };
                let count = |of: &dyn Fn(u64) -> Vec<Piece>| {
                    let mut seen = [vec![0; 60], vec![0; 24]];
                    for piece in (0..devices).flat_map(of) {
                        piece.elements.for_each(|at| seen[piece.param.0 as usize][at as usize] += 1);
                    }
                    seen.concat()
                };
                let copies = mesh.size(unit.copies());
                assert_eq!(count(&|rank| unit.held_pieces(&mesh, rank)), vec![copies; 84], "{mesh:?}");
                assert_eq!(count(&|rank| unit.saved_pieces(&mesh, rank)), vec![1; 84], "{mesh:?}");
            }
        }
    }
}

//! Which rank holds which elements of which parameter.
//!
//! Parameters that are gathered together form a unit: the embedding, the dense part of a layer, the experts of a
//! layer, the head. A unit's parameters are laid one behind the other and cut into equal shards, so one collective
//! of equal counts gathers it and every rank carries the same load, whatever the shapes (cutting each parameter on
//! dimension 0 leaves a rank of 192 with up to 1.3 times the even share).

use super::mesh::{Axis, Mesh};
use crate::model::{FfnModule, Model, ParamId, Part};
use serde::{Deserialize, Serialize};

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
    pub fn held(&self, coordinate: u64) -> std::ops::Range<u64> {
        let start = (coordinate * self.shard).min(self.elements);
        start..(start + self.shard).min(self.elements)
    }
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
            let mut dense = layer.attention.params();
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
            placement.add(model, mesh, format!("layer{i}"), &dense);
            if !experts.is_empty() {
                placement.add(model, mesh, format!("layer{i}.experts"), &experts);
            }
        }
        let mut head = vec![model.final_norm];
        head.extend((model.head != model.embed).then_some(model.head));
        placement.add(model, mesh, "head".into(), &head);
        placement
    }

    fn add(&mut self, model: &Model, mesh: &Mesh, name: String, params: &[ParamId]) {
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

//! What a run cannot go on without: parameters, moments and frozen parameters, where they lie in a rank's memory, and which
//! rank writes which part of them.

use super::compile::Plan;
use super::memory::Category;
use super::placement::{Piece, Unit};
use super::program::{Buffer, BufferId, Rows, View};
use crate::model::ParamId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;

/// What is kept for every element of a trained parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Role {
    Parameter,
    /// The running mean of the gradient, or the momentum.
    FirstMoment,
    /// The running mean of the squared gradient.
    SecondMoment,
}

/// How much of the state is saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Contents {
    /// All that a run goes on from.
    State,
    /// The parameters alone.
    Weights,
}

/// A run of elements of one parameter and where they lie in a rank's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    pub role: Role,
    pub param: ParamId,
    /// Elements of the flattened parameter.
    pub elements: Range<u64>,
    /// `[1, elements]` in a persistent buffer.
    pub view: View,
}

impl Role {
    /// The role that a buffer of a unit plays, and the name of the unit.
    fn of(buffer: &Buffer) -> Option<(&str, Role)> {
        let (unit, what) = buffer.name.rsplit_once('.').filter(|_| buffer.persistent)?;
        match (buffer.category, what) {
            (Category::Parameters, _) => Some((unit, Role::Parameter)),
            (Category::Optimizer, "m") => Some((unit, Role::FirstMoment)),
            (Category::Optimizer, "v") => Some((unit, Role::SecondMoment)),
            _ => None,
        }
    }

    /// Whether a checkpoint of such contents has it.
    fn within(self, contents: Contents) -> bool {
        contents == Contents::State || self == Role::Parameter
    }

    /// The word for it in the names of saved tensors.
    pub fn word(self) -> &'static str {
        match self {
            Role::Parameter => "param",
            Role::FirstMoment => "m",
            Role::SecondMoment => "v",
        }
    }
}

impl Slice {
    /// Number of elements.
    pub fn len(&self) -> u64 {
        self.elements.end - self.elements.start
    }

    /// Never: parts without elements are left out.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The slices that belong to a checkpoint of such contents.
pub fn within(slices: &[Slice], contents: Contents) -> impl Iterator<Item = &Slice> {
    slices.iter().filter(move |slice| slice.role.within(contents))
}

impl Plan {
    /// The state that `rank` holds.
    pub fn held(&self, rank: u64) -> Vec<Slice> {
        self.slices(rank, true, Unit::held_pieces)
    }

    /// The part of the state that `rank` writes: all ranks together write every element once.
    pub fn saved(&self, rank: u64, contents: Contents) -> Vec<Slice> {
        let slices = self.slices(rank, rank == 0, Unit::saved_pieces);
        within(&slices, contents).cloned().collect()
    }

    /// What of the state is copied aside while training goes on, if checkpoints are written before the last step.
    pub fn staged(&self) -> Option<Contents> {
        let checkpoint = self.checkpoint.as_ref()?;
        let before_the_end = |every: u64| every < self.train.steps;
        match checkpoint.weights_every {
            _ if before_the_end(checkpoint.every) => Some(Contents::State),
            Some(every) if before_the_end(every) => Some(Contents::Weights),
            _ => None,
        }
    }

    /// Bytes that all ranks together write into a checkpoint: as every element is written once, those of whole parameters,
    /// however many ranks there are.
    pub fn saved_bytes(&self, contents: Contents) -> u64 {
        let elements = |param: ParamId| self.params[param.0 as usize].elements();
        let units = self.units_by_name();
        let buffers = self.program.buffers.iter().filter_map(Role::of);
        let kept = buffers.filter(|(_, role)| role.within(contents)).filter_map(|(unit, _)| units.get(unit));
        let kept = kept.flat_map(|unit| unit.params.iter().map(|placed| placed.param));
        let frozen = self.placement.frozen.iter().copied();
        kept.chain(frozen).map(elements).sum::<u64>() * size_of::<f32>() as u64
    }

    fn units_by_name(&self) -> BTreeMap<&str, &Unit> {
        self.placement.units.iter().map(|unit| (unit.name.as_str(), unit)).collect()
    }

    /// Bytes of host memory that a rank sets aside for that; rank 0, which also writes what is frozen, needs most.
    pub fn staging(&self) -> u64 {
        let elements = |contents| self.saved(0, contents).iter().map(Slice::len).sum::<u64>();
        self.staged().map_or(0, |contents| elements(contents) * size_of::<f32>() as u64)
    }

    fn slices(
        &self,
        rank: u64,
        frozen: bool,
        pieces: fn(&Unit, &super::Mesh, u64) -> Vec<Piece>,
    ) -> Vec<Slice> {
        let units = self.units_by_name();
        let mut slices = Vec::new();
        for (buffer, declared) in (0..).map(BufferId).zip(&self.program.buffers) {
            let Some((unit, role)) = Role::of(declared) else { continue };
            let pieces = units.get(unit).map_or_else(Vec::new, |unit| pieces(unit, &self.mesh, rank));
            slices.extend(pieces.into_iter().map(|Piece { param, elements, offset }| {
                let cols = elements.end - elements.start;
                Slice { role, param, elements, view: View { buffer, offset, rows: Rows::Fixed(1), cols } }
            }));
        }
        if frozen {
            let views = self.placement.frozen.iter().zip(&self.program.frozen);
            slices.extend(views.map(|(&param, &view)| {
                let elements = 0..self.params[param.0 as usize].elements();
                Slice { role: Role::Parameter, param, elements, view }
            }));
        }
        slices
    }
}

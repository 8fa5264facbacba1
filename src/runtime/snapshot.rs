//! Whole tensors from the shards of all ranks, under their checkpoint names.

use super::fill::shards;
use super::rank::Rank;
use crate::checkpoint::Elements;
use crate::diag::Diagnostic;
use crate::model::ParamId;
use crate::plan::{Category, Plan};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Which persistent buffers to collect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Parameters,
    Gradients,
}

/// Tensors that the ranks fill in, each with what it holds.
pub struct Snapshot {
    plan: Arc<Plan>,
    kind: Kind,
    whole: Mutex<Vec<Vec<f32>>>,
}

impl Snapshot {
    /// Room for all parameters, the frozen ones among them, or for the gradients.
    pub fn new(plan: Arc<Plan>, kind: Kind) -> Snapshot {
        let mut whole = vec![Vec::new(); plan.params.len()];
        let trained = plan.placement.units.iter().flat_map(|unit| unit.params.iter().map(|p| p.param));
        let frozen = plan.placement.frozen.iter().copied().filter(|_| kind == Kind::Parameters);
        for param in trained.chain(frozen) {
            let at = param.0 as usize;
            whole[at] = vec![0.0; plan.params[at].elements() as usize];
        }
        Snapshot { plan, kind, whole: Mutex::new(whole) }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Vec<f32>>> {
        self.whole.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies this rank's shards to their places.
    pub fn add(&self, rank: &Rank) {
        let category = match self.kind {
            Kind::Parameters => Category::Parameters,
            Kind::Gradients => Category::Gradients,
        };
        for (unit, view) in shards(&self.plan, category) {
            let values = rank.read(view);
            let mut whole = self.lock();
            for piece in unit.held_pieces(&self.plan.mesh, rank.number()) {
                let (from, to) = (piece.elements.start as usize, piece.elements.end as usize);
                let at = piece.offset as usize;
                whole[piece.param.0 as usize][from..to].copy_from_slice(&values[at..at + to - from]);
            }
        }
        if self.kind == Kind::Parameters && rank.number() == 0 {
            let mut whole = self.lock();
            for (param, view) in self.plan.placement.frozen.iter().zip(&self.plan.program.frozen) {
                whole[param.0 as usize] = rank.read(*view);
            }
        }
    }

    /// The tensors by checkpoint name, with their shapes.
    pub fn tensors(self) -> BTreeMap<String, (Vec<u64>, Vec<f32>)> {
        let whole = self.whole.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut tensors = BTreeMap::new();
        for (parameter, values) in self.plan.params.iter().zip(whole) {
            if values.is_empty() {
                continue;
            }
            let mut lines = parameter.lines(0..values.len() as u64).peekable();
            for (number, tensor) in (0..).zip(parameter.tensors()) {
                let elements = tensor.shape.iter().product::<u64>() as usize;
                let fresh = || (tensor.shape, vec![0.0; elements]);
                let (_, out): &mut (_, Vec<f32>) = tensors.entry(tensor.name).or_insert_with(fresh);
                while let Some((_, line)) = lines.next_if(|(tensor, _)| *tensor == number) {
                    line.pairs().for_each(|(at, from)| out[at] = values[from]);
                }
            }
        }
        tensors
    }
}

impl Elements for Snapshot {
    fn holds(&self, param: ParamId) -> bool {
        self.lock().get(param.0 as usize).is_some_and(|values| !values.is_empty())
    }

    fn elements(&self, param: ParamId, elements: Range<u64>, out: &mut [f32]) -> Result<(), Diagnostic> {
        out.copy_from_slice(&self.lock()[param.0 as usize][elements.start as usize..elements.end as usize]);
        Ok(())
    }
}

//! What expert parallelism and the meta device save on one rank, against doing without.

use super::compile::{Plan, Task, compile};
use crate::recipe::Recipe;

/// Bytes of a rank, with and without.
#[derive(Debug, Clone, PartialEq)]
pub struct Savings {
    pub ep: u64,
    /// The same recipe with `ep = 1`: every rank gathers whole experts.
    pub without_ep: Option<WithoutEp>,
    pub peak: u64,
    /// Bytes of a device.
    pub memory: u64,
    /// The whole model in f32 and in the type of the weights: what a rank builds that does not start on the meta device.
    pub whole_f32: u64,
    pub whole: u64,
    /// The rank's shard in the type of the weights, which is all that it reads, and as the device keeps it.
    pub read: u64,
    pub shard: u64,
}

/// What a plan without expert parallelism leads to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WithoutEp {
    pub peak: u64,
    pub step: f64,
}

impl Savings {
    /// Compares a recipe's plan with the same recipe without expert parallelism and without the meta device.
    pub fn of(recipe: &Recipe, plan: &Plan) -> Savings {
        let without_ep = (plan.mesh.ep > 1).then(|| {
            let mut without = recipe.clone();
            without.parallel.ep_fsdp *= without.parallel.ep;
            without.parallel.ep = 1;
            let without = compile(&without, None, Task::Train);
            WithoutEp { peak: without.memory.peak, step: without.time.step }
        });
        let trained = plan.params.iter().filter(|p| p.part != crate::model::Part::Mtp);
        let (mut whole_f32, mut whole) = (0, 0);
        for parameter in trained {
            whole_f32 += parameter.elements() * 4;
            whole += parameter.elements() * parameter.dtype.size();
        }
        let dtype = |id: crate::model::ParamId| plan.params[id.0 as usize].dtype;
        let units = plan.placement.units.iter();
        let widest = |unit: &super::Unit| unit.params.iter().map(|p| dtype(p.param).size()).max();
        let read = units.map(|unit| unit.shard * widest(unit).unwrap_or(0)).sum();
        let shard = plan.memory.at_peak.get(&super::Category::Parameters).copied().unwrap_or(0);
        Savings {
            ep: plan.mesh.ep,
            without_ep,
            peak: plan.memory.peak,
            memory: plan.cluster.device.memory,
            whole_f32,
            whole,
            read,
            shard,
        }
    }
}

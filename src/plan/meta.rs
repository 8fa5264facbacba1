//! What expert parallelism and the meta device save on one rank, against doing without.

use super::compile::{Plan, Task, compile};
use super::forecast::Forecast;
use super::memory::Category;
use crate::model::Model;
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
        let dtype = |id: crate::model::ParamId| plan.params[id.0 as usize].dtype;
        let units = plan.placement.units.iter();
        let widest = |unit: &super::Unit| unit.params.iter().map(|p| dtype(p.param).size()).max();
        Savings {
            without_ep: without_ep(recipe).map(|without| {
                let without = compile(&without, None, Task::Train);
                WithoutEp { peak: without.memory.peak, step: without.time.step }
            }),
            peak: plan.memory.peak,
            read: units.map(|unit| unit.shard * widest(unit).unwrap_or(0)).sum(),
            shard: plan.memory.at_peak.get(&Category::Parameters).copied().unwrap_or(0),
            ..whole(recipe)
        }
    }

    /// The same for a recipe that is estimated.
    pub fn estimated(recipe: &Recipe, forecast: &Forecast) -> Savings {
        let memory = &forecast.estimate.memory;
        let size = recipe.parallel.precision.params.size() as f64;
        Savings {
            without_ep: without_ep(recipe).map(|without| {
                let without = Forecast::of(&without, None, forecast.engine);
                WithoutEp { peak: without.needed(), step: without.estimate.time.step }
            }),
            peak: forecast.needed(),
            read: (memory.held * size) as u64,
            shard: memory.peak().1.parameters as u64,
            ..whole(recipe)
        }
    }
}

/// What a rank builds that does not start on the meta device; the rest is nothing yet.
fn whole(recipe: &Recipe) -> Savings {
    let model = Model::build(&recipe.model, recipe.parallel.precision.params);
    let trained = model.params.iter().filter(|p| p.in_training());
    let sizes = trained.map(|p| (p.elements() * 4, p.elements() * p.dtype.size()));
    let (whole_f32, whole) = sizes.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let (ep, memory) = (recipe.parallel.ep, recipe.cluster.device.memory);
    Savings { ep, without_ep: None, peak: 0, memory, whole_f32, whole, read: 0, shard: 0 }
}

/// The recipe with the same ranks and undivided experts.
fn without_ep(recipe: &Recipe) -> Option<Recipe> {
    let mut without = recipe.clone();
    without.parallel.ep_fsdp *= without.parallel.ep;
    without.parallel.ep = 1;
    (recipe.parallel.ep > 1).then_some(without)
}

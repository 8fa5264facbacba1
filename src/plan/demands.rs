//! What a recipe asks of its engine that the native engine does not do. One line a field; everything else runs.

use crate::recipe::{Ffn, Offload, Optimizer, Recipe, Recompute, Router};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A field of the recipe whose value asks for more than the native engine does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Demand {
    /// Its path, as in [`crate::recipe::Origins`].
    pub field: String,
    /// What is written there.
    pub value: String,
}

/// The demands of a recipe, in the order of its fields.
pub fn of(recipe: &Recipe) -> Vec<Demand> {
    let (parallel, train) = (&recipe.parallel, &recipe.train);
    let fixed = [
        ("parallel.tp", parallel.tp.to_string(), parallel.tp > 1),
        ("parallel.cp", parallel.cp.to_string(), parallel.cp > 1),
        ("parallel.pp", parallel.pp.to_string(), parallel.pp > 1),
        ("parallel.recompute", parallel.recompute.to_string(), parallel.recompute == Recompute::Selective),
        ("parallel.reshard_after_forward", "false".into(), !parallel.reshard_after_forward),
        ("parallel.offload", parallel.offload.to_string(), parallel.offload != Offload::None),
        ("train.optimizer", "muon".into(), matches!(train.optimizer, Optimizer::Muon(_))),
        ("train.loss_chunk", train.loss_chunk.unwrap_or(0).to_string(), train.loss_chunk.is_some()),
    ];
    let fixed = fixed.into_iter().map(|(field, value, asked)| (field.to_owned(), value, asked));
    let routers = routers(recipe);
    let routing = routers.iter().flat_map(|(name, router)| {
        let fields = [
            ("groups", router.groups.to_string(), router.groups > 1),
            ("aux_loss", router.aux_loss.to_string(), router.aux_loss > 0.0),
            ("bias_update", router.bias_update.to_string(), router.bias_update > 0.0),
        ];
        fields.map(|(key, value, asked)| (format!("model.moe {name}.router.{key}"), value, asked))
    });
    let asked = fixed.chain(routing).filter(|(_, _, asked)| *asked);
    asked.map(|(field, value, _)| Demand { field, value }).collect()
}

/// The routers of the layers that are trained, by the name of their block.
fn routers(recipe: &Recipe) -> BTreeMap<&str, &Router> {
    let layers = recipe.model.blocks.iter();
    let routers = layers.filter_map(|layer| match &layer.ffn {
        Ffn::Moe(moe) => Some((layer.ffn_name.as_str(), &moe.router)),
        Ffn::Dense(_) => None,
    });
    routers.collect()
}

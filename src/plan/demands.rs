//! What a recipe asks of its engine that the native engine does not do. One line a field; everything else runs.

use crate::recipe::{Offload, Optimizer, Recipe};
use serde::{Deserialize, Serialize};

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
    let fields = [
        ("parallel.tp", parallel.tp.to_string(), parallel.tp > 1),
        ("parallel.cp", parallel.cp.to_string(), parallel.cp > 1),
        ("parallel.pp", parallel.pp.to_string(), parallel.pp > 1),
        ("parallel.offload", parallel.offload.to_string(), parallel.offload != Offload::None),
        ("train.optimizer", "muon".into(), matches!(train.optimizer, Optimizer::Muon(_))),
    ];
    let asked = fields.into_iter().filter(|(_, _, asked)| *asked);
    asked.map(|(field, value, _)| Demand { field: field.to_owned(), value }).collect()
}

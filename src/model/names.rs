//! Checkpoint names of the tensors of one layer.

use crate::recipe::{Layout, Names};

/// Joins the names of a recipe's `names` block to whole checkpoint names for one layer.
pub(super) struct LayerNames<'a> {
    pub names: &'a Names,
    prefix: String,
}

impl<'a> LayerNames<'a> {
    pub fn new(names: &'a Names, layer: u64) -> Self {
        LayerNames { names, prefix: names.layer.replace("{i}", &layer.to_string()) }
    }

    /// The whole name of a tensor of this layer.
    pub fn of(&self, name: &str) -> String {
        format!("{}.{name}", self.prefix)
    }

    /// The whole name of a routed expert tensor: experts in one tensor have no `{e}`.
    pub fn expert(&self, name: &str) -> String {
        match self.names.moe.layout {
            Layout::Stacked | Layout::Transposed => self.of(&name.replace(".{e}", "")),
            Layout::PerExpert => self.of(name),
        }
    }
}

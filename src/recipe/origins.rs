//! Which places set a value.

use crate::base::Span;
use indexmap::IndexMap;

/// One place that set a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    pub span: Span,
    pub via: Via,
}

/// By what way a value came into the recipe; a later one goes over an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Via {
    /// A top-level item or a base.
    Item,
    /// The recipe itself.
    Recipe,
    /// The profile that was applied.
    Profile,
    /// `--set` on the command line.
    Set,
}

/// The places of all values: `parallel.ep`, `model.moe sparse.experts`, `train.optimizer.lr`, and of all blocks:
/// `parallel`, `model.moe sparse`. A block told apart by its name is called by kind and name, any other by its kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origins {
    chains: IndexMap<String, Vec<Origin>>,
}

impl Origins {
    /// The place that holds for `path`; `None` where a default holds.
    pub fn span(&self, path: &str) -> Option<Span> {
        self.chain(path).first().map(|origin| origin.span)
    }

    /// Every place that set `path`, the winner first; empty where a default holds.
    pub fn chain(&self, path: &str) -> &[Origin] {
        self.chains.get(path).map_or(&[], Vec::as_slice)
    }

    /// Every written path with its places, a block before what stands in it.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[Origin])> {
        self.chains.iter().map(|(path, chain)| (path.as_str(), chain.as_slice()))
    }

    /// The place of `path`, or of the innermost written block around it.
    pub fn nearest(&self, path: &str) -> Option<Span> {
        let mut path = path;
        loop {
            if let Some(span) = self.span(path) {
                return Some(span);
            }
            path = match path.rfind('.') {
                Some(dot) => &path[..dot],
                None => return self.span(""),
            };
        }
    }

    pub(super) fn insert(&mut self, path: String, chain: Vec<Origin>) {
        if !chain.is_empty() {
            self.chains.insert(path, chain);
        }
    }
}

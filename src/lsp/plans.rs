//! Plans of the recipes looked at last: hints, hovers and pages show one plan, and most edits change none.

use crate::plan::estimate::Engine;
use crate::recipe::{Recipe, Resolved};
use crate::report::Shown;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Plans that are kept.
const KEPT: usize = 8;

/// One plan, made by whoever asks first; the others wait for it.
#[derive(Default)]
struct Slot {
    plan: OnceLock<Arc<Shown>>,
    /// It has been promised to somebody who does not wait.
    promised: AtomicBool,
}

struct Entry {
    recipe: Recipe,
    profile: Option<String>,
    plan: Arc<Slot>,
}

/// The plans, the one asked for last first.
#[derive(Default)]
pub struct Plans {
    entries: Mutex<VecDeque<Entry>>,
}

impl Plans {
    /// How `resolved` does on the native engine.
    pub fn shown(&self, resolved: &Resolved) -> Arc<Shown> {
        let slot = self.slot(resolved);
        Arc::clone(slot.plan.get_or_init(|| Arc::new(Shown::of(resolved, Engine::Native))))
    }

    /// The plan where it is there already. Where it is not, whether nobody has been asked to make it before.
    pub fn known(&self, resolved: &Resolved) -> Result<Arc<Shown>, bool> {
        let slot = self.slot(resolved);
        slot.plan.get().cloned().ok_or_else(|| !slot.promised.swap(true, Ordering::AcqRel))
    }

    fn slot(&self, resolved: &Resolved) -> Arc<Slot> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let known = entries
            .iter()
            .position(|entry| entry.profile == resolved.profile && entry.recipe == resolved.recipe);
        let entry = known.and_then(|index| entries.remove(index)).unwrap_or_else(|| Entry {
            recipe: resolved.recipe.clone(),
            profile: resolved.profile.clone(),
            plan: Arc::default(),
        });
        let plan = Arc::clone(&entry.plan);
        entries.push_front(entry);
        entries.truncate(KEPT);
        plan
    }
}

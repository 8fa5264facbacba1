//! What fields come to, in a recipe and under its profiles.

use super::super::project::{Checked, Project};
use super::frames::{Frame, LAYER_KINDS};
use crate::diag::Sink;
use crate::recipe::schema::FieldSchema;
use crate::recipe::{Resolved, Setting};
use crate::syntax::tree::{Block, Let};
use std::rc::Rc;

/// A field in a recipe, or under one of its profiles.
pub struct Held {
    pub profile: Option<String>,
    pub setting: Setting,
    /// Its value in each layer that has the field, where it belongs to a block of layers.
    pub layers: Vec<(u64, String)>,
}

/// What a field comes to in the recipe it is part of, then under the profiles that set it.
pub fn held(project: &Project, frame: &Rc<Frame<'_>>, field: &FieldSchema) -> Vec<Held> {
    let Some(checked) = checked(project, frame) else { return Vec::new() };
    let path = match frame.path.as_str() {
        "" => field.key.to_owned(),
        around => format!("{around}.{}", field.key),
    };
    let of_profile = |profile: Option<&str>| {
        let settings = checked.loaded.why(profile, &path, &mut Sink::default())?;
        let setting = settings.into_iter().find(|setting| setting.path == path)?;
        Some(Held { layers: layers(checked, profile, &path), profile: profile.map(str::to_owned), setting })
    };
    let mut found: Vec<Held> = of_profile(None).into_iter().collect();
    for profile in checked.loaded.profiles() {
        let Some(held) = of_profile(Some(&profile.name)) else { continue };
        if found.first().is_none_or(|first| first.setting != held.setting || first.layers != held.layers) {
            found.push(held);
        }
    }
    // The same field of an item that the recipe does not use is another one.
    let written = frame.key(field.key);
    let is_used = |held: &Held| {
        let mut places = held.setting.places.iter().map(|place| place.origin.span);
        places.any(|place| written.iter().any(|key| (key.file, key.start) == (place.file, place.start)))
    };
    if !written.is_empty() && !found.iter().any(is_used) && found.iter().all(|held| held.layers.is_empty()) {
        found.clear();
    }
    found
}

/// `model.moe.sparse.clamp` layer by layer.
fn layers(checked: &Checked, profile: Option<&str>, path: &str) -> Vec<(u64, String)> {
    let steps: Vec<&str> = path.split('.').collect();
    match steps.as_slice() {
        ["model", kind, name, rest @ ..] if LAYER_KINDS.contains(kind) => {
            checked.loaded.by_layer(profile, [kind, name], rest)
        }
        _ => Vec::new(),
    }
}

/// The recipe that a block is part of; for an item the first one.
fn checked<'p>(project: &'p Project, frame: &Rc<Frame<'_>>) -> Option<&'p Checked> {
    let outermost = frame.outward().last()?;
    let recipe = outermost.layers.iter().find(|block| block.kind.text == "recipe");
    let name = recipe.and_then(|recipe| recipe.name.as_ref());
    let same = |checked: &&Checked| name.is_some_and(|name| name.text == checked.loaded.recipe());
    project.recipes.iter().find(same).or(project.recipes.first())
}

/// The recipe that a block is part of with the profile that it is part of, if that is sound.
pub fn resolved<'p>(project: &'p Project, frame: &Rc<Frame<'_>>) -> Option<&'p Resolved> {
    let profile = frame.profile.as_deref();
    let mut all = checked(project, frame)?.resolved.iter();
    let resolved = all.find(|resolved| resolved.profile.as_deref() == profile)?;
    // An item that the recipe does not use has no part in what it comes to.
    let uses = |frame: &Rc<Frame<'_>>| {
        let heads = match frame.schema.kind {
            kind @ ("model" | "cluster") => resolved.origins.chain(kind),
            "device" => resolved.origins.chain("cluster.device"),
            _ => return true,
        };
        let written = |block: &&Block| heads.iter().any(|origin| origin.span == block.head());
        frame.layers.iter().any(written)
    };
    frame.outward().all(uses).then_some(resolved)
}

/// What a `let` comes to in the first recipe that sees it, and under the profiles in which it is another value.
pub fn bound(project: &Project, item: &Let) -> Vec<(Option<String>, String)> {
    for checked in &project.recipes {
        let profiles = checked.loaded.profiles().iter().map(|profile| Some(profile.name.clone()));
        let mut found: Vec<(Option<String>, String)> = Vec::new();
        for profile in std::iter::once(None).chain(profiles) {
            let value = checked.loaded.binding(profile.as_deref(), &item.name);
            if let Some(value) = value.filter(|value| found.first().is_none_or(|(_, first)| first != value)) {
                found.push((profile, value));
            }
        }
        if !found.is_empty() {
            return found;
        }
    }
    Vec::new()
}

/// Layers as ranges: `0, 4–7`; of many only the first.
pub fn ranges(layers: &[u64]) -> String {
    const MANY: usize = 8;
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for layer in layers {
        match runs.last_mut() {
            Some((_, end)) if *end + 1 == *layer => *end = *layer,
            _ => runs.push((*layer, *layer)),
        }
    }
    let shown = runs.iter().take(MANY).map(|(start, end)| match end - start {
        0 => start.to_string(),
        1 => format!("{start}, {end}"),
        _ => format!("{start}–{end}"),
    });
    let shown: Vec<_> = shown.collect();
    format!("{}{}", shown.join(", "), if runs.len() > MANY { ", …" } else { "" })
}

//! Files and folders inside of texts.

use super::Place;
use super::items::Items;
use crate::base::Host;
use crate::base::host::normal;
use crate::lsp::knowledge::takes_path;
use crate::recipe::library;
use lsp_types::*;
use std::path::Path;

/// Entries of a folder that are offered.
const MOST: usize = 200;

/// What can follow `before` in the text of `key`, or of `use` where there is none.
pub fn paths(place: &Place<'_, '_>, key: Option<&str>, before: &str, items: &mut Items) {
    let of_use = key.is_none();
    if !of_use && !place.field(key).is_some_and(|field| takes_path(&field.ty)) {
        return;
    }
    let folder = before.rfind('/').map_or("", |slash| &before[..=slash]);
    if of_use {
        embedded(folder, items);
    }
    let here = place.view.path.parent().unwrap_or(Path::new(""));
    let host = place.view.host();
    let shown = normal(&here.join(folder));
    let mut left = MOST;
    for name in host.list(&shown) {
        let path = shown.join(&name);
        let is_folder = !name.contains('.') || !host.list(&path).is_empty();
        let fits = is_folder || !of_use || (name.ends_with(".step") && path != place.view.path);
        if name.starts_with('.') || !fits || items.has(&name) {
            continue;
        }
        if left == 0 {
            return items.cut();
        }
        left -= 1;
        match is_folder && !host.list(&path).is_empty() {
            true => folder_item(&name, items),
            false => {
                items.word(CompletionItemKind::File, &name);
            }
        }
    }
}

/// Files of the library below `folder`.
fn embedded(folder: &str, items: &mut Items) {
    for (path, _) in library::LIBRARY {
        let Some(rest) = path.strip_prefix(folder) else { continue };
        match rest.split_once('/') {
            Some((inner, _)) if !items.has(inner) => folder_item(inner, items),
            Some(_) => {}
            None => items.word(CompletionItemKind::File, rest).detail = Some("in the library".to_owned()),
        }
    }
}

fn folder_item(name: &str, items: &mut Items) {
    let slash = if items.followed_by() == Some('/') { "" } else { "/" };
    items.insert(CompletionItemKind::Folder, name, &format!("{name}{slash}"));
}

//! A field: type, bounds, default, meaning, and what it comes to.

use super::{View, by_value, code, paragraph, place, plan};
use crate::lsp::knowledge::{Frame, Held, held, ranges, resolved};
use crate::recipe::Via;
use crate::recipe::schema::{FieldSchema, Type};
use std::rc::Rc;

pub fn about(view: &View, frame: &Rc<Frame<'_>>, field: &'static FieldSchema) -> Vec<String> {
    let title =
        if frame.path.is_empty() { field.key.to_owned() } else { format!("{}.{}", frame.path, field.key) };
    if matches!(field.ty, Type::Profiles) {
        return vec![code("profile NAME for DEVICE { … }"), paragraph(field.doc)];
    }
    let held = held(&view.project, frame, field);
    let value = held.iter().find(|held| held.profile.as_deref() == frame.profile.as_deref());
    let value =
        value.or(held.first()).and_then(|held| held.setting.value.as_deref().filter(|_| !varies(held)));
    let head = value.map_or(title.clone(), |value| format!("{title} = {value}"));
    let mut parts = vec![code(&head), facts(field), paragraph(field.doc)];
    let words = field.ty.words().iter().map(|word| format!("- `{}`: {}", word.word, paragraph(word.doc)));
    let words: Vec<_> = words.collect();
    if !words.is_empty() {
        parts.push(words.join("\n"));
    }
    let lines: Vec<_> = held.iter().flat_map(|held| lines(view, held)).collect();
    if !lines.is_empty() {
        parts.push(lines.join("\n"));
    }
    match (resolved(&view.project, frame), frame.schema.kind) {
        (Some(resolved), "parallel") => {
            if field.key == "ep" {
                parts.extend(plan::legal_ep(resolved));
            }
            parts.extend(plan::memory(view, resolved));
        }
        (Some(resolved), "layer") => parts.extend(super::layers(resolved, field.key)),
        _ => {}
    }
    parts
}

/// Type, bounds and default in a line.
fn facts(field: &FieldSchema) -> String {
    // Words have a list of their own.
    let ty = match field.ty {
        Type::WordOrPath(_) => "path or word".to_owned(),
        ty if ty.words().is_empty() => field.phrase(),
        Type::Optional(_) => "word or `none`".to_owned(),
        _ => "word".to_owned(),
    };
    let bounds = Some(field.facts.bounds()).filter(|bounds| !bounds.is_empty());
    let default = match (field.default, field.read_only) {
        (Some(default), true) => format!("derived: `{default}`"),
        (Some(default), false) => format!("default `{default}`"),
        (None, _) if field.required() => "must be written".to_owned(),
        (None, _) => String::new(),
    };
    let all = [Some(ty), bounds, Some(default).filter(|text| !text.is_empty())];
    all.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

fn varies(held: &Held) -> bool {
    by_value(&held.layers).len() > 1
}

/// Where the value was set, what it went over, and how it varies.
fn lines(view: &View, held: &Held) -> Vec<String> {
    let setting = &held.setting;
    let under = held.profile.as_ref().map_or_else(String::new, |profile| format!("profile `{profile}`: "));
    let Some(value) = &setting.value else { return Vec::new() };
    let mut lines = Vec::new();
    match setting.places.as_slice() {
        [] if setting.derived => lines.push(format!("- {under}**{value}**, derived")),
        [] => lines.push(format!("- {under}**{value}**, the default")),
        [first, others @ ..] => {
            let by = match (first.origin.via, &first.item) {
                (Via::Set, _) => "by `--set`".to_owned(),
                (_, item) => {
                    let item = item.as_ref().filter(|_| first.origin.via != Via::Profile);
                    let of = item.map_or_else(String::new, |item| format!(" in `{item}`"));
                    format!("{}{of}", place(view, first.origin.span))
                }
            };
            lines.push(format!("- {under}**{value}**, {by}"));
            for other in others {
                let text = super::source(view, other.origin.span);
                lines.push(format!("  - over `{text}`, {}", place(view, other.origin.span)));
            }
        }
    }
    if varies(held) {
        for (value, layers) in by_value(&held.layers) {
            let (s, n) = (if layers.len() == 1 { "" } else { "s" }, layers.len());
            lines.push(format!("  - **{value}** in {n} layer{s}: {}", ranges(&layers)));
        }
    }
    lines
}

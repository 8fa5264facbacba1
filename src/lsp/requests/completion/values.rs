//! Words, references, functions and units.

use super::Place;
use super::items::{Items, documentation, facts, markdown};
use super::statements;
use crate::lsp::knowledge::{Frame, LAYER_KINDS, takes_path};
use crate::recipe::functions::FUNCTIONS;
use crate::recipe::schema::{FieldSchema, Type};
use crate::recipe::units::{UNITS, measure};
use crate::syntax::tree::Stmt;
use lsp_types::*;
use std::rc::Rc;

/// `let`s that are offered.
const MANY: usize = 200;

/// What can stand for an operand of `field`'s value, behind the steps of `path`.
pub fn values(place: &Place<'_, '_>, field: Option<&'static FieldSchema>, path: &[&str], items: &mut Items) {
    if !path.is_empty() {
        return members(place, path, items);
    }
    // Within a call or a comparison no longer the type of the field counts.
    let ty = field.map(|field| field.ty).filter(|_| place.cursor.call.is_none());
    if let Some(ty) = ty {
        typed(place, &ty, items);
    }
    lets(place, items);
    let Some(frame) = innermost(place) else { return functions(items) };
    let own = field.map(|field| field.key);
    let mut seen: Vec<&str> = own.into_iter().collect();
    for (depth, around) in frame.outward().enumerate() {
        if let Some(variable) = around.variable {
            items.word(CompletionItemKind::Variable, &variable.text).detail =
                Some("the number of the layer".to_owned());
        }
        for field in around.schema.values().filter(|field| is_number(&field.ty)) {
            if !seen.contains(&field.key) {
                seen.push(field.key);
                let item = items.word(CompletionItemKind::Field, field.key);
                item.detail = Some(facts(field));
                item.documentation = documentation(field.doc);
            }
        }
        for field in around.schema.blocks().filter(|field| !matches!(field.ty, Type::Layers | Type::Profiles))
        {
            // Those of the blocks around, as `model.experts`.
            if depth > 0 || around.outer.is_none() {
                let item = items.word(CompletionItemKind::Module, field.key);
                item.documentation = documentation(field.doc);
            }
        }
    }
    functions(items);
}

/// Where names are looked up: the block at hand, or for a `let` of the file the recipe that uses it.
fn innermost<'t>(place: &Place<'_, 't>) -> Option<Rc<Frame<'t>>> {
    place.frames.last().cloned().or_else(|| place.names.recipe())
}

/// Numbers, sizes and the like: what expressions compute with.
fn is_number(ty: &Type) -> bool {
    match ty {
        Type::Optional(inner) => is_number(inner),
        ty => matches!(
            ty,
            Type::Count | Type::Float | Type::Ratio | Type::Size | Type::Rate | Type::Duration | Type::Bool
        ),
    }
}

/// What is a value of a type by itself.
fn typed(place: &Place<'_, '_>, ty: &Type, items: &mut Items) {
    match ty {
        Type::Optional(inner) => {
            typed(place, inner, items);
            items.word(CompletionItemKind::EnumMember, "none");
        }
        Type::Bool => {
            items.word(CompletionItemKind::Constant, "true");
            items.word(CompletionItemKind::Constant, "false");
        }
        Type::List(inner, _) => typed(place, inner, items),
        Type::Reference(kinds) => {
            let Some(frame) = innermost(place) else { return };
            let Some(model) = frame.outward().find(|frame| frame.schema.kind == "model") else { return };
            for kind in kinds.iter().filter(|kind| LAYER_KINDS.contains(kind)) {
                for name in model.names(kind) {
                    items.word(CompletionItemKind::Reference, name).detail = Some(format!("{kind} {name}"));
                }
            }
        }
        Type::Item(kind, _) => statements::items(place, kind, items),
        ty => {
            for word in ty.words() {
                items.word(CompletionItemKind::EnumMember, word.word).documentation = documentation(word.doc);
            }
            if takes_path(ty) && items.followed_by() != Some('"') {
                items.snippet(CompletionItemKind::File, "\"…\"", "\"$0\"").detail = Some("a path".to_owned());
            }
        }
    }
}

/// The `let`s in sight.
fn lets(place: &Place<'_, '_>, items: &mut Items) {
    let blocks = place.frames.iter().rev().flat_map(|frame| &frame.layers).flat_map(|block| block.stmts());
    let inner = blocks.filter_map(|stmt| match stmt {
        Stmt::Let(item) => Some(item),
        _ => None,
    });
    let outer = place.file.into_iter().flat_map(|file| place.names.lets(file));
    let all: Vec<_> = inner.chain(outer).collect();
    // Of very many, those that begin as typed.
    let many = all.len() > MANY;
    if many {
        items.cut();
    }
    let fits = |name: &str| !many || name.starts_with(place.typed());
    for item in all.into_iter().filter(|item| fits(&item.name.text)).take(MANY) {
        if !items.has(&item.name.text) {
            let value = place.view.project.sources.slice(item.value.span);
            let shown: String =
                value.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(60).collect();
            items.word(CompletionItemKind::Variable, &item.name.text).detail = Some(format!("= {shown}"));
        }
    }
}

fn functions(items: &mut Items) {
    for (name, takes, does) in FUNCTIONS {
        let item = items.snippet(CompletionItemKind::Function, name, &format!("{name}($0)"));
        item.detail = Some(format!("{name}({takes})"));
        item.documentation = Some(markdown((*does).to_owned()));
    }
    items.snippet(CompletionItemKind::Keyword, "if", "if ${1:condition} { ${2:a} } else { ${3:b} }");
}

/// Fields and blocks of the block that a path leads to.
fn members(place: &Place<'_, '_>, path: &[&str], items: &mut Items) {
    let Some(frame) = innermost(place).and_then(|frame| place.names.block_at(&frame, path)) else { return };
    for field in frame.schema.values() {
        let item = items.word(CompletionItemKind::Field, field.key);
        item.detail = Some(facts(field));
        item.documentation = documentation(field.doc);
    }
    for field in frame.schema.blocks().filter(|field| !matches!(field.ty, Type::Layers | Type::Profiles)) {
        match field.ty {
            Type::Named(_) => {
                for name in frame.names(field.key) {
                    items.word(CompletionItemKind::Module, name).detail =
                        Some(format!("{} {name}", field.key));
                }
            }
            _ => items.word(CompletionItemKind::Module, field.key).documentation = documentation(field.doc),
        }
    }
}

/// Units that suit the field, behind a number.
pub fn units(field: Option<&'static FieldSchema>, digits: &str, items: &mut Items) {
    let ty = field.map(|field| field.ty);
    let Ok(number) = digits.replace('_', "").parse::<f64>() else { return };
    for unit in UNITS.iter().filter(|unit| ty.is_none_or(|ty| suits(unit, &ty))) {
        let Ok(value) = measure(number, unit) else { continue };
        let label = format!("{digits}{unit}");
        let shown = match value.bytes() {
            Some(bytes) => format!("{bytes} bytes"),
            None => value.to_string(),
        };
        items.word(CompletionItemKind::Unit, &label).detail = Some(format!("{}: {shown}", value.phrase()));
    }
}

fn suits(unit: &str, ty: &Type) -> bool {
    let Ok(value) = measure(1.0, unit) else { return false };
    match ty {
        Type::Optional(inner) | Type::List(inner, _) => suits(unit, inner),
        Type::Size | Type::Rate => value.bytes().is_some(),
        Type::Duration => value.phrase() == "a duration",
        Type::Ratio => unit == "%",
        Type::Count | Type::Float => value.phrase() == "a whole number",
        _ => false,
    }
}

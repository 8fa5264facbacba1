//! Laying blocks over one another: items under a recipe, a recipe under a profile, all under `--set`, bases beside blocks.
//!
//! One rule serves all of them: deep, by kind and name, a field at a time. A block without a name goes over the only one of
//! its kind. A choice written with another word, and `kind none`, replace what was there; so does a `layer` block.

use super::check::{unknown_block, unknown_key};
use super::items::{Items, base_cycle, unknown_item};
use super::node::{Field, Node, Scope};
use super::origins::{Origin, Via};
use super::resolve::item_schema;
use super::schema::{BlockSchema, Type};
use crate::diag::{Diagnostic, Sink};
use crate::syntax::tree::{Expr, Ident};
use std::rc::Rc;

/// Lays `over` over `base`; what `over` does not say stays.
pub fn overlay<'t>(base: &mut Node<'t>, over: Node<'t>, schema: Option<&BlockSchema>, sink: &mut Sink) {
    base.braced |= over.braced;
    base.hollow |= over.hollow;
    base.name = over.name.or(base.name);
    base.base = over.base.or(base.base);
    base.heads.splice(0..0, over.heads);
    for (key, mut field) in over.fields {
        if let Some(under) = base.fields.get(key) {
            field.chain.extend_from_slice(&under.chain);
        }
        base.fields.insert(key, field);
    }
    base.requires.extend(over.requires);
    base.script = over.script.or(base.script.take());
    for block in over.blocks {
        overlay_block(base, block, schema, sink);
    }
}

fn overlay_block<'t>(base: &mut Node<'t>, over: Node<'t>, schema: Option<&BlockSchema>, sink: &mut Sink) {
    let ty = schema.and_then(|schema| schema.field(over.kind)).map(|field| field.ty);
    let mut same_kind = base.blocks.iter().enumerate().filter(|(_, block)| block.kind == over.kind);
    let target = match over.name {
        _ if matches!(ty, Some(Type::Layers)) => same_kind.next(),
        Some(_) if matches!(ty, Some(Type::Named(_)) | None) => {
            same_kind.find(|(_, block)| block.same_head(&over))
        }
        Some(_) => same_kind.next(),
        None => {
            let first = same_kind.next();
            if let (Some((_, first)), Some((_, second))) = (first, same_kind.next()) {
                let message = format!("there are several `{}` blocks", over.kind);
                let problem =
                    Diagnostic::error("step::recipe::ambiguous", message).label(over.place(), "which one?");
                sink.push(problem.help(format!("write `{}` or `{}`", first.title(), second.title())));
                return;
            }
            first
        }
    };
    let Some(index) = target.map(|(index, _)| index) else {
        base.blocks.push(over);
        return;
    };
    let under = &mut base.blocks[index];
    let other_word = over.name.is_some() && over.name_text() != under.name_text();
    if other_word || over.is_none() || under.is_none() || over.script.is_some() {
        *under = over;
    } else {
        let inner = ty.and_then(|ty| ty.body(under.name_text()));
        overlay(under, over, inner, sink);
    }
}

/// Puts the item that a `model` or `cluster` block names, or has as its base, under it.
pub fn expand<'t>(over: Node<'t>, items: &Items<'t>, sink: &mut Sink) -> Node<'t> {
    let mut over = over;
    let Some(from) = over.base.take().or(over.name) else { return over };
    match items.node(over.kind, &from.text, Via::Item, sink) {
        Some(mut item) => {
            let schema = item_schema(over.kind);
            overlay(&mut item, over, schema, sink);
            item
        }
        None => {
            // Written out in full, it needs no item.
            let whole =
                over.blocks.iter().any(|block| block.kind == "layer") || over.fields.contains_key("device");
            if !whole || Some(from.span) != over.name.map(|name| name.span) {
                sink.push(unknown_item(over.kind, &from.text, Some(from.span), items.names(over.kind)));
                over.hollow = true;
            }
            over
        }
    }
}

/// Lays a profile over a recipe. A `model` or `cluster` with another name takes the place of the recipe's.
pub fn overlay_profile<'t>(recipe: &mut Node<'t>, mut profile: Node<'t>, items: &Items<'t>, sink: &mut Sink) {
    let blocks = std::mem::take(&mut profile.blocks);
    for block in blocks {
        let current = recipe.blocks.iter_mut().find(|other| other.kind == block.kind);
        match current {
            Some(current) if is_item(block.kind) && block.name.is_some() && !current.same_head(&block) => {
                *current = expand(block, items, sink);
            }
            _ => profile.blocks.push(block),
        }
    }
    // The name and head of the recipe stay its own.
    (profile.name, profile.base) = (None, None);
    profile.heads.clear();
    overlay(recipe, profile, item_schema("recipe"), sink);
}

/// Whether a block of this kind in a recipe stands for a top-level item.
pub fn is_item(kind: &str) -> bool {
    matches!(kind, "model" | "cluster")
}

/// Applies `: base` between the blocks inside `node`, at every depth. Done when nothing is laid over any more, so that a
/// profile that changes `full` changes what was copied from it.
pub fn settle<'t>(node: &mut Node<'t>, schema: Option<&BlockSchema>, sink: &mut Sink) {
    let inner = |block: &Node<'t>| schema?.field(block.kind)?.ty.body(block.name_text());
    if node.blocks.iter().any(|block| block.base.is_some()) {
        let written = node.blocks.clone();
        for (index, block) in node.blocks.iter_mut().enumerate() {
            if block.base.is_some() {
                *block = inherit(&written, index, inner(block), &mut Vec::new(), sink);
            }
        }
    }
    for block in &mut node.blocks {
        let schema = inner(block);
        settle(block, schema, sink);
    }
}

fn inherit<'t>(
    beside: &[Node<'t>],
    index: usize,
    schema: Option<&BlockSchema>,
    above: &mut Vec<&'t Ident>,
    sink: &mut Sink,
) -> Node<'t> {
    let mut own = beside[index].clone();
    let (Some(base), Some(name)) = (own.base.take(), own.name) else { return own };
    above.push(name);
    if let Some(problem) = base_cycle(above, base) {
        sink.push(problem);
        own.hollow = true;
        return own;
    }
    let wanted = |block: &Node<'_>| block.kind == own.kind && block.name_text() == Some(base.text.as_str());
    let Some(found) = beside.iter().position(wanted) else {
        let known = beside.iter().filter(|block| block.kind == own.kind && block.name != own.name);
        sink.push(unknown_item(own.kind, &base.text, Some(base.span), known.filter_map(Node::name_text)));
        own.hollow = true;
        return own;
    };
    let mut copy = inherit(beside, found, schema, above, sink);
    overlay(&mut copy, own, schema, sink);
    copy.base = None;
    copy
}

/// Sets `path` to `value`, as `--set` does. Blocks are named by kind, by name, or by one behind the other.
pub fn set<'t>(
    node: &mut Node<'t>,
    schema: &'static BlockSchema,
    path: &'t [Ident],
    value: &'t Expr,
    scope: &Rc<Scope<'t>>,
    sink: &mut Sink,
) {
    let Some((step, rest)) = path.split_first() else { return };
    let name = step.text.as_str();
    if rest.is_empty() {
        if schema.field(name).is_none_or(|field| !field.ty.is_value() || field.read_only) {
            sink.push(unknown_key(name, step.span, &node.title(), schema));
            return;
        }
        let mut chain = vec![Origin { span: step.span.to(value.span), via: Via::Set }];
        chain.extend(node.fields.get(name).into_iter().flat_map(|under| under.chain.iter().copied()));
        node.fields.insert(name, Field { value, scope: Rc::clone(scope), chain });
        return;
    }
    let of_kind: Vec<_> = (0..node.blocks.len()).filter(|index| node.blocks[*index].kind == name).collect();
    let called = |name: &str| node.blocks.iter().position(|block| block.name_text() == Some(name));
    let (found, rest) = match of_kind.as_slice() {
        [] => (called(name), rest),
        several => {
            let chosen = several.iter().find(|index| node.blocks[**index].name_text() == Some(&rest[0].text));
            match chosen {
                Some(index) if rest.len() > 1 => (Some(*index), &rest[1..]),
                _ if several.len() == 1 => (several.first().copied(), rest),
                _ => {
                    let names = several.iter().filter_map(|index| node.blocks[*index].name_text());
                    let paths: Vec<_> = names.map(|name| format!("`{name}.{}`", rest[0].text)).collect();
                    let message = format!("there are several `{name}` blocks");
                    let problem =
                        Diagnostic::error("step::recipe::ambiguous", message).label(step.span, "which one?");
                    sink.push(problem.help(format!("name it: {}", paths.join(" or "))));
                    return;
                }
            }
        }
    };
    let absent = schema.field(name).filter(|field| field.ty.body(None).is_some() && field.ty.is_block());
    let index = match (found, absent) {
        (Some(index), _) => index,
        (None, Some(_)) => {
            let heads = vec![Origin { span: step.span, via: Via::Set }];
            node.blocks.push(Node { heads, ..Node::absent(name) });
            node.blocks.len() - 1
        }
        (None, None) => {
            sink.push(unknown_block(name, Some(step.span), &node.title(), schema));
            return;
        }
    };
    let block = &mut node.blocks[index];
    if block.script.is_some() {
        let message = "`--set` cannot reach into `layer`, which is evaluated once a layer";
        let problem =
            Diagnostic::error("step::recipe::set_layer", message).label(step.span, "not a single block");
        sink.push(problem.help("set the blocks that layers are made of, or write a profile"));
        return;
    }
    match schema.field(block.kind).and_then(|field| field.ty.body(block.name_text())) {
        Some(inner) => set(block, inner, rest, value, scope, sink),
        None => sink.push(unknown_block(name, Some(step.span), &node.title(), schema)),
    }
}

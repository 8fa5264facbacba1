//! Top-level items by kind and name, with their bases applied.

use super::load::SourceFile;
use super::merge::overlay;
use super::node::{Node, Scope};
use super::origins::Via;
use super::resolve::item_schema;
use crate::base::Span;
use crate::diag::suggest::nearest;
use crate::diag::{Diagnostic, Sink};
use crate::recipe::library;
use crate::syntax::tree::{Block, Ident, Item};
use std::rc::Rc;

/// The items of all files that take part, the user's before those of the library.
pub struct Items<'t> {
    found: Vec<(&'t Ident, &'t Block, Rc<Scope<'t>>)>,
}

impl<'t> Items<'t> {
    /// The items of `files`.
    pub fn collect(files: &'t [SourceFile]) -> Self {
        let mut found = Vec::new();
        let (library, own): (Vec<_>, Vec<_>) = files.iter().partition(|file| file.library);
        for file in own.into_iter().chain(library) {
            let scope = file_scope(files, file);
            for item in &file.tree.items {
                if let Item::Block(block) = item
                    && let Some(name) = &block.name
                {
                    found.push((name, block, Rc::clone(&scope)));
                }
            }
        }
        Items { found }
    }

    /// The item as it was written, and the `let`s it sees.
    pub fn written(&self, kind: &str, name: &str) -> Option<(&'t Block, &Rc<Scope<'t>>)> {
        let found = self.found.iter().find(|(own, block, _)| own.text == name && block.kind.text == kind);
        found.map(|(_, block, scope)| (*block, scope))
    }

    /// The item that a place lies in.
    pub fn around(&self, place: Span) -> Option<&'t Block> {
        let inside = |block: &Block| {
            let span = block.span;
            span.file == place.file && span.start <= place.start && place.end <= span.end
        };
        self.found.iter().map(|(_, block, _)| *block).find(|block| inside(block))
    }

    /// The names of all items of a kind, sorted.
    pub fn names(&self, kind: &str) -> Vec<&'t str> {
        let of_kind = self.found.iter().filter(|(_, block, _)| block.kind.text == kind);
        let mut names: Vec<_> = of_kind.map(|(name, ..)| name.text.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The item laid over its base, and that over its own; `None` if there is no such item.
    pub fn node(&self, kind: &str, name: &str, via: Via, sink: &mut Sink) -> Option<Node<'t>> {
        self.node_above(kind, name, via, &mut Vec::new(), sink)
    }

    fn node_above(
        &self,
        kind: &str,
        name: &str,
        via: Via,
        above: &mut Vec<&'t Ident>,
        sink: &mut Sink,
    ) -> Option<Node<'t>> {
        let (block, scope) = self.written(kind, name)?;
        let mut node = Node::build(block, scope, via, sink);
        let (Some(base), Some(own)) = (node.base.take(), node.name) else { return Some(node) };
        above.push(own);
        if let Some(problem) = base_cycle(above, base) {
            sink.push(problem);
            node.hollow = true;
            return Some(node);
        }
        match self.node_above(kind, &base.text, Via::Item, above, sink) {
            Some(mut below) => {
                below.hollow |= node.hollow;
                overlay(&mut below, node, item_schema(kind), sink);
                Some(below)
            }
            None => {
                sink.push(unknown_item(kind, &base.text, Some(base.span), self.names(kind)));
                node.hollow = true;
                Some(node)
            }
        }
    }
}

/// The `let`s of a file, then of the files it uses.
fn file_scope<'t>(files: &'t [SourceFile], file: &'t SourceFile) -> Rc<Scope<'t>> {
    let used = file.reach.iter().filter_map(|index| files.get(*index));
    let lets =
        std::iter::once(file).chain(used).flat_map(|file| &file.tree.items).filter_map(|item| match item {
            Item::Let(item) => Some(item),
            _ => None,
        });
    Scope::outermost(lets)
}

/// The report that nothing of this kind and name is known, with what there is.
pub fn unknown_item<'a>(
    kind: &str,
    name: &str,
    place: Option<Span>,
    known: impl IntoIterator<Item = &'a str>,
) -> Diagnostic {
    let problem = Diagnostic::error("step::recipe::unknown_item", format!("there is no {kind} `{name}`"))
        .label(place, "unknown");
    let mut known: Vec<_> = known.into_iter().collect();
    known.sort_unstable();
    if let Some(file) = library::file_with(kind, name) {
        let line = format!("use \"{file}\"");
        let problem = problem.help(format!("it is in the library: write `{line}` at the head of the file"));
        return problem.fix(place.map(|place| Span::new(place.file, 0, 0)), line + "\n");
    }
    match nearest(name, known.iter().copied()) {
        Some(near) => problem.help(format!("did you mean `{near}`?")).fix(place, near),
        None if known.is_empty() => {
            problem.help(format!("write `{kind} {name} {{ … }}`, or `use` a file that has it"))
        }
        None => problem.help(format!("known: {}", known.join(", "))),
    }
}

/// The report that bases lead round in a circle, if the next one, `base`, is among those `above` it. It is the same from
/// wherever the circle was entered.
pub fn base_cycle(above: &[&Ident], base: &Ident) -> Option<Diagnostic> {
    let start = above.iter().position(|name| name.text == base.text)?;
    let mut ring = above[start..].to_vec();
    let first = ring.iter().enumerate().min_by_key(|(_, name)| name.span).map_or(0, |(index, _)| index);
    ring.rotate_left(first);
    let mut names: Vec<_> = ring.iter().map(|name| format!("`{}`", name.text)).collect();
    names.extend(names.first().cloned());
    let message = format!("bases go round in a circle: {}", names.join(" → "));
    let problem = Diagnostic::error("step::recipe::base_cycle", message);
    let labelled = ring.iter().zip(&names[1..]);
    let problem =
        labelled.fold(problem, |problem, (name, next)| problem.label(name.span, format!("copies {next}")));
    Some(problem.help("let one of them stand without a base"))
}

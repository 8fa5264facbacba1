//! What a name is, and where its value comes from.

mod field;
mod plan;

use super::definition::target;
use super::{Answer, View};
use crate::base::Span;
use crate::lsp::knowledge::{About, Frame, Mention, Names, bound, mention_at, ranges, resolved};
use crate::lsp::uri;
use crate::recipe::functions::FUNCTIONS;
use crate::recipe::schema::Doc;
use crate::recipe::units::measure;
use crate::recipe::{Layer, Resolved, item_schema};
use crate::syntax::tree::{Item, Let};
use lsp_types::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

pub fn hover(view: &View, params: HoverParams) -> Answer<Option<Hover>> {
    let names = Names::of(&view.project);
    let offset = view.offset(params.text_document_position_params.position);
    let Some(mention) = mention_at(&names, view.file, offset) else { return Ok(None) };
    let parts = about(view, &names, &mention);
    Ok((!parts.is_empty()).then(|| Hover {
        contents: MarkupContent { kind: MarkupKind::Markdown, value: parts.join("\n\n") }.into(),
        range: Some(view.range(mention.span)),
    }))
}

fn profile_doc() -> String {
    let field = item_schema("recipe").and_then(|schema| schema.field("profile"));
    field.map(|field| paragraph(field.doc)).unwrap_or_default()
}

/// Paragraphs of Markdown.
fn about(view: &View, names: &Names<'_>, mention: &Mention<'_>) -> Vec<String> {
    match &mention.about {
        About::Path { text, used } => path(view, text, *used),
        About::Item { kind, name } => item(view, names, kind, name),
        About::Block(frame) => block(view, frame),
        About::Named(frame) => named(view, frame),
        About::Field(frame, field) => field::about(view, frame, field),
        About::Profile(name) => vec![code(&format!("profile {name}")), profile_doc()],
        About::Let(item) => binding(view, item),
        About::Variable(name) => {
            vec![code(&name.text), "The number of the layer, from 0 up to `layers`.".to_owned()]
        }
        About::Word(word, doc) => vec![code(word), paragraph(*doc)],
        About::Function(index) => {
            let Some((name, takes, does)) = FUNCTIONS.get(*index) else { return Vec::new() };
            vec![code(&format!("{name}({takes})")), format!("Gives {does}.")]
        }
        About::Unit(unit) => unit_value(unit),
    }
}

fn path(view: &View, text: &str, used: bool) -> Vec<String> {
    let Some(target) = target(view, text) else {
        let missing = if text.contains('*') { "A pattern of files." } else { "There is no such file." };
        return vec![format!("`{text}`"), missing.to_owned()];
    };
    let shown = match uri::embedded(&target) {
        Some(inside) => format!("`{inside}` of the library that is part of `stepc`"),
        None => format!("`{}`", target.display()),
    };
    let holds = view.project.file(&target).filter(|_| used).and_then(|file| view.project.tree(file));
    let items = holds.into_iter().flat_map(|tree| &tree.items).filter_map(|item| match item {
        Item::Block(block) => Some(format!("- `{}`", source(view, block.head()))),
        _ => None,
    });
    let items: Vec<_> = items.collect();
    if items.is_empty() { vec![shown] } else { vec![shown, items.join("\n")] }
}

fn item(view: &View, names: &Names<'_>, kind: &str, name: &str) -> Vec<String> {
    let mut parts = vec![code(&format!("{kind} {name}"))];
    let Some(written) = names.item(kind, name) else { return parts };
    let frame = names.top(written);
    parts.extend(frame.as_ref().map(|frame| paragraph(frame.schema.doc)));
    let recipe = frame.and_then(|frame| resolved(&view.project, &frame).map(|resolved| &resolved.recipe));
    if let Some(recipe) = recipe {
        match kind {
            "model" if recipe.model.name == name => parts.push(plan::parameters(recipe)),
            "cluster" if recipe.cluster.name == name => parts.push(plan::machine(&recipe.cluster)),
            _ => {}
        }
    }
    parts.push(format!("Written in {}.", place(view, written.head())));
    parts
}

fn block(view: &View, frame: &Rc<Frame<'_>>) -> Vec<String> {
    let kind = frame.schema.kind;
    let mut parts = vec![code(kind), paragraph(frame.schema.doc)];
    let Some(resolved) = resolved(&view.project, frame) else { return parts };
    match kind {
        "parallel" => parts.extend(plan::memory(view, resolved)),
        "model" => parts.push(plan::parameters(&resolved.recipe)),
        "cluster" => parts.push(plan::machine(&resolved.recipe.cluster)),
        "train" => parts.extend(plan::training(view, resolved)),
        _ => {}
    }
    parts
}

/// A block of layers, and the layers that are made of it.
fn named(view: &View, frame: &Rc<Frame<'_>>) -> Vec<String> {
    let name = frame.path.rsplit('.').next().unwrap_or_default();
    let mut parts = vec![code(&format!("{} {name}", frame.schema.kind)), paragraph(frame.schema.doc)];
    let Some(resolved) = resolved(&view.project, frame) else { return parts };
    let blocks = resolved.recipe.model.blocks.iter().enumerate();
    let of = |layer: &Layer| match frame.schema.kind {
        "attention" => layer.attention_name == name,
        "mlp" | "moe" => layer.ffn_name == name,
        _ => false,
    };
    let layers: Vec<u64> = blocks.filter(|(_, layer)| of(layer)).map(|(index, _)| index as u64).collect();
    if !layers.is_empty() {
        let all = resolved.recipe.model.blocks.len();
        parts.push(format!("{} of {all} layers: {}", layers.len(), ranges(&layers)));
    }
    parts
}

fn binding(view: &View, item: &Let) -> Vec<String> {
    let mut parts = vec![code(&format!("let {}", source(view, item.name.span.to(item.value.span))))];
    let values = bound(&view.project, item).into_iter().map(|(profile, value)| match profile {
        None => format!("- **{value}**"),
        Some(profile) => format!("- profile `{profile}`: **{value}**"),
    });
    let values: Vec<_> = values.collect();
    if !values.is_empty() {
        parts.push(values.join("\n"));
    }
    parts
}

/// How the layers divide over the blocks that they are made of.
fn layers(resolved: &Resolved, key: &str) -> Option<String> {
    let name = |layer: &Layer| match key {
        "attention" => Some(layer.attention_name.clone()),
        "ffn" => Some(layer.ffn_name.clone()),
        _ => None,
    };
    let layers = resolved.recipe.model.blocks.iter().zip(0..);
    let named: Option<Vec<_>> = layers.map(|(layer, index)| Some((index, name(layer)?))).collect();
    let groups = by_value(named.as_deref()?).into_iter().map(|(name, layers)| {
        let (s, n) = (if layers.len() == 1 { "" } else { "s" }, layers.len());
        format!("- **{name}** in {n} layer{s}: {}", ranges(&layers))
    });
    Some(groups.collect::<Vec<_>>().join("\n"))
}

fn unit_value(unit: &str) -> Vec<String> {
    let Ok(value) = measure(1.0, unit) else { return Vec::new() };
    let shown = match value.bytes() {
        Some(bytes) => format!("{bytes} bytes"),
        None => value.to_string(),
    };
    vec![code(&format!("1{unit} = {shown}")), format!("Makes a number {}.", value.phrase())]
}

/// Layers by their value, those with the first layers first.
fn by_value(layers: &[(u64, String)]) -> Vec<(&str, Vec<u64>)> {
    let mut groups: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for (layer, value) in layers {
        groups.entry(value).or_default().push(*layer);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, layers)| layers.first().copied());
    groups
}

/// A doc comment on one line.
fn paragraph(doc: Doc) -> String {
    doc.to_string().replace('\n', " ")
}

fn code(text: &str) -> String {
    format!("```step\n{text}\n```")
}

/// What is written at a place, on one line.
fn source(view: &View, span: Span) -> String {
    view.project.sources.slice(span).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A place as a link.
fn place(view: &View, span: Span) -> String {
    let sources = &view.project.sources;
    let (path, (line, _)) = (Path::new(sources.path(span.file)), sources.line_col(span));
    let name = path.file_name().map_or_else(|| path.to_string_lossy(), |name| name.to_string_lossy());
    format!("[{name}:{line}]({}#L{line})", view.snapshot.uri(path).0)
}

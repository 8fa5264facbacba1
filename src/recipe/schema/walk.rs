//! Every declared block once, for the manual and the JSON schema.

use super::{BlockSchema, ChoiceSchema, FieldSchema, Title, Type};
use crate::recipe::{LAYER, item_schema};

/// A block and where it stands.
#[derive(Debug, Clone)]
pub struct Place {
    /// `model.attention`; a choice has its word behind: `train.schedule cosine`.
    pub path: String,
    /// How it is written, without what is inside: `attention NAME`.
    pub head: String,
    pub block: &'static BlockSchema,
}

/// Items of a file and everything inside them, each before its parts.
pub fn places() -> Vec<Place> {
    let mut found = Vec::new();
    for kind in ["recipe", "model", "cluster", "device"] {
        if let Some(block) = item_schema(kind) {
            visit(kind, block, &mut found);
        }
    }
    found
}

/// The path of the block or of the words that a field of the block at `path` holds. Models, clusters and devices are items of
/// their own wherever they are used.
pub fn path_of(path: &str, field: &FieldSchema) -> String {
    match field.ty {
        Type::Block(block) | Type::Item(_, block) if item_schema(block.kind).is_some() => {
            block.kind.to_owned()
        }
        _ => format!("{path}.{}", field.key),
    }
}

fn visit(path: &str, block: &'static BlockSchema, found: &mut Vec<Place>) {
    let kind = path.rsplit('.').next().unwrap_or(path);
    let kind = kind.split(' ').next().unwrap_or(kind);
    let head = match block.title {
        Title::Nothing => kind.to_owned(),
        Title::Name => format!("{kind} NAME"),
        Title::Word(word) => format!("{kind} {word}"),
    };
    found.push(Place { path: path.to_owned(), head, block });
    for field in block.fields {
        let below = path_of(path, field);
        if below.starts_with(path) {
            inner(&below, &field.ty, found);
        }
    }
}

fn inner(path: &str, ty: &Type, found: &mut Vec<Place>) {
    match ty {
        Type::Optional(ty) => inner(path, ty, found),
        Type::Block(block) | Type::Named(block) => visit(path, block, found),
        Type::Choice(ChoiceSchema { words, .. }) => {
            for word in *words {
                if let Some(block) = word.block {
                    visit(&format!("{path} {}", word.word), block, found);
                }
            }
        }
        Type::Layers => visit(path, const { &LAYER }, found),
        _ => {}
    }
}

//! The shape of a schema: blocks, fields, types, bounds, words. Data only; the macros of
//! `declare` fill it in.

use std::fmt;

/// One kind of block.
#[derive(Debug, Clone, Copy)]
pub struct BlockSchema {
    /// The word a block of this kind begins with.
    pub kind: &'static str,
    pub title: Title,
    pub doc: Doc,
    pub fields: &'static [FieldSchema],
}

impl BlockSchema {
    /// The field or block called `key`.
    pub fn field(&self, key: &str) -> Option<&'static FieldSchema> {
        self.fields.iter().find(|field| field.key == key)
    }

    /// What is written `key = value`.
    pub fn values(&self) -> impl Iterator<Item = &'static FieldSchema> + use<> {
        self.fields.iter().filter(|field| field.ty.is_value())
    }

    /// What is written `kind … { … }`.
    pub fn blocks(&self) -> impl Iterator<Item = &'static FieldSchema> + use<> {
        self.fields.iter().filter(|field| field.ty.is_block())
    }
}

/// What stands between the kind of a block and its brace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Title {
    /// Nothing: `parallel { … }`
    Nothing,
    /// A name of the user's choice: `attention full { … }`
    Name,
    /// This word: `norm rms { … }`
    Word(&'static str),
}

/// One field of a block, or one kind of block inside it.
#[derive(Debug, Clone, Copy)]
pub struct FieldSchema {
    /// The name of the field; for a block, its kind.
    pub key: &'static str,
    pub ty: Type,
    pub facts: Facts,
    /// What holds when nothing is written, as an expression of the language.
    pub default: Option<&'static str>,
    /// A value that can be referred to but not set.
    pub read_only: bool,
    pub doc: Doc,
}

impl FieldSchema {
    /// Must be written: there is no default.
    pub fn required(&self) -> bool {
        self.default.is_none()
            && !self.read_only
            && match self.ty {
                Type::Optional(_) | Type::Named(_) | Type::Profiles | Type::Name => false,
                Type::Block(block) => block.fields.iter().any(FieldSchema::required),
                _ => true,
            }
    }

    /// The type in words, with the unit: `count of tokens`.
    pub fn phrase(&self) -> String {
        self.ty.phrase(self.facts.unit)
    }
}

/// The type of a field, as far as values and messages are concerned.
#[derive(Debug, Clone, Copy)]
pub enum Type {
    Count,
    Float,
    /// A share: `0.22` or `22%`.
    Ratio,
    Bool,
    Text,
    /// A file or folder, relative to the file that wrote it.
    Path,
    Size,
    /// Bytes a second, written as a size.
    Rate,
    Duration,
    Words(&'static [WordSchema]),
    WordOrPath(&'static [WordSchema]),
    /// So many values in brackets, or any number of them.
    List(&'static Type, Option<usize>),
    /// The type, or the word `none`; for a block, it may be absent.
    Optional(&'static Type),
    /// The name of a block beside it, of one of these kinds.
    Reference(&'static [&'static str]),
    /// The name of a top-level item of this kind.
    Item(&'static str, &'static BlockSchema),
    /// The block's own name.
    Name,
    Block(&'static BlockSchema),
    Choice(&'static ChoiceSchema),
    /// Any number of blocks, told apart by their names.
    Named(&'static BlockSchema),
    /// `layer i { … }`, evaluated once a layer.
    Layers,
    /// `profile NAME for DEVICE { … }`: any part of a recipe, laid over it.
    Profiles,
}

impl Type {
    /// Written with braces.
    pub fn is_block(&self) -> bool {
        match self {
            Type::Optional(inner) => inner.is_block(),
            Type::Block(_) | Type::Choice(_) | Type::Named(_) | Type::Layers | Type::Profiles => true,
            _ => false,
        }
    }

    /// Written behind an equals sign.
    pub fn is_value(&self) -> bool {
        !self.is_block() && !matches!(self, Type::Name)
    }

    /// The words that are values of this type.
    pub fn words(&self) -> &'static [WordSchema] {
        match self {
            Type::Words(words) | Type::WordOrPath(words) => words,
            Type::Optional(inner) => inner.words(),
            Type::List(inner, _) => inner.words(),
            _ => &[],
        }
    }

    /// Names a block or an item: a bare word is such a name, unless a `let` has it.
    pub fn is_reference(&self) -> bool {
        matches!(self, Type::Reference(_) | Type::Item(..))
    }

    /// Whether a bare `word` is a value of this type, and not a reference to one.
    pub fn takes_word(&self, word: &str) -> bool {
        match self {
            Type::Optional(inner) => word == "none" || inner.takes_word(word),
            Type::Reference(_) | Type::Item(..) => true,
            _ => self.words().iter().any(|known| known.word == word),
        }
    }

    /// What a block called `word` (or nothing) of this type holds.
    pub fn body(&self, word: Option<&str>) -> Option<&'static BlockSchema> {
        match self {
            Type::Optional(inner) => inner.body(word),
            Type::Block(block) | Type::Named(block) | Type::Item(_, block) => Some(block),
            Type::Choice(choice) => choice.words.iter().find(|known| Some(known.word) == word)?.block,
            _ => None,
        }
    }

    /// The type in words, without an article.
    pub fn phrase(&self, unit: &str) -> String {
        let of = |what: &str| if unit.is_empty() { what.to_owned() } else { format!("{what} of {unit}") };
        match self {
            Type::Count if unit.is_empty() => "whole number".to_owned(),
            Type::Count => of("count"),
            Type::Float => of("number"),
            Type::Ratio => "ratio".to_owned(),
            Type::Bool => "`true` or `false`".to_owned(),
            Type::Text => "text".to_owned(),
            Type::Path => "path".to_owned(),
            Type::Size => "size in bytes".to_owned(),
            Type::Rate => "size in bytes a second".to_owned(),
            Type::Duration => "duration".to_owned(),
            Type::Words(words) => format!("one of {}", list(words)),
            Type::WordOrPath(words) => format!("path or {}", list(words)),
            Type::List(inner, Some(length)) => format!("list of {length}, each a {}", inner.phrase(unit)),
            Type::List(inner, None) => format!("list, each a {}", inner.phrase(unit)),
            Type::Optional(inner) if inner.is_block() => inner.phrase(unit),
            Type::Optional(inner) => format!("{} or `none`", inner.phrase(unit)),
            Type::Reference(kinds) => format!("name of a block ({})", kinds.join(" or ")),
            Type::Item(kind, _) => format!("name of a {kind}"),
            Type::Name => "name".to_owned(),
            Type::Block(block) | Type::Named(block) => format!("`{}` block", block.kind),
            Type::Choice(choice) => format!("`{}` block", choice.kind),
            Type::Layers => "`layer` block".to_owned(),
            Type::Profiles => "`profile` block".to_owned(),
        }
    }
}

fn list(words: &[WordSchema]) -> String {
    words.iter().map(|known| format!("`{}`", known.word)).collect::<Vec<_>>().join(", ")
}

/// A word that stands for a value.
#[derive(Debug, Clone, Copy)]
pub struct WordSchema {
    pub word: &'static str,
    pub doc: Doc,
}

/// A block that comes in several kinds, told by the word behind its kind: `schedule cosine { … }`.
#[derive(Debug, Clone, Copy)]
pub struct ChoiceSchema {
    pub kind: &'static str,
    pub doc: Doc,
    pub words: &'static [ChoiceWord],
}

/// One way to write a choice.
#[derive(Debug, Clone, Copy)]
pub struct ChoiceWord {
    pub word: &'static str,
    pub doc: Doc,
    /// `None` where the word stands alone.
    pub block: Option<&'static BlockSchema>,
}

/// Unit and bounds of a field.
#[derive(Debug, Clone, Copy, Default)]
pub struct Facts {
    /// What is counted: `tokens`.
    pub unit: &'static str,
    pub min: Option<Bound>,
    pub max: Option<Bound>,
}

/// One end of the allowed values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    pub value: f64,
    /// The value itself is not allowed.
    pub open: bool,
}

/// Built up field by field in a declaration: `{ unit("tokens"), at_least(1.0) }`.
impl Facts {
    /// Neither unit nor bounds.
    pub const NONE: Facts = Facts { unit: "", min: None, max: None };

    /// With a unit.
    pub const fn unit(self, unit: &'static str) -> Self {
        Facts { unit, ..self }
    }

    /// With `value` as the smallest allowed.
    pub const fn at_least(self, value: f64) -> Self {
        Facts { min: Some(Bound { value, open: false }), ..self }
    }

    /// With everything over `value` allowed.
    pub const fn more_than(self, value: f64) -> Self {
        Facts { min: Some(Bound { value, open: true }), ..self }
    }

    /// With `value` as the largest allowed.
    pub const fn at_most(self, value: f64) -> Self {
        Facts { max: Some(Bound { value, open: false }), ..self }
    }

    /// With everything under `value` allowed.
    pub const fn less_than(self, value: f64) -> Self {
        Facts { max: Some(Bound { value, open: true }), ..self }
    }

    /// Whether `value` lies within the bounds.
    pub fn allow(&self, value: f64) -> bool {
        let above = self.min.is_none_or(|b| if b.open { value > b.value } else { value >= b.value });
        let below = self.max.is_none_or(|b| if b.open { value < b.value } else { value <= b.value });
        above && below && !value.is_nan()
    }

    /// The bounds in words: `more than 0 and at most 1`; empty without bounds.
    pub fn bounds(&self) -> String {
        let min = self.min.map(|b| format!("{} {}", if b.open { "more than" } else { "at least" }, b.value));
        let max = self.max.map(|b| format!("{} {}", if b.open { "less than" } else { "at most" }, b.value));
        [min, max].into_iter().flatten().collect::<Vec<_>>().join(" and ")
    }
}

/// The lines of a doc comment.
#[derive(Debug, Clone, Copy)]
pub struct Doc(pub &'static [&'static str]);

impl fmt::Display for Doc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, line) in self.0.iter().enumerate() {
            let break_ = if index == 0 { "" } else { "\n" };
            write!(f, "{break_}{}", line.strip_prefix(' ').unwrap_or(line))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::FileId;
    use crate::diag::Sink;
    use crate::recipe::{LAYER, item_schema};
    use crate::syntax::parse_assignment;

    fn check(block: &BlockSchema) {
        assert!(!block.doc.0.is_empty(), "{} says nothing", block.kind);
        for (index, field) in block.fields.iter().enumerate() {
            let name = format!("{}.{}", block.kind, field.key);
            assert!(!field.doc.0.is_empty(), "{name} says nothing");
            assert!(block.fields[..index].iter().all(|other| other.key != field.key), "{name} stands twice");
            if let Some(text) = field.default {
                let mut sink = Sink::default();
                let parsed = parse_assignment(FileId(0), &format!("default = {text}"), &mut sink);
                assert!(parsed.is_some() && sink.is_empty(), "{name} = {text}");
            }
            let choices = match field.ty {
                Type::Choice(choice) => choice.words,
                _ => &[],
            };
            let inner = choices.iter().filter_map(|word| word.block);
            inner.chain(field.ty.body(None)).for_each(check);
        }
    }

    #[test]
    fn every_declaration_is_documented_and_its_defaults_are_expressions() {
        for kind in ["recipe", "model", "cluster", "device"] {
            check(item_schema(kind).unwrap());
        }
        check(&LAYER);
    }
}

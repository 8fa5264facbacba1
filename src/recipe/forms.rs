//! The forms in which fields are written: numbers, words, sizes, paths, names of other blocks, named blocks.

use super::declare::{Block, Member};
use super::items::unknown_item;
use super::reader::{Reader, read};
use super::schema::model::{Attention, Ffn, Mlp, Moe, Mtp, Weights};
use super::schema::{Doc, FieldSchema, Type, WordSchema};
use super::value::Value;
use crate::base::DType;
use indexmap::IndexMap;
use std::marker::PhantomData;
use std::path::PathBuf;

pub use super::layers::{Layers, attention_block, ffn_block};

/// A form that is one value: the value's type, and the pattern that gives what the struct holds.
macro_rules! form {
    ($($form:ty => $out:ty, $ty:expr, $pattern:pat => $give:expr;)*) => { $(
        impl Member for $form {
            type Out = $out;
            const TYPE: Type = $ty;

            fn read(at: &mut Reader<'_, '_, '_>, field: &'static FieldSchema) -> Option<$out> {
                match at.value(field)? { $pattern => $give, _ => None }
            }
        }
    )* };
}

/// A size in bytes.
pub struct Size;
/// Bytes a second, written as a size.
pub struct Rate;
/// A duration, held in seconds.
pub struct Seconds;
/// A share of one: `0.7` or `70%`.
pub struct Ratio;

form! {
    u64 => u64, Type::Count, Value::Int(n) => u64::try_from(n).ok();
    f64 => f64, Type::Float, Value::Float(x) => Some(x);
    bool => bool, Type::Bool, Value::Bool(value) => Some(value);
    String => String, Type::Text, Value::Text(text, _) => Some(text);
    PathBuf => PathBuf, Type::Path, Value::Path(path) => Some(path);
    Size => u64, Type::Size, Value::Size(bytes) => u64::try_from(bytes).ok();
    Rate => f64, Type::Rate, Value::Size(bytes) => Some(bytes as f64);
    Seconds => f64, Type::Duration, Value::Duration(seconds) => Some(seconds);
    Ratio => f64, Type::Ratio, Value::Float(share) => Some(share);
    [f64; 2] => [f64; 2], Type::List(&Type::Float, Some(2)), Value::List(items) => match items.as_slice() {
        [Value::Float(first), Value::Float(second)] => Some([*first, *second]),
        _ => None,
    };
    Vec<f64> => Vec<f64>, Type::List(&Type::Float, None), Value::List(items) => {
        items.iter().map(|item| if let Value::Float(x) = item { Some(*x) } else { None }).collect()
    };
    DType => DType, Type::Words(DTYPES), Value::Word(word) => {
        [DType::F32, DType::Bf16, DType::F16].into_iter().find(|dtype| dtype.word() == word)
    };
    Weights => Weights, Type::WordOrPath(WEIGHTS), value @ (Value::Path(_) | Value::Word(_)) => match value {
        Value::Path(folder) => Some(Weights::Folder(folder)),
        _ => Some(Weights::Scratch),
    };
}

const DTYPES: &[WordSchema] = &[
    WordSchema { word: "f32", doc: Doc(&[" IEEE single precision."]) },
    WordSchema { word: "bf16", doc: Doc(&[" The upper half of f32."]) },
    WordSchema { word: "f16", doc: Doc(&[" IEEE half precision."]) },
];

const WEIGHTS: &[WordSchema] = &[WordSchema { word: "scratch", doc: Doc(&[" Drawn at random."]) }];

impl<T: Member> Member for Option<T> {
    type Out = Option<T::Out>;
    const TYPE: Type = Type::Optional(&T::TYPE);

    fn read(at: &mut Reader<'_, '_, '_>, field: &'static FieldSchema) -> Option<Self::Out> {
        if at.is_none(field) { Some(None) } else { T::read(at, field).map(Some) }
    }
}

/// The block's own name.
pub struct Name;

impl Member for Name {
    type Out = String;
    const TYPE: Type = Type::Name;

    fn read(at: &mut Reader<'_, '_, '_>, _: &'static FieldSchema) -> Option<String> {
        Some(at.at.node.name_text().unwrap_or_default().to_owned())
    }
}

/// Any number of blocks, by name, in the order they are written.
pub struct Named<B>(PhantomData<B>);

impl<B: Block> Member for Named<B> {
    type Out = IndexMap<String, B>;
    const TYPE: Type = Type::Named(&B::SCHEMA);

    fn read(at: &mut Reader<'_, '_, '_>, field: &'static FieldSchema) -> Option<Self::Out> {
        let blocks = at.at.node.blocks.iter().filter(|block| block.kind == field.key && !block.is_none());
        let read: Vec<_> =
            blocks.map(|block| Some((block.name_text()?.to_owned(), read(at.eval, block, at.at)?))).collect();
        read.into_iter().collect()
    }
}

/// The name of a top-level item.
pub struct Item<B>(PhantomData<B>);

impl<B: Block> Member for Item<B> {
    type Out = B;
    const TYPE: Type = Type::Item(B::SCHEMA.kind, &B::SCHEMA);

    fn read(at: &mut Reader<'_, '_, '_>, field: &'static FieldSchema) -> Option<B> {
        let name = at.word(field)?;
        let world = at.eval.world;
        let Some(node) = world.devices.get(name.as_str()) else {
            let place = at.place(field);
            at.eval.sink.push(unknown_item(B::SCHEMA.kind, &name, place, world.devices.keys().copied()));
            return None;
        };
        read(at.eval, node, at.at)
    }
}

/// The name of an `attention` block of the model.
pub struct AttentionRef;

impl Member for AttentionRef {
    type Out = Attention;
    const TYPE: Type = Type::Reference(&["attention"]);

    fn read(at: &mut Reader<'_, '_, '_>, field: &'static FieldSchema) -> Option<Attention> {
        let name = at.word(field)?;
        let place = at.place(field);
        let model = at.at.outer?;
        let node = attention_block(at.eval, model, &name, place)?;
        read(at.eval, node, model)
    }
}

/// The name of an `mlp` or `moe` block of the model.
pub struct FfnRef;

impl Member for FfnRef {
    type Out = Ffn;
    const TYPE: Type = Type::Reference(&["mlp", "moe"]);

    fn read(at: &mut Reader<'_, '_, '_>, field: &'static FieldSchema) -> Option<Ffn> {
        let name = at.word(field)?;
        let place = at.place(field);
        let model = at.at.outer?;
        let node = ffn_block(at.eval, model, &name, place)?;
        if node.kind == "moe" {
            read::<Moe>(at.eval, node, model).map(Ffn::Moe)
        } else {
            read::<Mlp>(at.eval, node, model).map(Ffn::Dense)
        }
    }
}

/// The `mtp` block; one of no layers is none.
pub struct MtpBlock;

impl Member for MtpBlock {
    type Out = Option<Mtp>;
    const TYPE: Type = <Option<Mtp> as Member>::TYPE;

    fn read(at: &mut Reader<'_, '_, '_>, field: &'static FieldSchema) -> Option<Option<Mtp>> {
        let mtp = <Option<Mtp> as Member>::read(at, field)?;
        Some(mtp.filter(|mtp| mtp.layers > 0))
    }
}

/// `profile` blocks, which are laid over the recipe before it is read.
pub struct Profiles;

impl Member for Profiles {
    type Out = ();
    const TYPE: Type = Type::Profiles;

    fn read(_: &mut Reader<'_, '_, '_>, _: &'static FieldSchema) -> Option<()> {
        Some(())
    }
}

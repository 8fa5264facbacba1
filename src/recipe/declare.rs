//! The one declaration: `block!`, `choice!` and `words!`, each giving a Rust type, its schema and its checked extraction.
//!
//! ```text
//! block! {
//!     /// How the work is divided.
//!     pub struct Parallel("parallel") {
//!         /// Devices over which parameters are sharded.
//!         fsdp: u64 { unit("devices"), at_least(1.0) } = cluster.devices,
//!     }
//! }
//! ```
//!
//! A field reads `key: type { facts } = default`. The default is an expression of the recipe language and is evaluated as
//! one, so the text in the manual is the text that runs; a field without one must be written. `field("key")` gives the
//! recipe another word than the struct, `type as Form` reads the type through another form (`u64 as Size`). A section
//! `also { … }` declares what may be written without being a field of the struct, `derived { … }` what may be referred to.
//! A new block needs nothing else anywhere.

use super::reader::Reader;
use super::schema::{BlockSchema, FieldSchema, Type};

/// A type that is read from a block.
pub trait Block: Sized {
    const SCHEMA: BlockSchema;

    /// Reads every field, reporting all that is wrong; `None` if anything was.
    fn read(at: &mut Reader<'_, '_, '_>) -> Option<Self>;
}

/// A form in which a field can be written.
pub trait Member {
    /// What the struct holds.
    type Out;
    const TYPE: Type;

    /// Reads the field `field` of the block at hand; `None` if it is missing or wrong, which has then been reported.
    fn read(at: &mut Reader<'_, '_, '_>, field: &'static FieldSchema) -> Option<Self::Out>;
}

/// The first argument, or the second where there is one: a field's own key or form goes before the implied one.
macro_rules! either {
    (key $implied:ident) => {
        stringify!($implied)
    };
    (key $implied:ident $own:literal) => {
        $own
    };
    (form $implied:ty) => {
        $implied
    };
    (form $implied:ty, $own:ty) => {
        $own
    };
    (title) => {
        $crate::recipe::schema::Title::Nothing
    };
    (title $own:expr) => {
        $own
    };
    (default) => {
        None
    };
    (default $text:expr) => {
        Some(stringify!($text))
    };
}

/// One [`FieldSchema`].
macro_rules! field {
    ($key:expr, $form:ty, [$($doc:literal)*], [$($fact:ident($arg:expr))*], $default:expr, $read_only:literal) => {
        $crate::recipe::schema::FieldSchema {
            key: $key,
            ty: <$form as $crate::recipe::declare::Member>::TYPE,
            facts: $crate::recipe::schema::Facts::NONE $(.$fact($arg))*,
            default: $default,
            read_only: $read_only,
            doc: $crate::recipe::schema::Doc(&[$($doc),*]),
        }
    };
}

/// Declares a block; see the head of this file.
macro_rules! block {
    (
        $(#[doc = $doc:literal])*
        pub struct $name:ident($kind:literal $(, $title:expr)?) {
            $(
                $(#[doc = $field_doc:literal])*
                $field:ident $(($key:literal))? : $ty:ty $(as $form:ty)? $({ $($fact:ident($arg:expr)),* })? $(= $default:expr)?,
            )*
        }
        $(also {
            $(
                $(#[doc = $also_doc:literal])*
                $also:ident : $also_form:ty $({ $($also_fact:ident($also_arg:expr)),* })? $(= $also_default:expr)?,
            )*
        })?
        $(derived {
            $(
                $(#[doc = $derived_doc:literal])*
                $derived:ident : $derived_form:ty = $derived_default:expr,
            )*
        })?
    ) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        pub struct $name {
            $( $(#[doc = $field_doc])* pub $field: $ty, )*
        }

        impl $crate::recipe::declare::Block for $name {
            const SCHEMA: $crate::recipe::schema::BlockSchema = $crate::recipe::schema::BlockSchema {
                kind: $kind,
                title: either!(title $($title)?),
                doc: $crate::recipe::schema::Doc(&[$($doc),*]),
                fields: &[
                    $(field!(
                        either!(key $field $($key)?), either!(form $ty $(, $form)?), [$($field_doc)*],
                        [$($($fact($arg))*)?], either!(default $($default)?), false
                    ),)*
                    $($(field!(
                        stringify!($also), $also_form, [$($also_doc)*],
                        [$($($also_fact($also_arg))*)?], either!(default $($also_default)?), false
                    ),)*)?
                    $($(field!(
                        stringify!($derived), $derived_form, [$($derived_doc)*], [], either!(default $derived_default), true
                    ),)*)?
                ],
            };

            fn read(at: &mut $crate::recipe::reader::Reader<'_, '_, '_>) -> Option<Self> {
                let mut fields = Self::SCHEMA.fields.iter();
                $( let $field = fields.next()
                    .and_then(|field| <either!(form $ty $(, $form)?) as $crate::recipe::declare::Member>::read(at, field)); )*
                $($(
                    if let Some(field) = fields.next().filter(|field| at.holds(field)) {
                        <$also_form as $crate::recipe::declare::Member>::read(at, field)?;
                    }
                )*)?
                Some($name { $($field: $field?),* })
            }
        }

        impl $crate::recipe::declare::Member for $name {
            type Out = Self;
            const TYPE: $crate::recipe::schema::Type =
                $crate::recipe::schema::Type::Block(&<$name as $crate::recipe::declare::Block>::SCHEMA);

            fn read(
                at: &mut $crate::recipe::reader::Reader<'_, '_, '_>,
                field: &'static $crate::recipe::schema::FieldSchema,
            ) -> Option<Self> {
                at.block(field)
            }
        }
    };
}

/// Declares a block of which the word behind the kind says what it holds: `word => Variant(Body)`, or `word => Variant`.
macro_rules! choice {
    (
        $(#[doc = $doc:literal])*
        pub enum $name:ident($kind:literal) {
            $( $(#[doc = $word_doc:literal])* $word:ident => $variant:ident $(($body:ty))?, )*
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $( $(#[doc = $word_doc])* $variant $(($body))?, )*
        }

        impl $name {
            const CHOICE: $crate::recipe::schema::ChoiceSchema = $crate::recipe::schema::ChoiceSchema {
                kind: $kind,
                doc: $crate::recipe::schema::Doc(&[$($doc),*]),
                words: &[$($crate::recipe::schema::ChoiceWord {
                    word: stringify!($word),
                    doc: $crate::recipe::schema::Doc(&[$($word_doc),*]),
                    block: choice!(schema $($body)?),
                }),*],
            };
        }

        impl $crate::recipe::declare::Member for $name {
            type Out = Self;
            const TYPE: $crate::recipe::schema::Type = $crate::recipe::schema::Type::Choice(&$name::CHOICE);

            fn read(
                at: &mut $crate::recipe::reader::Reader<'_, '_, '_>,
                field: &'static $crate::recipe::schema::FieldSchema,
            ) -> Option<Self> {
                let word = at.choice(field, &Self::CHOICE)?;
                match word {
                    $( stringify!($word) => choice!(read at field $name $variant $($body)?), )*
                    _ => None,
                }
            }
        }
    };
    (schema) => { None };
    (schema $body:ty) => { Some(&<$body as $crate::recipe::declare::Block>::SCHEMA) };
    (read $at:ident $field:ident $name:ident $variant:ident) => { Some($name::$variant) };
    (read $at:ident $field:ident $name:ident $variant:ident $body:ty) => {
        $at.block::<$body>($field).map($name::$variant)
    };
}

/// Declares the words that are the values of a field: `word => Variant`.
macro_rules! words {
    (
        $(#[doc = $doc:literal])*
        pub enum $name:ident { $( $(#[doc = $word_doc:literal])* $word:ident => $variant:ident, )* }
    ) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $( $(#[doc = $word_doc])* $variant, )*
        }

        impl $name {
            pub const WORDS: &'static [$crate::recipe::schema::WordSchema] = &[$(
                $crate::recipe::schema::WordSchema {
                    word: stringify!($word),
                    doc: $crate::recipe::schema::Doc(&[$($word_doc),*]),
                }
            ),*];

            /// The word used in recipes.
            pub fn word(self) -> &'static str {
                match self { $( $name::$variant => stringify!($word), )* }
            }

            /// The value that `word` stands for.
            pub fn from_word(word: &str) -> Option<Self> {
                match word { $( stringify!($word) => Some($name::$variant), )* _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.word())
            }
        }

        impl $crate::recipe::declare::Member for $name {
            type Out = Self;
            const TYPE: $crate::recipe::schema::Type = $crate::recipe::schema::Type::Words($name::WORDS);

            fn read(
                at: &mut $crate::recipe::reader::Reader<'_, '_, '_>,
                field: &'static $crate::recipe::schema::FieldSchema,
            ) -> Option<Self> {
                at.word(field).and_then(|word| $name::from_word(&word))
            }
        }
    };
}

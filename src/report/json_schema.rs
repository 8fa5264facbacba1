//! The blocks of the language as JSON Schema (draft 2020-12), from the declarations that also check recipes.
//!
//! A block is an object, blocks told apart by name an object of objects, a choice an object with one of its words as the only
//! key. Values are literal: what a recipe computes with an expression stands here as its result.

use crate::recipe::item_schema;
use crate::recipe::schema::{BlockSchema, ChoiceSchema, Doc, Facts, FieldSchema, Type, path_of, places};
use crate::recipe::units::{UNITS, measure};
use serde_json::{Map, Value, json};

/// The whole schema; its root is a file: items by kind and name.
pub fn json_schema() -> Value {
    let mut definitions = Map::new();
    for place in places() {
        definitions.insert(place.path.clone(), block(&place.path, place.block));
    }
    let kinds = ["recipe", "model", "cluster", "device"].into_iter().filter_map(|kind| {
        let schema = item_schema(kind)?;
        Some((kind.to_owned(), by_name(kind, schema.doc)))
    });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A file of the .step language",
        "description": "Items by kind and name. Blocks are objects, a choice is an object with its word as the only key; \
            values are literal.",
        "type": "object",
        "properties": kinds.collect::<Map<_, _>>(),
        "additionalProperties": false,
        "$defs": definitions,
    })
}

fn reference(path: &str) -> Value {
    // A path stands in a URI fragment, where a blank has to be escaped.
    json!({ "$ref": format!("#/$defs/{}", path.replace(' ', "%20")) })
}

fn by_name(path: &str, doc: Doc) -> Value {
    json!({ "description": doc.to_string(), "type": "object", "additionalProperties": reference(path) })
}

fn block(path: &str, block: &BlockSchema) -> Value {
    let mut properties = Map::new();
    for field in block.fields.iter().filter(|field| !matches!(field.ty, Type::Name)) {
        properties.insert(field.key.to_owned(), property(path, field));
    }
    json!({
        "description": block.doc.to_string(),
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    })
}

fn property(path: &str, field: &FieldSchema) -> Value {
    let target = path_of(path, field);
    let mut schema = match field.ty {
        Type::Block(_) | Type::Layers => reference(&target),
        Type::Optional(inner) if inner.is_block() => reference(&target),
        Type::Named(_) => by_name(&target, field.doc),
        Type::Choice(choice) => choice_of(&target, choice),
        Type::Profiles => by_name("recipe", field.doc),
        ty => value(&ty, &field.facts),
    };
    schema["description"] = field.doc.to_string().into();
    if let Some(text) = field.default {
        // A default that is an expression has no literal form.
        let literal = serde_json::from_str(text).ok();
        let word = field.ty.takes_word(text).then(|| Value::from(text));
        let key = if field.read_only { "x-derived" } else { "x-default" };
        match literal.or(word) {
            Some(literal) => schema["default"] = literal,
            None => schema[key] = text.into(),
        }
    }
    if field.read_only {
        schema["readOnly"] = true.into();
    }
    if !field.facts.unit.is_empty() {
        schema["x-unit"] = field.facts.unit.into();
    }
    schema
}

fn choice_of(path: &str, choice: &ChoiceSchema) -> Value {
    let words = choice.words.iter().map(|word| match word.block {
        Some(_) => json!({
            "type": "object",
            "properties": { word.word: reference(&format!("{path} {}", word.word)) },
            "required": [word.word],
            "additionalProperties": false,
        }),
        None => json!({ "const": word.word, "description": word.doc.to_string() }),
    });
    json!({ "oneOf": words.collect::<Vec<_>>() })
}

fn value(ty: &Type, facts: &Facts) -> Value {
    match ty {
        Type::Count => either(bounded("integer", facts), "a whole number"),
        Type::Float => either(bounded("number", facts), "a whole number"),
        Type::Ratio => either(bounded("number", facts), "a ratio"),
        Type::Bool => json!({ "type": "boolean" }),
        Type::Size | Type::Rate => with_unit("a size in bytes"),
        Type::Duration => with_unit("a duration"),
        Type::Words(words) => {
            let words =
                words.iter().map(|word| json!({ "const": word.word, "description": word.doc.to_string() }));
            json!({ "oneOf": words.collect::<Vec<_>>() })
        }
        Type::List(inner, length) => {
            let items = value(inner, facts);
            match length {
                Some(length) => {
                    json!({ "type": "array", "items": items, "minItems": length, "maxItems": length })
                }
                None => json!({ "type": "array", "items": items }),
            }
        }
        Type::Optional(inner) => json!({ "anyOf": [value(inner, facts), { "const": "none" }] }),
        _ => json!({ "type": "string" }),
    }
}

/// A number, or one with a unit of a kind.
fn either(number: Value, kind: &str) -> Value {
    json!({ "anyOf": [number, with_unit(kind)] })
}

fn with_unit(kind: &str) -> Value {
    let of_kind = |unit: &&&str| measure(1.0, unit).is_ok_and(|value| value.phrase() == kind);
    let units: Vec<&str> = UNITS.iter().filter(of_kind).copied().collect();
    json!({ "type": "string", "pattern": format!("^[0-9][0-9_]*(\\.[0-9]+)?({})$", units.join("|")) })
}

fn bounded(number: &str, facts: &Facts) -> Value {
    let mut schema = json!({ "type": number });
    let lowest = if number == "integer" { Some((0.0, false)) } else { None };
    if let Some((value, open)) = facts.min.map(|bound| (bound.value, bound.open)).or(lowest) {
        schema[if open { "exclusiveMinimum" } else { "minimum" }] = figure(value);
    }
    if let Some(bound) = facts.max {
        schema[if bound.open { "exclusiveMaximum" } else { "maximum" }] = figure(bound.value);
    }
    schema
}

/// A bound without a fraction as a whole number.
fn figure(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 9e15 { json!(value as i64) } else { json!(value) }
}

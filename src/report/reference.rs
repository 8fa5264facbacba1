//! The reference manual, `docs/reference.md`: generated from the declarations that also check recipes.

use crate::recipe::functions::FUNCTIONS;
use crate::recipe::schema::{Doc, FieldSchema, Place, Type, WordSchema, path_of, places};
use crate::recipe::units::{UNITS, measure};
use std::fmt::Write;

const HEAD: &str = "\
# Reference of the `.step` language

Every block and field, with type, default, bounds and meaning. Generated from the declarations in the code by
`stepc schema --markdown`; a test fails where this file is stale. The rules of the language are in [language.md](language.md).

A field without a default must be written. A default is an expression and is evaluated as one.
";

/// The whole manual in Markdown.
pub fn reference() -> String {
    let mut out = HEAD.to_owned();
    let places = places();
    out += "\n## Contents\n\n";
    for place in &places {
        let depth = place.path.matches('.').count();
        let _ = writeln!(out, "{}- [`{}`](#{})", "  ".repeat(depth), place.path, anchor(&place.path));
    }
    out += "- [Functions](#functions)\n- [Units](#units)\n";
    for place in &places {
        block(&mut out, place);
    }
    functions(&mut out);
    units(&mut out);
    out
}

fn block(out: &mut String, place: &Place) {
    let level = if place.path.contains('.') { "###" } else { "##" };
    let _ = writeln!(out, "\n{level} `{}`\n", place.path);
    let _ = writeln!(out, "`{} {{ … }}`: {}", place.head, flat(place.block.doc));
    let values: Vec<_> = place.block.values().collect();
    if !values.is_empty() {
        out.push_str("\n| field | type | default | bounds | meaning |\n| --- | --- | --- | --- | --- |\n");
        for field in &values {
            value(out, field);
        }
    }
    let blocks: Vec<_> = place.block.blocks().collect();
    if !blocks.is_empty() {
        out.push_str("\n| block | how often | meaning |\n| --- | --- | --- |\n");
        for field in blocks {
            inner(out, &place.path, field);
        }
    }
    for field in values {
        words(out, field.key, field.ty.words());
    }
}

fn value(out: &mut String, field: &FieldSchema) {
    let default = match (field.read_only, field.default) {
        (true, Some(text)) => format!("derived: `{text}`"),
        (false, Some(text)) => format!("`{text}`"),
        (_, None) => "must be written".to_owned(),
    };
    let (key, bounds, doc) = (field.key, field.facts.bounds(), flat(field.doc));
    let ty = if field.ty.words().is_empty() { field.phrase() } else { word_type(&field.ty) };
    let _ = writeln!(out, "| `{key}` | {ty} | {} | {bounds} | {doc} |", cell(&default));
}

/// Words have a list of their own below the table.
fn word_type(ty: &Type) -> String {
    match ty {
        Type::Optional(inner) => format!("{} or `none`", word_type(inner)),
        Type::WordOrPath(_) => "path or word".to_owned(),
        _ => "word".to_owned(),
    }
}

fn inner(out: &mut String, path: &str, field: &FieldSchema) {
    let target = path_of(path, field);
    let (often, links) = match field.ty {
        Type::Choice(choice) => {
            let words = choice.words.iter().map(|word| {
                let title = format!("{} {}", choice.kind, word.word);
                match word.block {
                    Some(_) => format!("[`{title}`](#{})", anchor(&format!("{target} {}", word.word))),
                    None => format!("`{title}`"),
                }
            });
            let often = match field.default {
                Some(word) => format!("once; else `{} {word}`", choice.kind),
                None => "once".to_owned(),
            };
            (often, words.collect::<Vec<_>>().join(", "))
        }
        ty => {
            let often = match ty {
                Type::Optional(_) => "once or not at all",
                Type::Named(_) | Type::Profiles => "any number, by name",
                _ if field.required() => "once",
                _ => "once; else its defaults",
            };
            let link = match ty {
                Type::Profiles => format!("`{}`", field.key),
                _ => format!("[`{}`](#{})", field.key, anchor(&target)),
            };
            (often.to_owned(), link)
        }
    };
    let _ = writeln!(out, "| {links} | {often} | {} |", flat(field.doc));
}

fn words(out: &mut String, key: &str, words: &[WordSchema]) {
    if words.is_empty() {
        return;
    }
    let _ = writeln!(out, "\nWords of `{key}`:\n");
    for word in words {
        let _ = writeln!(out, "- `{}`: {}", word.word, flat(word.doc));
    }
}

fn functions(out: &mut String) {
    out.push_str("\n## Functions\n\n| function | value |\n| --- | --- |\n");
    for (name, takes, does) in FUNCTIONS {
        let _ = writeln!(out, "| `{name}({takes})` | {does} |");
    }
}

fn units(out: &mut String) {
    out.push_str("\n## Units\n\nWritten right behind a number, as in `64GiB` or `0.5h`.\n\n");
    out.push_str("| unit | is | `1` of it |\n| --- | --- | --- |\n");
    for unit in UNITS {
        if let Ok(value) = measure(1.0, unit) {
            let shown = match value.bytes() {
                Some(bytes) => format!("{bytes} bytes"),
                None => value.to_string(),
            };
            let _ = writeln!(out, "| `{unit}` | {} | {shown} |", value.phrase());
        }
    }
}

/// A doc comment on one line of a table.
fn flat(doc: Doc) -> String {
    cell(&doc.to_string().replace('\n', " "))
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// The anchor that renderers make of a heading.
fn anchor(heading: &str) -> String {
    heading.chars().filter(|c| *c != '.').map(|c| if c == ' ' { '-' } else { c }).collect()
}

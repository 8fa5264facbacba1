//! Keys that are not yet set, blocks, items, and the names behind kinds.

use super::Place;
use super::items::{Items, documentation, facts};
use crate::lsp::knowledge::{Frame, LAYER_KINDS, is_item};
use crate::recipe::schema::{BlockSchema, ChoiceWord, FieldSchema, Title, Type};
use crate::recipe::{DeviceKind, item_schema, library};
use crate::syntax::TOP_KINDS;
use lsp_types::*;
use std::collections::HashSet;
use std::rc::Rc;

/// What a statement can begin with.
pub fn statements(place: &Place<'_, '_>, items: &mut Items) {
    let Some(frame) = place.frame() else {
        if place.cursor.blocks.is_empty() {
            top_level(items);
        }
        return;
    };
    let written = |key: &str| place.cursor.written.iter().any(|(known, _)| *known == key);
    if frame.schema.kind == "layer" {
        overrides(frame, items);
    }
    let fields = frame.schema.fields.iter().filter(|field| !field.read_only);
    let (needed, others): (Vec<&FieldSchema>, Vec<&FieldSchema>) =
        fields.partition(|field| field.required() && frame.profile.is_none());
    for field in needed.into_iter().chain(others) {
        match field.ty {
            Type::Name => {}
            Type::Profiles if frame.profile.is_some() => {}
            Type::Named(_) | Type::Profiles => block(frame, field, items),
            _ if written(field.key) => {}
            ty if ty.is_block() => block(frame, field, items),
            _ => key(field, items),
        }
    }
    items.snippet(CompletionItemKind::Keyword, "let", "let ${1:name} = $0").detail =
        Some("names a value".to_owned());
    match frame.schema.kind {
        "recipe" | "model" => {
            let text = "require ${1:condition}\n\telse \"${2:message}\"$0";
            items.snippet(CompletionItemKind::Keyword, "require", text).detail =
                Some("states what must hold".to_owned());
        }
        "layer" => {
            items.snippet(CompletionItemKind::Keyword, "if", "if ${1:condition} { $0 }");
        }
        _ => {}
    }
}

fn key(field: &'static FieldSchema, items: &mut Items) {
    let item = match items.followed_by() {
        Some('=') => items.word(CompletionItemKind::Property, field.key),
        _ => items.snippet(CompletionItemKind::Property, field.key, &format!("{} = $0", field.key)),
    };
    item.detail = Some(facts(field));
    item.documentation = documentation(field.doc);
}

fn block(frame: &Rc<Frame<'_>>, field: &'static FieldSchema, items: &mut Items) {
    let kind = CompletionItemKind::Struct;
    if let Type::Choice(choice) = field.ty {
        for word in choice.words {
            let label = format!("{} {}", choice.kind, word.word);
            let item = items.snippet(kind, &label, &format!("{label}{}", body_of_word(word)));
            item.detail = Some(facts(field));
            item.documentation = documentation(word.doc);
        }
        return;
    }
    let overriding = frame.profile.is_some();
    let text = match field.ty {
        Type::Layers => "layer i {\n\tattention = $1\n\tffn = $2\n}".to_owned(),
        Type::Profiles => {
            let words: Vec<_> = DeviceKind::WORDS.iter().map(|word| word.word).collect();
            format!("profile ${{1:name}} for ${{2|{}|}} {{\n\t$0\n}}", words.join(","))
        }
        ty => {
            let schema = ty.body(None);
            let title = match schema.map(|schema| schema.title) {
                Some(Title::Name) if !(overriding && is_item(field.key)) => " ${1:name}".to_owned(),
                Some(Title::Word(word)) => format!(" {word}"),
                _ => String::new(),
            };
            let first = if title.contains('$') { 2 } else { 1 };
            let copied = overriding || is_item(field.key);
            let body =
                schema.filter(|_| !copied).map_or("\n\t$0".to_owned(), |schema| required(schema, first));
            format!("{}{title} {{{body}\n}}", field.key)
        }
    };
    let item = match items.followed_by() {
        Some('{') => items.word(kind, field.key),
        _ => items.snippet(kind, field.key, &text),
    };
    item.detail = Some(format!(
        "{} {{ … }}",
        text.split(" {").next().unwrap_or(field.key).replace("${1:name}", "NAME")
    ));
    item.documentation = documentation(field.doc);
}

/// The fields that must be written, as placeholders from `first` on.
fn required(schema: &BlockSchema, first: usize) -> String {
    let needed = schema.values().filter(|field| field.required()).enumerate();
    let mut text: String =
        needed.map(|(index, field)| format!("\n\t{} = ${}", field.key, first + index)).collect();
    if text.is_empty() {
        text = "\n\t$0".to_owned();
    }
    text
}

fn body_of_word(word: &ChoiceWord) -> String {
    word.block.map_or_else(String::new, |schema| format!(" {{{}\n}}", required(schema, 1)))
}

fn top_level(items: &mut Items) {
    items.snippet(CompletionItemKind::Keyword, "use", "use \"$0\"").detail =
        Some("takes in the items of another file".to_owned());
    for kind in TOP_KINDS.iter().rev() {
        if let Some(schema) = item_schema(kind) {
            let item =
                items.snippet(CompletionItemKind::Struct, kind, &format!("{kind} ${{1:name}} {{\n\t$0\n}}"));
            item.documentation = documentation(schema.doc);
        }
    }
    items.snippet(CompletionItemKind::Keyword, "let", "let ${1:name} = $0").detail =
        Some("names a value".to_owned());
}

/// Blocks of the model that a layer can override.
fn overrides(layer: &Rc<Frame<'_>>, items: &mut Items) {
    let Some(model) = &layer.outer else { return };
    for kind in LAYER_KINDS {
        for name in model.names(kind) {
            let item = items.snippet(CompletionItemKind::Struct, name, &format!("{name} {{ $0 }}"));
            item.detail = Some(format!("{kind} {name}, in this layer"));
        }
    }
}

/// Names that can stand behind `kind`.
pub fn names(place: &Place<'_, '_>, kind: &str, items: &mut Items) {
    let Some(frame) = place.frame() else { return };
    let Some(field) = frame.schema.field(kind) else { return };
    match field.ty {
        Type::Choice(choice) => {
            for word in choice.words {
                let text = match items.followed_by() {
                    Some('{') => word.word.to_owned(),
                    _ => format!("{}{}", word.word, body_of_word(word)),
                };
                let item = items.snippet(CompletionItemKind::EnumMember, word.word, &text);
                item.documentation = documentation(word.doc);
            }
        }
        Type::Named(_) => {
            let written = place.cursor.written.iter().filter(|(own, _)| *own == kind);
            let written: HashSet<_> = written.filter_map(|(_, name)| *name).collect();
            for name in frame.names(kind) {
                if !written.contains(name) {
                    items.word(CompletionItemKind::Reference, name).detail = Some(format!("{kind} {name}"));
                }
            }
        }
        Type::Layers => {
            items.word(CompletionItemKind::Variable, "i").detail = Some("the number of the layer".to_owned());
        }
        Type::Profiles => {
            for name in frame.names("profile") {
                items.word(CompletionItemKind::Reference, name);
            }
        }
        _ if is_item(kind) => self::items(place, kind, items),
        ty => {
            if let Some(BlockSchema { title: Title::Word(word), doc, .. }) = ty.body(None) {
                items.word(CompletionItemKind::EnumMember, word).documentation = documentation(*doc);
            }
        }
    }
    if matches!(field.ty, Type::Optional(_)) {
        items.word(CompletionItemKind::EnumMember, "none").detail = Some(format!("no {kind}"));
    }
}

/// What a block can copy.
pub fn bases(place: &Place<'_, '_>, kind: &str, items: &mut Items) {
    match place.frame() {
        Some(frame) if !is_item(kind) => {
            for name in frame.names(kind) {
                items.word(CompletionItemKind::Reference, name).detail = Some(format!("{kind} {name}"));
            }
        }
        _ => self::items(place, kind, items),
    }
}

/// The devices that a profile can be for.
pub fn targets(items: &mut Items) {
    for word in DeviceKind::WORDS {
        items.word(CompletionItemKind::EnumMember, word.word).documentation = documentation(word.doc);
    }
}

/// Items of a kind: those in reach, then those of the library, which bring their `use` along.
pub fn items(place: &Place<'_, '_>, kind: &str, items: &mut Items) {
    for name in place.names.items(kind) {
        items.word(CompletionItemKind::Class, name).detail = Some(format!("{kind} {name}"));
    }
    for (path, name) in library::items(kind) {
        if items.has(name) {
            continue;
        }
        let item = items.word(CompletionItemKind::Class, name);
        item.detail = Some(format!("{kind} {name}, from the library"));
        item.additional_text_edits = Some(vec![use_line(place, path)]);
    }
}

/// The edit that adds `use "path"` behind the other ones.
fn use_line(place: &Place<'_, '_>, path: &str) -> TextEdit {
    let text = &place.view.text;
    let (mut at, mut end, mut inside) = (0, 0, false);
    for line in text.split_inclusive('\n') {
        end += line.len();
        let plain = line.trim_start_matches('\u{feff}').trim_end();
        if plain.starts_with("use ") || (at == 0 && !inside && plain.starts_with("//")) {
            at = end;
        } else if !plain.is_empty() {
            inside = true;
        }
    }
    let ending = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let before = if at > 0 && !text[..at].ends_with('\n') { ending } else { "" };
    TextEdit { range: place.view.range(at..at), new_text: format!("{before}use \"{path}\"{ending}") }
}

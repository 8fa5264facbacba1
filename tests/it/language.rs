//! The documents on the language: examples do what they claim, and generated pages are fresh.

use crate::examples::Example;
use crate::support::style;
use serde_json::Value;
use std::path::Path;
use stepc::diag::render;
use stepc::recipe::schema::places;
use stepc::report::{json_schema, reference};

#[test]
fn examples_of_the_language_page_do_what_they_claim() {
    let page = include_str!("../../docs/language.md");
    let all = Example::all(page);
    assert!(all.len() > 15);
    for example in &all {
        let (found, sources) = example.check(&[]);
        let said = render::render(&found, &sources, render::Format::Human, style());
        let codes: Vec<_> = found.iter().map(|d| d.code).collect();
        let wanted: Vec<_> = example.option("fails=").into_iter().collect();
        assert_eq!(codes, wanted, "{}\n{said}", example.text);
        if let Some((path, value)) = example.option("gives=").and_then(|claim| claim.split_once('=')) {
            assert_eq!(example.value(path).as_deref(), Some(value), "{path} in\n{}", example.text);
        }
    }
}

#[test]
fn the_reference_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference.md");
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        written == reference(),
        "docs/reference.md is stale: run `cargo run -- schema --markdown > docs/reference.md`"
    );
}

/// Links of the manual lead to its own headings.
#[test]
fn links_of_the_reference_have_targets() {
    let text = reference();
    let anchors: Vec<String> = text
        .lines()
        .filter_map(|line| line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with("##")))
        .map(|heading| heading.to_lowercase().replace(['`', '.'], "").replace(' ', "-"))
        .collect();
    let links: Vec<_> = text.split("](#").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    assert!(links.len() > 40);
    for link in links {
        assert!(anchors.iter().any(|anchor| anchor == link), "#{link}");
    }
}

#[test]
fn the_schema_names_every_block_and_every_reference_in_it_leads_somewhere() {
    let schema = json_schema();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    let definitions = schema["$defs"].as_object().unwrap();
    for place in places() {
        let properties = definitions[&place.path]["properties"].as_object().unwrap();
        for field in place.block.fields.iter().filter(|field| field.key != "name") {
            assert!(properties.contains_key(field.key), "{} {}", place.path, field.key);
        }
    }
    let mut references = Vec::new();
    collect(&schema, &mut references);
    assert!(references.len() > 30);
    for reference in references {
        let name = reference.strip_prefix("#/$defs/").unwrap().replace("%20", " ");
        assert!(definitions.contains_key(&name), "{reference}");
    }
    let ratio = &definitions["model.attention.rope"]["properties"]["fraction"];
    assert_eq!(ratio["anyOf"][0]["exclusiveMinimum"], 0);
    assert_eq!(ratio["anyOf"][0]["maximum"], 1);
}

fn collect(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                match value.as_str().filter(|_| key == "$ref") {
                    Some(reference) => found.push(reference.to_owned()),
                    None => collect(value, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| collect(value, found)),
        _ => {}
    }
}

//! A model that is being described: fields by path, written in the order of the schema.
//!
//! Paths are those of a recipe, `moe.router.score`; `attention` is the kind of attention called `full`, `sliding` what differs in the
//! other one, `mlp` and `moe` are the feed-forward blocks `dense` and `sparse`.

use crate::recipe::schema::{BlockSchema, FieldSchema, Title, Type};
use crate::recipe::{Block, Model};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Blocks of a model that have names: their path here, their kind and name, and the path of their schema.
const NAMED: [(&str, &str); 4] = [
    ("attention", "attention full"),
    ("sliding", "attention sliding: full"),
    ("mlp", "mlp dense"),
    ("moe", "moe sparse"),
];

/// Characters of a block that stands on one line.
const LINE: usize = 96;

/// Fields by path, and the lines of the `layer` block.
#[derive(Debug, Default)]
pub struct Page {
    fields: BTreeMap<String, String>,
    pub layer: Vec<String>,
}

impl Page {
    /// Sets a field to a value as a recipe writes it.
    pub fn set(&mut self, path: &str, value: impl Into<String>) {
        self.fields.insert(path.to_owned(), value.into());
    }

    /// What a field has been set to.
    pub fn get(&self, path: &str) -> Option<&str> {
        self.fields.get(path).map(String::as_str)
    }

    /// Whether something is set below `path`.
    pub fn has(&self, path: &str) -> bool {
        self.fields.keys().any(|field| field.starts_with(path) && field[path.len()..].starts_with('.'))
    }

    /// The model as an item of a recipe file, before it is laid out.
    pub fn item(&self, name: &str) -> String {
        let mut out = format!("model {name} {{\n");
        let mut fields: Vec<_> = Model::SCHEMA.fields.iter().collect();
        fields.sort_by_key(|field| rank(field));
        for field in fields {
            match field.ty {
                Type::Named(schema) => {
                    for (path, head) in
                        NAMED.iter().filter(|(_, head)| head.split(' ').next() == Some(field.key))
                    {
                        if self.has(path) {
                            let _ = writeln!(out, "{}", self.block(head, schema, path));
                        }
                    }
                }
                Type::Layers => {
                    let _ = writeln!(out, "\nlayer i {{\n{}\n}}\n", self.layer.join("\n"));
                }
                _ => out.extend(self.field(field, "").map(|text| text + "\n")),
            }
        }
        out + "}\n"
    }

    fn field(&self, field: &FieldSchema, prefix: &str) -> Option<String> {
        let path = format!("{prefix}{}", field.key);
        match field.ty {
            // Kind and word in front of what has been set.
            Type::Choice(_) => self.get(&path).map(|value| format!("{} {value}", field.key)),
            // Kind and name, of each that there is.
            Type::Named(_) => {
                let all = self.fields.iter().filter_map(|(set, value)| {
                    let name = set.strip_prefix(&path)?.strip_prefix('.')?;
                    Some(format!("{} {name} {value}", field.key))
                });
                Some(all.collect::<Vec<_>>().join("\n")).filter(|text| !text.is_empty())
            }
            ty if ty.is_block() => {
                let schema = ty.body(None)?;
                let head = match schema.title {
                    Title::Word(word) => format!("{} {word}", field.key),
                    _ => field.key.to_owned(),
                };
                self.has(&path).then(|| self.block(&head, schema, &path)).filter(|text| !text.is_empty())
            }
            _ => {
                // Where a block takes over another one, the language's default says something too.
                let inherits = prefix.starts_with("sliding.");
                let value = self.get(&path).filter(|value| inherits || !is_default(field, value))?;
                Some(format!("{} = {value}", field.key))
            }
        }
    }

    /// A block on one line where it fits; else its values on lines in front of its blocks.
    fn block(&self, head: &str, schema: &BlockSchema, path: &str) -> String {
        let prefix = format!("{path}.");
        let (blocks, values): (Vec<_>, Vec<_>) = schema.fields.iter().partition(|field| field.ty.is_block());
        let written = |fields: Vec<&FieldSchema>| -> Vec<String> {
            fields.into_iter().filter_map(|field| self.field(field, &prefix)).collect()
        };
        let (values, blocks) = (written(values), written(blocks));
        if values.is_empty() && blocks.is_empty() {
            return String::new();
        }
        let all: Vec<_> = values.iter().chain(&blocks).map(String::as_str).collect();
        let line = format!("{head} {{ {} }}", all.join(", "));
        if line.len() <= LINE && !line.contains('\n') {
            return line;
        }
        let mut out = format!("{head} {{\n");
        let mut width = 0;
        for value in &values {
            let separator = if width == 0 {
                ""
            } else if width + value.len() > LINE - 8 {
                "\n"
            } else {
                ", "
            };
            width = if separator == ", " { width + value.len() + 2 } else { value.len() };
            out += separator;
            out += value;
        }
        for block in &blocks {
            out += "\n";
            out += block;
        }
        out + "\n}"
    }
}

/// Where a field of the model stands: sizes, the norm, the blocks that layers are made of, layers, what is left.
fn rank(field: &FieldSchema) -> u8 {
    match field.ty {
        Type::Named(_) => 2,
        Type::Layers => 3,
        ty if !ty.is_block() => 0,
        _ if field.key == "norm" => 1,
        _ => 4,
    }
}

/// Whether a field has this value where it is not written.
fn is_default(field: &FieldSchema, value: &str) -> bool {
    let number = |text: &str| text.parse::<f64>().ok();
    field.default.is_some_and(|default| {
        default == value || number(default).is_some_and(|default| number(value) == Some(default))
    })
}

/// A number as a recipe writes it.
pub fn number(value: f64) -> String {
    if value != 0.0 && (value.abs() < 1e-3 || value.abs() >= 1e5) {
        format!("{value:e}")
    } else {
        format!("{value:?}")
    }
}

/// A length as a recipe writes it: `128Ki`.
pub fn length(tokens: u64) -> String {
    if tokens > 0 && tokens.is_multiple_of(1024) {
        format!("{}Ki", tokens / 1024)
    } else {
        tokens.to_string()
    }
}

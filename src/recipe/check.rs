//! Whether a value is of the type of its field and within its bounds, and whether a block holds what it should.

use super::eval::{Chain, Evaluator, Failed, Frame};
use super::node::twice;
use super::schema::{BlockSchema, FieldSchema, Title, Type};
use super::terms::{Advice, foreign, misplaced};
use super::value::Value;
use crate::base::Span;
use crate::diag::Diagnostic;
use crate::diag::suggest::nearest;
use crate::syntax::tree::Expr;

impl<'t> Evaluator<'_, 't> {
    /// `value` as a value of `field`, or a report of what was expected and what was found.
    pub fn check(
        &mut self,
        value: Value,
        expr: &'t Expr,
        field: &'static FieldSchema,
        frame: Frame<'_, 't>,
    ) -> Result<Value, Failed> {
        let Some(fitting) = self.coerce(&value, &field.ty) else {
            if field.ty.words().is_empty() {
                self.must_be_known(&value, expr, frame)?;
            }
            return self.fail(wrong_type(&value, field, expr.span));
        };
        let outside = match &fitting {
            Value::List(items) => items.iter().find(|item| !within(field, item)),
            single => Some(single).filter(|single| !within(field, single)),
        };
        match outside {
            None => Ok(fitting),
            Some(_) => {
                let mut bounds = field.facts.bounds();
                if bounds.is_empty() {
                    bounds = "at least 0".to_owned();
                }
                let message = format!("`{}` is {value}, it must be {bounds}", field.key);
                self.fail(
                    Diagnostic::error("step::value::bounds", message)
                        .label(expr.span, "out of bounds")
                        .help(format!("`{}`: {}", field.key, field.doc)),
                )
            }
        }
    }

    fn coerce(&self, value: &Value, ty: &Type) -> Option<Value> {
        match (ty, value) {
            (Type::Count, Value::Int(_))
            | (Type::Bool, Value::Bool(_))
            | (Type::Text, Value::Text(..))
            | (Type::Size, Value::Size(_))
            | (Type::Duration, Value::Duration(_))
            | (Type::Path | Type::WordOrPath(_), Value::Path(_)) => Some(value.clone()),
            (Type::Rate, Value::Size(bytes)) => Some(Value::Size(*bytes)),
            (Type::Float, Value::Int(_) | Value::Float(_)) => value.number().map(Value::Float),
            (Type::Ratio, Value::Int(_) | Value::Float(_) | Value::Ratio(_)) => {
                value.number().map(Value::Float)
            }
            (Type::Path | Type::WordOrPath(_), Value::Text(text, file)) if !text.is_empty() => {
                let folder = self.world.folders.get(file);
                Some(Value::Path(folder.map_or_else(|| text.into(), |folder| folder.join(text))))
            }
            (
                Type::Words(_) | Type::WordOrPath(_) | Type::Reference(_) | Type::Item(..),
                Value::Word(word),
            ) => ty.takes_word(word).then(|| value.clone()),
            (Type::Optional(_), Value::Word(word)) if word == "none" => Some(value.clone()),
            (Type::Optional(inner), value) => self.coerce(value, inner),
            (Type::List(inner, length), Value::List(items)) if length.is_none_or(|n| n == items.len()) => {
                let items: Option<Vec<_>> = items.iter().map(|item| self.coerce(item, inner)).collect();
                items.map(Value::List)
            }
            _ => None,
        }
    }

    /// Reports keys and blocks that do not belong into `at`, and what is missing there.
    pub fn check_shape(&mut self, at: &Chain<'_, 't>) {
        let (node, schema) = (at.node, at.schema);
        for (key, written) in &node.fields {
            let known = schema.field(key).filter(|field| field.ty.is_value() && !field.read_only);
            if let (None, Some(place)) = (known, written.chain.first()) {
                let key_span = Span { end: place.span.start + key.len() as u32, ..place.span };
                self.sink.push(unknown_key(key, key_span, &node.title(), schema));
            }
        }
        for (index, block) in node.blocks.iter().enumerate() {
            match schema.field(block.kind).filter(|field| field.ty.is_block()) {
                None => self.sink.push(unknown_block(block.kind, block.place(), &node.title(), schema)),
                Some(field) => {
                    let many = matches!(field.ty, Type::Named(_));
                    let first = node.blocks[..index].iter().find(|other| !many && other.kind == block.kind);
                    if let Some(first) = first {
                        self.sink.push(twice(block.kind, block.place(), first.place()));
                    }
                    if many && block.name.is_none() {
                        let message = format!("this `{}` block has no name", block.kind);
                        let problem = Diagnostic::error("step::recipe::nameless", message)
                            .label(block.place(), "needs a name")
                            .help(format!("write `{} main {{ … }}`", block.kind));
                        self.sink.push(problem);
                    }
                }
            }
        }
        let missing: Vec<_> =
            schema.fields.iter().filter(|field| field.required() && !holds(at, field)).collect();
        if !missing.is_empty() {
            let names: Vec<_> = missing.iter().map(|field| format!("`{}`", field.key)).collect();
            let message = format!("`{}` lacks {}", node.title(), names.join(", "));
            let place = at.outward().find_map(|chain| chain.node.place());
            let problem = Diagnostic::error("step::recipe::missing", message).label(place, "incomplete");
            let write: Vec<_> = missing.iter().map(|field| how_to_write(field)).collect();
            self.sink.push(problem.help(write.join("\n")));
        }
        if let (Title::Word(word), Some(name)) = (schema.title, node.name)
            && name.text != word
        {
            let message = format!("`{}` is not a kind of {}", name.text, schema.kind);
            let problem = Diagnostic::error("step::recipe::unknown_kind", message);
            self.sink
                .push(problem.label(name.span, "unknown").help(format!("write `{} {word}`", schema.kind)));
        }
    }
}

/// Whether something is written for `field` in `at`.
pub fn holds(at: &Chain<'_, '_>, field: &FieldSchema) -> bool {
    at.node.fields.contains_key(field.key) || at.node.blocks.iter().any(|block| block.kind == field.key)
}

fn within(field: &FieldSchema, value: &Value) -> bool {
    let sound = !matches!(value, Value::Int(n) if *n < 0);
    sound && value.magnitude().is_none_or(|number| field.facts.allow(number))
}

fn how_to_write(field: &FieldSchema) -> String {
    let doc = field.doc.0.first().map_or("", |line| line.trim());
    if field.ty.is_block() {
        format!("write `{} {{ … }}`: {doc}", field.key)
    } else {
        format!("write `{} = …`, a {}: {doc}", field.key, field.phrase())
    }
}

fn wrong_type(value: &Value, field: &FieldSchema, span: Span) -> Diagnostic {
    let words = field.ty.words();
    if let (Value::Word(word), [_, ..]) = (value, words) {
        let known: Vec<_> = words.iter().map(|known| format!("`{}`", known.word)).collect();
        let message = format!("`{word}` is not a value of `{}`", field.key);
        let problem = Diagnostic::error("step::value::unknown_word", message)
            .label(span, format!("must be {}", field.ty.phrase("")));
        return match nearest(word, words.iter().map(|known| known.word)) {
            Some(near) => problem.help(format!("did you mean `{near}`?")).fix(span, near),
            None => problem.help(format!("write {}", known.join(" or "))),
        };
    }
    let expected = field.phrase();
    let article = if expected.starts_with(['`', 'o']) || expected == "text" { "" } else { "a " };
    let message = format!("`{}` is {article}{expected}, `{value}` is {}", field.key, value.phrase());
    let problem = Diagnostic::error("step::value::mismatch", message).label(span, value.phrase());
    match (value, &field.ty) {
        (Value::Float(x), Type::Count) if x.fract() == 0.0 && x.abs() < 9e15 => {
            let whole = format!("{x:.0}");
            problem.help(format!("write `{whole}`")).fix(span, whole)
        }
        (Value::Text(text, _), Type::Count | Type::Float | Type::Ratio) if text.parse::<f64>().is_ok() => {
            problem.help(format!("write `{text}`, without quotes")).fix(span, text.clone())
        }
        (Value::Float(_), Type::Count) => problem.help("`floor(…)` and `ceil_div(a, b)` give whole numbers"),
        _ => problem,
    }
}

/// The report that a block has no field `key`.
pub fn unknown_key(key: &str, span: Span, title: &str, schema: &BlockSchema) -> Diagnostic {
    let problem = Diagnostic::error("step::recipe::unknown_key", format!("`{title}` has no field `{key}`"))
        .label(span, "unknown field");
    match schema.field(key) {
        Some(field) if field.read_only => problem.help(format!(
            "`{key}` can be referred to but not set: it is `{}`",
            field.default.unwrap_or_default()
        )),
        Some(_) => problem.help(format!("`{key}` is a block: write `{key} {{ … }}`")),
        None => match known_as(key, schema) {
            Some(Advice::Here(near)) => problem.help(format!("did you mean `{near}`?")).fix(span, near),
            Some(Advice::Elsewhere(text)) => problem.help(text),
            None => {
                let known: Vec<_> = schema.values().filter(|field| !field.read_only).map(|f| f.key).collect();
                let known = if known.is_empty() { "it has none".to_owned() } else { known.join(", ") };
                problem.help(format!("fields of `{}`: {known}", schema.kind))
            }
        },
    }
}

/// The field that `key` may mean: by another program's name for it, a slip of the pen, or in the wrong block.
fn known_as(key: &str, schema: &BlockSchema) -> Option<Advice> {
    let near = || nearest(key, schema.values().filter(|field| !field.read_only).map(|field| field.key));
    foreign(key, schema).or_else(|| near().map(Advice::Here)).or_else(|| misplaced(key))
}

/// The report that a block holds no block `kind`.
pub fn unknown_block(kind: &str, span: Option<Span>, title: &str, schema: &BlockSchema) -> Diagnostic {
    let problem =
        Diagnostic::error("step::recipe::unknown_block", format!("`{title}` has no `{kind}` block"))
            .label(span, "unknown block");
    if schema.field(kind).is_some() {
        return problem.help(format!("`{kind}` is a field: write `{kind} = …`"));
    }
    // The place begins with the kind.
    let word = span.map(|span| Span { end: span.start + kind.len() as u32, ..span });
    match nearest(kind, schema.blocks().map(|field| field.key)) {
        Some(near) => problem.help(format!("did you mean `{near}`?")).fix(word, near),
        None => {
            if let Some(Advice::Elsewhere(text)) = misplaced(kind) {
                return problem.help(text);
            }
            let known: Vec<_> = schema.blocks().map(|field| field.key).collect();
            let known = if known.is_empty() { "it has none".to_owned() } else { known.join(", ") };
            problem.help(format!("blocks in `{}`: {known}", schema.kind))
        }
    }
}

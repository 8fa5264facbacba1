//! Reading the fields of one block into its struct: the other half of the macros of `declare`.

use super::check::holds;
use super::declare::Block;
use super::eval::{Chain, Evaluator};
use super::node::Node;
use super::schema::{ChoiceSchema, FieldSchema};
use super::value::Value;
use crate::base::Span;
use crate::diag::Diagnostic;
use crate::diag::suggest::nearest;

/// A block and what evaluates its expressions.
pub struct Reader<'r, 'e, 't> {
    pub eval: &'r mut Evaluator<'e, 't>,
    pub at: &'r Chain<'r, 't>,
}

impl<'r, 't> Reader<'r, '_, 't> {
    /// The checked value of a field; `None` if it is missing or wrong, which has been reported.
    pub fn value(&mut self, field: &'static FieldSchema) -> Option<Value> {
        self.eval.field(self.at, field, None).ok()
    }

    /// The value of a field of words.
    pub fn word(&mut self, field: &'static FieldSchema) -> Option<String> {
        match self.value(field)? {
            Value::Word(word) => Some(word),
            _ => None,
        }
    }

    /// Whether anything is written for `field`.
    pub fn holds(&self, field: &FieldSchema) -> bool {
        !field.read_only && holds(self.at, field)
    }

    /// Whether an optional field is none: not written, or said to be.
    pub fn is_none(&mut self, field: &'static FieldSchema) -> bool {
        if field.ty.is_block() {
            return self.child(field).is_none_or(Node::is_none);
        }
        matches!(self.value(field), Some(Value::Word(word)) if word == "none")
    }

    /// Where the field is written, else the block.
    pub fn place(&self, field: &FieldSchema) -> Option<Span> {
        let written = self.at.node.fields.get(field.key).map(|written| written.value.span);
        written.or_else(|| self.child(field)?.place()).or_else(|| self.at.node.place())
    }

    /// The only block of the kind of `field`.
    pub fn child(&self, field: &FieldSchema) -> Option<&'r Node<'t>> {
        self.at.node.blocks.iter().find(|block| block.kind == field.key)
    }

    /// Reads the block of `field`; where none is written, from the defaults of its fields.
    pub fn block<B: Block>(&mut self, field: &'static FieldSchema) -> Option<B> {
        let absent = Node::absent(field.key);
        let node = self.child(field).unwrap_or(&absent);
        let missing = node.heads.is_empty() && B::SCHEMA.fields.iter().any(FieldSchema::required);
        if missing {
            // Reported by the block that misses it.
            return None;
        }
        read(self.eval, node, self.at)
    }

    /// The word of a choice, checked.
    pub fn choice(&mut self, field: &'static FieldSchema, choice: &ChoiceSchema) -> Option<&'static str> {
        let Some(node) = self.child(field) else { return field.default };
        let known = choice.words.iter().map(|known| known.word);
        let words: Vec<_> = known.clone().map(|word| format!("`{} {word}`", choice.kind)).collect();
        let Some(name) = node.name else {
            let message = format!("`{}` does not say which", choice.kind);
            let problem = Diagnostic::error("step::recipe::unknown_kind", message)
                .label(node.place(), "of which kind?");
            self.eval.sink.push(problem.help(format!("write {}", words.join(" or "))));
            return None;
        };
        let Some(found) = choice.words.iter().find(|known| known.word == name.text) else {
            let message = format!("`{}` is not a kind of {}", name.text, choice.kind);
            let problem =
                Diagnostic::error("step::recipe::unknown_kind", message).label(name.span, "unknown");
            self.eval.sink.push(match nearest(&name.text, known) {
                Some(near) => problem.help(format!("did you mean `{near}`?")).fix(name.span, near),
                None => problem.help(format!("write {}", words.join(" or "))),
            });
            return None;
        };
        Some(found.word)
    }
}

/// Checks and reads the block `node`, which stands inside `outer`.
pub fn read<'t, B: Block>(eval: &mut Evaluator<'_, 't>, node: &Node<'t>, outer: &Chain<'_, 't>) -> Option<B> {
    if node.hollow {
        return None;
    }
    let chain = Chain { node, schema: const { &B::SCHEMA }, outer: Some(outer), index: None };
    eval.check_shape(&chain);
    B::read(&mut Reader { eval, at: &chain })
}

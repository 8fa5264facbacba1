//! What names refer to: words, `let`s, fields of the blocks around, `model.experts`; and what to say where they lead
//! nowhere.

use super::eval::{Chain, Evaluator, Failed, Frame};
use super::node::Node;
use super::schema::{FieldSchema, Type};
use super::value::Value;
use crate::diag::Diagnostic;
use crate::diag::suggest::nearest;
use crate::syntax::tree::Ident;

impl<'c, 't> Chain<'c, 't> {
    /// The chain of a block inside this one; `None` where the schema knows no such block.
    pub fn inner<'i>(&'i self, node: &'i Node<'t>) -> Option<Chain<'i, 't>> {
        let schema = self.schema.field(node.kind)?.ty.body(node.name_text())?;
        Some(Chain { node, schema, outer: Some(self), index: None })
    }

    /// Whether `name.…` can begin here: a kind of block, the name of one, or a reference to an item.
    pub fn leads_to(&self, name: &str) -> bool {
        let kind = self
            .schema
            .field(name)
            .is_some_and(|field| !field.ty.is_value() || field.ty.body(None).is_some());
        kind || self.node.blocks.iter().any(|block| block.name_text() == Some(name))
    }

    /// The report that `step` is nothing in this block.
    pub fn unknown(&self, step: &Ident) -> Diagnostic {
        let known = self.schema.fields.iter().map(|field| field.key);
        let names = self.node.blocks.iter().filter_map(|block| block.name_text());
        let message = format!("`{}` has no `{}`", self.node.title(), step.text);
        let problem =
            Diagnostic::error("step::value::unknown_name", message).label(step.span, "no such value");
        match nearest(&step.text, known.chain(names)) {
            Some(near) => problem.help(format!("did you mean `{near}`?")).fix(step.span, near),
            None => problem,
        }
    }
}

impl<'t> Evaluator<'_, 't> {
    /// A word, or what a name refers to.
    pub fn path(
        &mut self,
        path: &'t [Ident],
        frame: Frame<'_, 't>,
        want: Option<&Type>,
    ) -> Result<Value, Failed> {
        let Some((first, rest)) = path.split_first() else { return Err(Failed) };
        if !rest.is_empty() {
            return self.reference(first, rest, frame);
        }
        let word = first.text.as_str();
        let names_block = want.is_some_and(Type::is_reference);
        if !names_block && want.is_some_and(|want| want.takes_word(word)) {
            return Ok(Value::Word(word.to_owned()));
        }
        let index = frame.at.outward().find_map(|chain| chain.index.filter(|(name, _)| *name == word));
        if let Some((_, layer)) = index {
            return Ok(Value::Int(layer));
        }
        if let Some((item, scope)) = frame.scope.find(word) {
            let key = (std::ptr::from_ref(item) as usize, "");
            let frame = Frame { scope, ..frame };
            return self.guarded(key, &item.name.text, Some(item.name.span), |eval| {
                eval.eval(&item.value, frame, want)
            });
        }
        if names_block {
            return Ok(Value::Word(word.to_owned()));
        }
        let field = frame.at.outward().find_map(|chain| {
            chain.schema.field(word).filter(|field| field.ty.is_value()).map(|field| (chain, field))
        });
        match field {
            Some((chain, field)) => self.field(chain, field, Some(first.span)),
            None => Ok(Value::Word(word.to_owned())),
        }
    }

    /// `model.experts`, `train.optimizer.lr`: from the innermost block around that holds a block of the first name.
    fn reference(
        &mut self,
        first: &'t Ident,
        rest: &'t [Ident],
        frame: Frame<'_, 't>,
    ) -> Result<Value, Failed> {
        let start = frame.at.outward().find(|chain| chain.leads_to(&first.text));
        match start {
            Some(chain) => self.walk(chain, first, rest),
            None => {
                let known = frame.at.outward().flat_map(|chain| chain.schema.blocks()).map(|field| field.key);
                let mut problem = Diagnostic::error(
                    "step::value::unknown_name",
                    format!("`{}` is not a block that can be referred to here", first.text),
                )
                .label(first.span, "unknown");
                if let Some(near) = nearest(&first.text, known) {
                    problem = problem.help(format!("did you mean `{near}`?")).fix(first.span, near);
                }
                self.fail(problem)
            }
        }
    }

    fn walk(&mut self, at: &Chain<'_, 't>, step: &'t Ident, rest: &'t [Ident]) -> Result<Value, Failed> {
        let Some((next, after)) = rest.split_first() else {
            return match at.schema.field(&step.text).filter(|field| field.ty.is_value()) {
                Some(field) => self.field(at, field, Some(step.span)),
                None => self.fail(at.unknown(step)),
            };
        };
        if let Some(field @ FieldSchema { ty: Type::Item(_, schema), .. }) = at.schema.field(&step.text) {
            let Value::Word(name) = self.field(at, field, Some(step.span))? else { return Err(Failed) };
            let world = self.world;
            let item = world.devices.get(name.as_str()).ok_or(Failed)?;
            return self.walk(&Chain { node: item, schema, outer: None, index: None }, next, after);
        }
        let name = step.text.as_str();
        let mut found = at.node.blocks.iter().filter(|block| block.kind == name);
        let (child, several) = (found.next(), found.next().is_some());
        if several && at.schema.field(name).is_some_and(|field| matches!(field.ty, Type::Named(_))) {
            // `attention.full.heads`: the name says which.
            let named = at.node.blocks.iter().find(|b| b.kind == name && b.name_text() == Some(&next.text));
            if let (Some(node), Some((next, after))) = (named, after.split_first())
                && let Some(inner) = at.inner(node)
            {
                return self.walk(&inner, next, after);
            }
            let names: Vec<_> = at.node.blocks.iter().filter(|b| b.kind == name).map(Node::title).collect();
            return self.fail(
                Diagnostic::error("step::value::ambiguous", format!("there are several `{name}` blocks"))
                    .label(step.span, "which one?")
                    .help(format!("name one of `{}`", names.join("`, `"))),
            );
        }
        let named = || at.node.blocks.iter().find(|block| block.name_text() == Some(name));
        if let Some(node) = child.or_else(named) {
            return match at.inner(node) {
                Some(inner) => self.walk(&inner, next, after),
                None => self.fail(at.unknown(step)),
            };
        }
        match at.schema.field(name).and_then(|field| Some((field, field.ty.body(None)?))) {
            Some((FieldSchema { ty: Type::Block(_), .. }, schema)) => {
                let node = Node::absent(name);
                self.walk(&Chain { node: &node, schema, outer: Some(at), index: None }, next, after)
            }
            Some(_) => self.fail(
                Diagnostic::error("step::value::unknown_name", format!("there is no `{name}` block"))
                    .label(step.span, "this recipe has none"),
            ),
            None => self.fail(at.unknown(step)),
        }
    }
}

//! What a `let` comes to, for people who ask.

use super::eval::{Chain, Evaluator, Frame};
use super::node::Scope;
use super::resolve::{Loaded, item_schema};
use super::value::Value;
use crate::diag::Sink;
use crate::syntax::tree::Ident;
use std::rc::Rc;

impl Loaded {
    /// The value of the `let` called `name`, in the first block that sees it. `None` where the recipe sees no such `let`, or
    /// it has no value there.
    pub fn binding(&self, profile: Option<&str>, name: &Ident) -> Option<String> {
        let items = self.items();
        let mut aside = Sink::default();
        let root = self.merged(&items, profile, &mut aside)?;
        let world = self.world(&items, &mut aside);
        let mut eval = Evaluator::new(&world, &mut aside);
        let recipe = Chain { node: &root, schema: item_schema("recipe")?, outer: None, index: None };
        find(&mut eval, &recipe, name).map(|value| value.to_string())
    }
}

fn find<'t>(eval: &mut Evaluator<'_, 't>, at: &Chain<'_, 't>, name: &Ident) -> Option<Value> {
    let fields = at.node.fields.values().map(|field| &field.scope);
    let requires = at.node.requires.iter().map(|require| &require.scope);
    let script = at.node.script.iter().map(|script| &script.scope);
    for scope in fields.chain(requires).chain(script) {
        let around = std::iter::successors(Some(scope), |scope: &&Rc<Scope<'t>>| scope.outer.as_ref());
        for scope in around {
            if let Some(item) = scope.lets.get(name.text.as_str()).filter(|item| item.name.span == name.span)
            {
                return eval.eval(&item.value, Frame { at, scope }, None).ok();
            }
        }
    }
    at.node.blocks.iter().find_map(|block| find(eval, &at.inner(block)?, name))
}

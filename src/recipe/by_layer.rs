//! What a field of a block comes to in each layer that is made of the block.

use super::eval::{Chain, Evaluator};
use super::layers::{LAYER, Reading, Said};
use super::node::Node;
use super::resolve::{Loaded, item_schema};
use super::value::Value;
use crate::diag::Sink;

impl Loaded {
    /// The layers made of the `kind` of the model called `name`, and what the field at `path` inside of it is in each.
    /// Looks at the merged recipe, so that it also answers where a rule is broken; empty where layers cannot be told.
    pub fn by_layer(
        &self,
        profile: Option<&str>,
        [kind, name]: [&str; 2],
        path: &[&str],
    ) -> Vec<(u64, String)> {
        let items = self.items();
        let mut aside = Sink::default();
        let Some(root) = self.merged(&items, profile, &mut aside) else { return Vec::new() };
        let world = self.world(&items, &mut aside);
        let mut eval = Evaluator::new(&world, &mut aside);
        let Some(schema) = item_schema("recipe") else { return Vec::new() };
        let recipe = Chain { node: &root, schema, outer: None, index: None };
        let model = root.blocks.iter().find(|block| block.kind == "model");
        let Some(model) = model.and_then(|model| recipe.inner(model)) else { return Vec::new() };
        values(&mut eval, &model, [kind, name], path).unwrap_or_default()
    }
}

fn values<'t>(
    eval: &mut Evaluator<'_, 't>,
    model: &Chain<'_, 't>,
    [kind, name]: [&str; 2],
    path: &[&str],
) -> Option<Vec<(u64, String)>> {
    let layer = model.node.blocks.iter().find(|block| block.kind == "layer")?;
    let script = layer.script.as_ref()?;
    let of_name = |block: &&Node<'t>| block.kind == kind && block.name_text() == Some(name);
    let block = model.node.blocks.iter().find(of_name)?;
    let schema = model.schema.field(kind)?.ty.body(Some(name))?;
    let Value::Int(count) = eval.field(model, model.schema.field("layers")?, None).ok()? else { return None };
    let mut reading = Reading::new(eval, model, layer.name?);
    let mut found = Vec::new();
    for number in 0..count {
        let at = Chain {
            node: layer,
            schema: &LAYER,
            outer: Some(model),
            index: Some((&layer.name?.text, number)),
        };
        let mut said = Said::default();
        reading.listen(script.body, &script.scope, &at, &mut said)?;
        if !said.names(kind, name) {
            continue;
        }
        let merged = reading.overridden(block, &said, schema, script.via);
        let (node, outer) = merged.as_ref().map_or((block, model), |merged| (merged, &at));
        let chain = Chain { node, schema, outer: Some(outer), index: None };
        let value = field(reading.eval, &chain, path)?;
        found.push((u64::try_from(number).ok()?, value.to_string()));
    }
    Some(found)
}

/// The field that `path` leads to.
fn field<'t>(eval: &mut Evaluator<'_, 't>, at: &Chain<'_, 't>, path: &[&str]) -> Option<Value> {
    match path {
        [key] => eval.field(at, at.schema.field(key)?, None).ok(),
        [kind, rest @ ..] => {
            let absent = Node::absent(at.schema.field(kind)?.key);
            let node = at.node.blocks.iter().find(|block| block.kind == *kind).unwrap_or(&absent);
            field(eval, &at.inner(node)?, rest)
        }
        [] => None,
    }
}

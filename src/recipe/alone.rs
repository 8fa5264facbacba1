//! Items of a file that holds no recipe, checked by themselves while somebody writes them.

use super::declare::Block as _;
use super::eval::{Chain, Evaluator};
use super::items::Items;
use super::load::Parsed;
use super::merge::settle;
use super::origins::Via;
use super::reader::Reader;
use super::resolve::{item_schema, world};
use super::schema::machine::{Cluster, Device};
use super::schema::model::Model;
use crate::diag::Sink;
use crate::syntax::tree::Item;

/// What the recipe that uses an item may still give it.
const LATER: [&str; 3] = ["step::recipe::missing", "step::recipe::unknown_item", "step::value::unknown_name"];

impl Parsed {
    /// Reports what is wrong with the items of the root, whatever recipe uses them.
    pub fn check_items(&self, sink: &mut Sink) {
        let items = Items::collect(&self.files);
        let world = world(&self.files, &items, &mut Sink::default());
        for item in self.files.first().into_iter().flat_map(|root| &root.tree.items) {
            let Item::Block(block) = item else { continue };
            let (kind, mut own) = (block.kind.text.as_str(), Sink::default());
            let node = block.name.as_ref().and_then(|name| items.node(kind, &name.text, Via::Item, &mut own));
            let (Some(mut node), Some(schema)) = (node, item_schema(kind)) else { continue };
            settle(&mut node, Some(schema), &mut own);
            let at = Chain { node: &node, schema, outer: None, index: None };
            let mut eval = Evaluator::new(&world, &mut own);
            eval.check_shape(&at);
            let mut reader = Reader { eval: &mut eval, at: &at };
            match kind {
                "model" => drop(Model::read(&mut reader)),
                "cluster" => drop(Cluster::read(&mut reader)),
                "device" => drop(Device::read(&mut reader)),
                _ => {}
            }
            sink.extend(own.finish().into_iter().filter(|problem| !LATER.contains(&problem.code)));
        }
    }
}

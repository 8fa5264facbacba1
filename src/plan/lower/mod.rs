//! From modules and placement to the program.
//!
//! One rank's forward, loss, backward and update are emitted in the order in which they run. The modules are walked
//! like the mathematics is written; `units` decides when a unit is gathered, freed and reduced; nobody frees
//! activations by hand, a buffer lives from its first to its last instruction.

mod attention;
mod balance;
mod builder;
mod ends;
mod ffn;
mod moe;
mod units;
mod update;

use super::compile::Task;
use super::mesh::Mesh;
use super::placement::Placement;
use super::program::Program;
use crate::model::{LayerModule, Model};
use crate::recipe::{Recipe, Recompute};
use builder::Builder;
pub(super) use ends::chunk_rows;

/// Emits the program of a step.
pub(super) fn lower(
    recipe: &Recipe,
    model: &Model,
    mesh: &Mesh,
    placement: &Placement,
    task: Task,
) -> Program {
    let mut b = Builder::new(recipe, model, mesh, placement, task);
    let begin = b.mark();
    if task.trains() {
        b.count_tokens();
    }
    let micro = b.mark();
    b.enter();
    let mut h = b.embedding();
    b.leave();
    let mut saved = Vec::with_capacity(model.layers.len());
    for (i, layer) in model.layers.iter().enumerate() {
        b.scope = format!("layer{i}");
        b.enter();
        let (out, kept) = forward(&mut b, layer, h);
        saved.push(kept);
        h = out;
        b.leave();
    }
    b.enter();
    if task.trains() {
        let dh = b.head_and_loss(h);
        b.leave();
        for (i, layer) in model.layers.iter().enumerate().rev() {
            b.scope = format!("layer{i}.back");
            b.enter();
            b.begin_gradients();
            let mut kept = saved.pop().expect("one for each layer");
            if recipe.parallel.recompute == Recompute::Full {
                kept = again(&mut b, layer, &kept);
            }
            b.ffn_backward(layer, &kept.ffn, dh);
            b.attention_backward(&layer.attention, &kept.attention, dh);
            b.finish_gradients();
            b.leave();
        }
        b.embedding_backward(dh);
    } else {
        b.head_logits(h);
        b.leave();
    }
    let update = b.mark();
    if task.trains() {
        b.update();
    }
    b.finish(begin, micro, update)
}

/// What a layer keeps for its backward pass.
struct Kept {
    attention: attention::Kept,
    ffn: ffn::Kept,
}

fn forward(b: &mut Builder, layer: &LayerModule, h: super::View) -> (super::View, Kept) {
    let attention = b.attention(&layer.attention, h);
    let middle = b.attention_output(&layer.attention, &attention);
    let ffn = b.ffn(layer, middle);
    let out = b.ffn_output(layer, &ffn);
    (out, Kept { attention, ffn })
}

/// Full recomputation: only the input of the layer survived the forward pass; everything else is made again, up to
/// what the backward pass reads.
fn again(b: &mut Builder, layer: &LayerModule, kept: &Kept) -> Kept {
    let attention = b.attention(&layer.attention, kept.attention.h);
    let middle = b.attention_output(&layer.attention, &attention);
    Kept { attention, ffn: b.ffn(layer, middle) }
}

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
mod mtp;
mod projections;
mod residual;
mod units;
mod update;

use super::compile::Task;
use super::mesh::Mesh;
use super::placement::Placement;
use super::program::{Program, View};
use crate::model::{LayerModule, Model};
use crate::recipe::{Recipe, Recompute};
use builder::Builder;
pub(super) use ends::chunk_rows;
use residual::Behind;

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
    let embedded = b.embedding();
    b.leave();
    let mut h = embedded;
    let mut saved = Vec::with_capacity(model.layers.len());
    for (i, layer) in model.layers.iter().enumerate() {
        b.scope = format!("layer{i}");
        b.enter();
        let (out, kept) = forward(&mut b, layer, h);
        saved.push(kept);
        h = out;
        b.leave();
    }
    if task.trains() {
        let (dh, ahead) = match b.mtp() {
            [] => (b.head_and_loss(h), None),
            modules => {
                let (dh, ahead) = b.predict_ahead(modules, embedded, h);
                (dh, Some(ahead))
            }
        };
        for (i, layer) in model.layers.iter().enumerate().rev() {
            let kept = saved.pop().expect("one for each layer");
            b.with_gradients(format!("layer{i}.back"), |b| backward(b, layer, kept, dh));
        }
        b.embedding_backward([dh].into_iter().chain(ahead));
    } else {
        b.enter();
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
struct LayerKept {
    attention: attention::Kept,
    attention_behind: Option<Behind>,
    ffn: ffn::Kept,
    ffn_behind: Option<Behind>,
}

fn forward(b: &mut Builder, layer: &LayerModule, h: View) -> (View, LayerKept) {
    let attention = b.attention(&layer.attention, h);
    let y = b.attention_output(&layer.attention, &attention);
    let (middle, attention_behind) = b.residual("middle", h, y, layer.attention_norm_behind);
    let ffn = b.ffn(layer, middle);
    let y = b.ffn_output(layer, &ffn);
    let (out, ffn_behind) = b.residual("out", middle, y, layer.ffn_norm_behind);
    (out, LayerKept { attention, attention_behind, ffn, ffn_behind })
}

/// Turns `dh`, the gradient of a layer's output, into that of its input.
fn backward(b: &mut Builder, layer: &LayerModule, mut kept: LayerKept, dh: View) {
    if b.recipe.parallel.recompute == Recompute::Full {
        kept = again(b, layer, &kept);
    }
    let dy = b.residual_backward("ffn.dy", dh, kept.ffn_behind);
    b.ffn_backward(layer, &kept.ffn, dy, dh);
    let dy = b.residual_backward("attention.dy", dh, kept.attention_behind);
    b.attention_backward(&layer.attention, &kept.attention, dy, dh);
}

/// Full recomputation: only the input of the layer survived the forward pass; everything else is made again, up to
/// what the backward pass reads.
fn again(b: &mut Builder, layer: &LayerModule, kept: &LayerKept) -> LayerKept {
    let h = kept.attention.h;
    let attention = b.attention(&layer.attention, h);
    let y = b.attention_output(&layer.attention, &attention);
    let (middle, attention_behind) = b.residual("middle", h, y, layer.attention_norm_behind);
    let ffn = b.ffn(layer, middle);
    let ffn_behind = layer.ffn_norm_behind.map(|gamma| {
        let y = b.ffn_output(layer, &ffn);
        b.behind("out", y, gamma).1
    });
    LayerKept { attention, attention_behind, ffn, ffn_behind }
}

//! What one pipeline stage holds, for one device of it.

use super::job::{Engine, Job, Layout};
use super::muon::{Matrices, matrices};
use super::shape::{LayerShape, Run, Shape};

/// Parameters and layers of a stage.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Stage {
    /// Elements outside routed experts after tensor parallelism, before sharding.
    pub dense: f64,
    /// Elements of the routed experts of this rank, before sharding inside an expert group.
    pub experts: f64,
    /// The largest unit that is gathered at once, of layers.
    pub unit: Unit,
    /// The largest tensor, and the largest inside of layers.
    pub tensor: f64,
    pub matrix: f64,
    /// What Muon updates, if it does.
    pub matrices: Matrices,
    /// Layers, multi-token prediction among them.
    pub layers: f64,
    pub first: bool,
    pub last: bool,
}

/// Elements of one FSDP unit once gathered.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Unit {
    pub dense: f64,
    pub experts: f64,
}

impl Unit {
    pub fn all(self) -> f64 {
        self.dense + self.experts
    }
}

impl Stage {
    /// Elements of a dense and an expert shard on a device.
    pub fn shards(&self, layout: &Layout) -> [f64; 2] {
        [self.dense / layout.fsdp as f64, self.experts / expert_shards(layout) as f64]
    }

    /// Elements of what Muon updates, as [`Stage::shards`].
    pub fn muon_shards(&self, layout: &Layout) -> [f64; 2] {
        [self.matrices.dense / layout.fsdp as f64, self.matrices.experts / expert_shards(layout) as f64]
    }
}

/// Ranks that shard the experts of one rank's group.
pub(super) fn expert_shards(layout: &Layout) -> u64 {
    if layout.ep > 1 || layout.whole_experts { layout.ep_fsdp.max(1) } else { layout.fsdp }
}

/// The layers of stage `index`, in runs: an even split, the remainder to the first stages.
pub(super) fn layers_of<'a>(
    shape: &'a Shape,
    layout: &Layout,
    index: u64,
) -> impl Iterator<Item = Run> + use<'a> {
    let (layers, pp) = (shape.layers(), layout.pp);
    let (from, to) = match layout.last_layers {
        Some(last) if index + 1 == pp => (layers.saturating_sub(last), layers),
        Some(last) => part(layers.saturating_sub(last), (pp - 1).max(1), index),
        None => part(layers, pp, index),
    };
    let mut at = 0;
    shape.runs.iter().filter_map(move |run| {
        let (start, end) = (at.max(from), (at + run.count).min(to));
        at += run.count;
        (start < end).then(|| Run { layer: run.layer, count: end - start })
    })
}

/// Part `index` of `count` things in `parts`.
fn part(count: u64, parts: u64, index: u64) -> (u64, u64) {
    let (each, rest) = (count / parts, count % parts);
    let from = index * each + index.min(rest);
    (from, from + each + u64::from(index < rest))
}

/// Elements of a layer that a rank works with: dense over `tp`, experts over `ep`.
///
pub(super) fn unit_of(layer: &LayerShape, hidden: f64, layout: &Layout) -> Unit {
    Unit {
        dense: layer.dense_params(hidden) / layout.tp as f64,
        experts: layer.ffn.expert_params(hidden) / (layout.ep as f64 * expert_tp(layout)),
    }
}

/// Ranks that split each expert's matrices: all of `tp` where experts are not spread, else what of it the expert axes do
/// not use.
pub(super) fn expert_tp(layout: &Layout) -> f64 {
    if layout.whole_experts {
        return 1.0;
    }
    if layout.ep == 1 {
        return layout.tp as f64;
    }
    let ranks = layout.replicate * layout.fsdp * layout.tp;
    if layout.ep * layout.ep_fsdp * layout.tp <= ranks { layout.tp as f64 } else { 1.0 }
}

/// Stage `index` of `shape` under `job`.
pub(super) fn stage(shape: &Shape, job: &Job, index: u64) -> Stage {
    let layout = &job.layout;
    let (h, tp) = (shape.hidden, layout.tp as f64);
    let mut stage = Stage { first: index == 0, last: index + 1 == layout.pp, ..Stage::default() };
    let mut add = |layer: &LayerShape, count: f64| {
        let unit = unit_of(layer, h, layout);
        stage.dense += unit.dense * count;
        stage.experts += unit.experts * count;
        stage.layers += count;
        stage.matrices.add(&matrices(layer, h, layout), count);
        if unit.all() > stage.unit.all() {
            stage.unit = unit;
        }
        let experts = unit.experts * 2.0 / 3.0;
        let dense = match layer.ffn {
            super::shape::FfnShape::Dense { inner } => 2.0 * inner * h / tp,
            super::shape::FfnShape::Moe { shared, .. } => 2.0 * shared * h / tp,
        };
        stage.tensor = stage.tensor.max(experts).max(dense);
    };
    layers_of(shape, layout, index).for_each(|run| add(&run.layer, run.count as f64));
    let last = index + 1 == layout.pp;
    if last {
        shape.mtp.iter().for_each(|layer| add(layer, 1.0));
    }
    stage.matrix = stage.tensor;
    let table = shape.vocab * h / tp;
    let mtp = shape.mtp.len() as f64;
    let mut tables = 0.0;
    if index == 0 {
        tables += 1.0;
    }
    if last {
        tables += if shape.tied && layout.pp == 1 { 0.0 } else { 1.0 };
        stage.dense += mtp * 2.0 * h * h / tp;
        tables += shape.mtp_heads as f64;
        // Megatron's last stage has a copy of the embedding for multi-token prediction.
        if mtp > 0.0 && layout.pp > 1 && job.engine == Engine::Megatron {
            tables += 1.0;
        }
    }
    stage.dense += tables * table;
    if tables > 0.0 {
        stage.tensor = stage.tensor.max(table);
    }
    stage
}

//! Fills a rank's shards: from scratch or from the bytes of a checkpoint that belong to them.

use super::device::Device;
use super::init::initialise;
use crate::base::Line;
use crate::diag::Diagnostic;
use crate::model::{ParamId, Parameter};
use crate::plan::{Axis, Category, Plan, Unit, View};
use crate::weights::Folder;
use rayon::prelude::*;
use std::ops::Range;

/// Where parameters come from.
#[derive(Clone, Copy)]
pub enum Origin<'a> {
    Scratch { seed: u64 },
    Checkpoint(&'a Folder),
}

impl Origin<'_> {
    /// Writes elements `range` of the flattened parameter to `out`, and says how many bytes of files that took.
    fn read(&self, parameter: &Parameter, range: Range<u64>, out: &mut [f32]) -> Result<u64, Diagnostic> {
        let folder = match self {
            Origin::Scratch { seed } => {
                initialise(parameter, *seed, range, out);
                return Ok(0);
            }
            Origin::Checkpoint(folder) => folder,
        };
        let lines: Vec<(u64, Line)> = parameter.lines(range.clone()).collect();
        let tensors = lines.chunk_by(|a, b| a.0 == b.0).map(|same| {
            let lines: Vec<Line> = same.iter().map(|(_, line)| *line).collect();
            folder.reader(&parameter.tensor_name(same[0].0))?.read(&lines, range.start, out)
        });
        tensors.sum()
    }
}

/// A part of a rank's shard: which elements of which parameter it is.
pub struct Piece {
    pub param: ParamId,
    /// Elements of the flattened parameter.
    pub elements: Range<u64>,
    /// Where they start in the shard.
    pub offset: u64,
}

/// What the shard of `rank` of a unit is made of.
pub fn pieces(plan: &Plan, unit: &Unit, rank: u64) -> Vec<Piece> {
    let held = unit.held(plan.mesh.coordinate(unit.axis, rank));
    let placed = unit.params.iter().filter_map(|placed| {
        let start = held.start.max(placed.offset);
        let end = held.end.min(placed.offset + placed.elements);
        // Experts: this rank's part of the stacked parameter starts behind those of the lower `ep` coordinates.
        let first = match unit.axis {
            Axis::EpFsdp => plan.mesh.coordinate(Axis::Ep, rank) * placed.elements,
            _ => 0,
        };
        (start < end).then(|| Piece {
            param: placed.param,
            elements: first + start - placed.offset..first + end - placed.offset,
            offset: start - held.start,
        })
    });
    placed.collect()
}

/// The persistent buffers of one category, in the order of the units.
pub fn shards(plan: &Plan, category: Category) -> impl Iterator<Item = (&Unit, View)> {
    let ids = (0..).map(crate::plan::BufferId);
    let buffers = ids.zip(&plan.program.buffers);
    let shards = buffers
        .filter(move |(_, b)| b.persistent && b.category == category)
        .map(|(buffer, b)| View { buffer, offset: 0, rows: b.rows, cols: b.cols });
    plan.placement.units.iter().zip(shards)
}

/// Fills parameters and frozen parameters of `rank`, and says how many bytes of files that took.
///
/// # Errors
/// What the checkpoint's reader reports.
pub fn fill(plan: &Plan, rank: u64, device: &mut dyn Device, origin: Origin) -> Result<u64, Diagnostic> {
    let mut bytes = 0;
    for (unit, view) in shards(plan, Category::Parameters) {
        for piece in pieces(plan, unit, rank) {
            let view = View { offset: piece.offset, cols: piece.elements.end - piece.elements.start, ..view };
            bytes += load(device, view, &plan.params[piece.param.0 as usize], piece.elements, origin)?;
        }
    }
    for (&id, view) in plan.placement.frozen.iter().zip(&plan.program.frozen) {
        let parameter = &plan.params[id.0 as usize];
        bytes += load(device, *view, parameter, 0..parameter.elements(), origin)?;
    }
    Ok(bytes)
}

/// Elements that a thread loads at a time: many enough that transposed matrices are read in long lines.
const CHUNK: usize = 1 << 22;
/// Vectors and routers are searched for values that are no numbers: few elements, and one of them spoils everything.
const SEARCHED: u64 = 1 << 20;

/// Loads elements `range` of a parameter into `view`.
fn load(
    device: &mut dyn Device,
    view: View,
    parameter: &Parameter,
    range: Range<u64>,
    origin: Origin,
) -> Result<u64, Diagnostic> {
    let mut bytes = 0;
    device.fill(view, &mut |first, out| {
        let first = range.start + first;
        let chunks = out.par_chunks_mut(CHUNK).enumerate().map(|(i, out)| {
            let first = first + (i * CHUNK) as u64;
            origin.read(parameter, first..first + out.len() as u64, out)
        });
        bytes += chunks.sum::<Result<u64, _>>()?;
        let searched: &[f32] = if parameter.elements() <= SEARCHED { out } else { &[] };
        let found = searched.iter().position(|x| !x.is_finite());
        found.map_or(Ok(()), |at| Err(not_finite(parameter, first + at as u64, searched[at])))
    })?;
    Ok(bytes)
}

fn not_finite(parameter: &Parameter, element: u64, value: f32) -> Diagnostic {
    let message = format!("element {element} of `{}` is {value} in the checkpoint", parameter.label());
    Diagnostic::error("step::weights::nan", message)
        .help("the checkpoint is damaged, or of a training that had failed: take an earlier one")
}

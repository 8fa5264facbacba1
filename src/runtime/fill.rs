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
    /// Writes elements `range` of the flattened parameter to `out`.
    fn read(&self, parameter: &Parameter, range: Range<u64>, out: &mut [f32]) -> Result<(), Diagnostic> {
        let folder = match self {
            Origin::Scratch { seed } => {
                initialise(parameter, *seed, range, out);
                return Ok(());
            }
            Origin::Checkpoint(folder) => folder,
        };
        let lines: Vec<(u64, Line)> = parameter.lines(range.clone()).collect();
        for same in lines.chunk_by(|a, b| a.0 == b.0) {
            let lines: Vec<Line> = same.iter().map(|(_, line)| *line).collect();
            folder.reader(&parameter.tensor_name(same[0].0))?.read(&lines, range.start, out)?;
        }
        Ok(())
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

/// Fills parameters and frozen parameters of `rank`.
///
/// # Errors
/// What the checkpoint's reader reports.
pub fn fill(plan: &Plan, rank: u64, device: &mut dyn Device, origin: Origin) -> Result<(), Diagnostic> {
    let params = &plan.params;
    for (unit, view) in shards(plan, Category::Parameters) {
        for piece in pieces(plan, unit, rank) {
            let parameter = &params[piece.param.0 as usize];
            let count = piece.elements.end - piece.elements.start;
            let view = View { offset: piece.offset, cols: count, ..view };
            load(device, view, parameter, piece.elements, origin)?;
        }
    }
    for (&id, view) in plan.placement.frozen.iter().zip(&plan.program.frozen) {
        let parameter = &params[id.0 as usize];
        load(device, *view, parameter, 0..parameter.elements(), origin)?;
    }
    Ok(())
}

/// Elements that a thread loads at a time: many enough that transposed matrices are read in long lines.
const CHUNK: usize = 1 << 22;

/// Loads elements `range` of a parameter into `view`.
fn load(
    device: &mut dyn Device,
    view: View,
    parameter: &Parameter,
    range: Range<u64>,
    origin: Origin,
) -> Result<(), Diagnostic> {
    device.fill(view, &mut |out| {
        out.par_chunks_mut(CHUNK).enumerate().try_for_each(|(i, out)| {
            let first = range.start + (i * CHUNK) as u64;
            origin.read(parameter, first..first + out.len() as u64, out)
        })
    })
}

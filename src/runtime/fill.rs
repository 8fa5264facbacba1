//! Fills a rank's shards: from scratch or from the bytes of a checkpoint that belong to them.

use super::device::Device;
use super::init::initialise;
use crate::diag::Diagnostic;
use crate::model::{ParamId, Parameter};
use crate::plan::{Axis, Category, Plan, Unit, View};
use crate::weights::Folder;
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
        match self {
            Origin::Scratch { seed } => initialise(parameter, *seed, range, out),
            Origin::Checkpoint(folder) => {
                for tensor in parameter.tensors() {
                    let end = tensor.offset + tensor.shape.iter().product::<u64>();
                    let (from, to) = (range.start.max(tensor.offset), range.end.min(end));
                    if from < to {
                        let out = &mut out[(from - range.start) as usize..(to - range.start) as usize];
                        folder.read_elements(&tensor.name, from - tensor.offset..to - tensor.offset, out)?;
                    }
                }
            }
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
            stream(device, View { offset: piece.offset, ..view }, parameter, piece.elements, origin)?;
        }
    }
    for (&id, view) in plan.placement.frozen.iter().zip(&plan.program.frozen) {
        let parameter = &params[id.0 as usize];
        stream(device, *view, parameter, 0..parameter.elements(), origin)?;
    }
    Ok(())
}

/// Elements that pass through host memory at a time.
const CHUNK: u64 = 1 << 16;

/// Copies elements `range` of a parameter to where `view` begins, a chunk at a time.
fn stream(
    device: &mut dyn Device,
    view: View,
    parameter: &Parameter,
    range: Range<u64>,
    origin: Origin,
) -> Result<(), Diagnostic> {
    let mut values = vec![0.0; CHUNK.min(range.end - range.start) as usize];
    let mut start = range.start;
    while start < range.end {
        let end = range.end.min(start + CHUNK);
        let values = &mut values[..(end - start) as usize];
        origin.read(parameter, start..end, values)?;
        device.write(View { offset: view.offset + start - range.start, cols: end - start, ..view }, values);
        start = end;
    }
    Ok(())
}

//! Fills a rank's shards: from scratch, or from the bytes of weights or of a checkpoint that belong to them.

use super::device::Device;
use super::init::initialise;
use crate::checkpoint::Checkpoint;
use crate::diag::Diagnostic;
use crate::model::Parameter;
use crate::plan::{Category, Plan, Role, Slice, Unit, View};
use crate::weights::Folder;
use std::ops::Range;

/// Where a run begins.
#[derive(Clone, Copy)]
pub enum Origin<'a> {
    /// Parameters drawn at random.
    Scratch,
    /// The parameters of a Hugging Face folder.
    Weights(&'a Folder),
    /// Parameters and moments as a run has left them, whatever its layout was.
    Checkpoint(&'a Checkpoint),
}

impl Origin<'_> {
    /// Whether there is something to fill in; moments begin at zero, as the memory does.
    fn gives(&self, role: Role) -> bool {
        role == Role::Parameter || matches!(self, Origin::Checkpoint(_))
    }

    /// Writes elements `range` of what is kept for the flattened parameter to `out`.
    fn read(
        &self,
        (role, parameter): (Role, &Parameter),
        seed: u64,
        range: Range<u64>,
        out: &mut [f32],
    ) -> Result<(), Diagnostic> {
        match self {
            Origin::Scratch => initialise(parameter, seed, range, out),
            Origin::Checkpoint(checkpoint) => checkpoint.read(role, parameter, range, out)?,
            Origin::Weights(folder) => {
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

/// The persistent buffers of one category, in the order of the units.
pub fn shards(plan: &Plan, category: Category) -> impl Iterator<Item = (&Unit, View)> {
    let ids = (0..).map(crate::plan::BufferId);
    let buffers = ids.zip(&plan.program.buffers);
    let shards = buffers
        .filter(move |(_, b)| b.persistent && b.category == category)
        .map(|(buffer, b)| View { buffer, offset: 0, rows: b.rows, cols: b.cols });
    plan.placement.units.iter().zip(shards)
}

/// Fills parameters, frozen parameters and, where a run goes on, moments of `rank`.
///
/// # Errors
/// What the reader of weights or checkpoint reports.
pub fn fill(plan: &Plan, rank: u64, device: &mut dyn Device, origin: Origin) -> Result<(), Diagnostic> {
    let slices = plan.held(rank);
    slices
        .iter()
        .filter(|slice| origin.gives(slice.role))
        .try_for_each(|slice| stream(plan, device, slice, origin))
}

/// Elements that pass through host memory at a time.
const CHUNK: u64 = 1 << 16;

/// Copies the elements of a slice to where it lies, a chunk at a time.
fn stream(plan: &Plan, device: &mut dyn Device, slice: &Slice, origin: Origin) -> Result<(), Diagnostic> {
    let (view, kept) = (slice.view, (slice.role, &plan.params[slice.param.0 as usize]));
    let mut values = vec![0.0; CHUNK.min(slice.len()) as usize];
    for start in (0..slice.len()).step_by(CHUNK as usize) {
        let values = &mut values[..CHUNK.min(slice.len() - start) as usize];
        let (first, cols) = (slice.elements.start + start, values.len() as u64);
        origin.read(kept, plan.train.seed, first..first + cols, values)?;
        device.write(View { offset: view.offset + start, cols, ..view }, values);
    }
    Ok(())
}

//! Fills a rank's shards: from scratch, or from the bytes of weights or of a checkpoint that belong to them.

use super::device::Device;
use super::init::initialise;
use crate::base::Line;
use crate::checkpoint::Checkpoint;
use crate::diag::Diagnostic;
use crate::model::Parameter;
use crate::plan::{Category, Plan, Role, Slice, Unit, View};
use crate::weights::Folder;
use rayon::prelude::*;
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

    /// Writes elements `range` of what is kept for the flattened parameter to `out`, and says how many bytes of files that
    /// took.
    fn read(
        &self,
        (role, parameter): (Role, &Parameter),
        seed: u64,
        range: Range<u64>,
        out: &mut [f32],
    ) -> Result<u64, Diagnostic> {
        let folder = match self {
            Origin::Scratch => {
                initialise(parameter, seed, range, out);
                return Ok(0);
            }
            Origin::Checkpoint(checkpoint) => return checkpoint.read(role, parameter, range, out),
            Origin::Weights(folder) => folder,
        };
        let lines: Vec<(u64, Line)> = parameter.lines(range.clone()).collect();
        let tensors = lines.chunk_by(|a, b| a.0 == b.0).map(|same| {
            let lines: Vec<Line> = same.iter().map(|(_, line)| *line).collect();
            folder.reader(&parameter.tensor_name(same[0].0))?.read(&lines, range.start, out)
        });
        tensors.sum()
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

/// Fills parameters, frozen parameters and, where a run goes on, moments of `rank`, and says how many bytes of files that
/// took.
///
/// # Errors
/// What the reader of weights or checkpoint reports.
pub fn fill(plan: &Plan, rank: u64, device: &mut dyn Device, origin: Origin) -> Result<u64, Diagnostic> {
    let slices = plan.held(rank);
    slices
        .iter()
        .filter(|slice| origin.gives(slice.role))
        .map(|slice| load(plan, device, slice, origin))
        .sum()
}

/// Elements that a thread loads at a time: many enough that transposed matrices are read in long lines.
const CHUNK: usize = 1 << 22;
/// Vectors and routers are searched for values that are no numbers: few elements, and one of them spoils everything.
const SEARCHED: u64 = 1 << 20;

/// Loads the elements of a slice to where it lies.
fn load(plan: &Plan, device: &mut dyn Device, slice: &Slice, origin: Origin) -> Result<u64, Diagnostic> {
    let (parameter, range) = (&plan.params[slice.param.0 as usize], &slice.elements);
    let view = View { cols: slice.len(), ..slice.view };
    let mut bytes = 0;
    device.fill(view, &mut |first, out| {
        let first = range.start + first;
        let chunks = out.par_chunks_mut(CHUNK).enumerate().map(|(i, out)| {
            let first = first + (i * CHUNK) as u64;
            let range = first..first + out.len() as u64;
            origin.read((slice.role, parameter), plan.train.seed, range, out)
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

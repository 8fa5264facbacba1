//! The memory of an NPU rank: what the plan lays out, constants, and scratch memory of single instructions.

use super::Done;
use crate::plan::{Program, View};
use ascend_rs::{DataType, Device, DeviceBuffer, Stream, Tensor};
use std::cell::{Cell, RefCell};

/// Tensors in scratch memory begin on it.
const ALIGNMENT: usize = 512;
/// Scratch memory grows by it.
const GRANULE: usize = 2 << 20;
/// The side of the mask of causal attention, whatever the length of sequences.
const MASK: usize = 2048;

/// Sums of a step that the device keeps.
#[derive(Clone, Copy)]
pub(super) enum Metric {
    Loss,
    /// Squared, of the gradient.
    Norm,
    /// Of multi-token prediction, all layers together.
    Mtp,
    /// Not a sum: the number of the step.
    Step,
}

pub(super) struct Memory {
    /// Persistent region and arena, one behind the other.
    planned: DeviceBuffer,
    arena: usize,
    scratch: RefCell<DeviceBuffer>,
    /// Bytes of scratch memory that the current instruction has taken, and the most that one has.
    taken: Cell<usize>,
    most: Cell<usize>,
    mask: DeviceBuffer,
    /// In 32 bits, in the order of [`Metric`].
    metrics: DeviceBuffer,
}

impl Memory {
    pub fn new(program: &Program, device: &Device) -> Done<Memory> {
        let stream = device.stream()?;
        let planned = device.allocate((program.persistent + program.arena).max(64) as usize)?;
        stream.zero(planned.region(..)?)?;
        let mask = device.allocate(MASK * MASK)?;
        let above: Vec<u8> = (0..MASK * MASK).map(|at| u8::from(at % MASK > at / MASK)).collect();
        stream.upload(mask.region(..)?, &above)?;
        let metrics = device.allocate(64)?;
        stream.zero(metrics.region(..)?)?;
        stream.synchronize()?;
        let scratch = RefCell::new(device.allocate(GRANULE)?);
        let (taken, most) = (Cell::new(0), Cell::new(0));
        Ok(Memory { planned, arena: program.persistent as usize, scratch, taken, most, mask, metrics })
    }

    /// The allocation that holds a view, and the byte it begins at.
    pub fn place(&self, program: &Program, view: View) -> (&DeviceBuffer, usize) {
        let buffer = program.buffer(view.buffer);
        let region = if buffer.persistent { 0 } else { self.arena };
        (&self.planned, region + (buffer.offset + view.offset * buffer.dtype.size()) as usize)
    }

    /// What instructions before this one had in scratch memory is no longer needed: the stream is in order.
    pub fn begin(&self) {
        self.taken.set(0);
    }

    /// A tensor for the current instruction, with any content.
    pub fn scratch(&self, shape: &[u64], of: DataType) -> Done<Tensor> {
        let bytes = (shape.iter().product::<u64>().max(1) as usize * of.bytes()).next_multiple_of(ALIGNMENT);
        let (mut start, there) = (self.taken.get(), self.scratch.borrow().bytes());
        if start + bytes > there {
            // The former one is freed when the tensors of the instruction that lie in it are gone.
            let larger = (2 * (start + bytes)).next_multiple_of(GRANULE);
            let device = self.planned.device().clone();
            self.scratch.replace(device.allocate(larger)?);
            start = 0;
        }
        self.taken.set(start + bytes);
        self.most.set(self.most.get().max(start + bytes));
        let shape: Vec<i64> = shape.iter().map(|size| *size as i64).collect();
        Tensor::new(&self.scratch.borrow(), start, &shape, of)
    }

    /// Above the diagonal 1, what attention does not see.
    pub fn mask(&self) -> Done<Tensor> {
        Tensor::new(&self.mask, 0, &[MASK as i64, MASK as i64], DataType::Bool)
    }

    /// One of the sums of a step.
    pub fn metric(&self, metric: Metric) -> Done<Tensor> {
        Tensor::new(&self.metrics, 4 * metric as usize, &[1], DataType::F32)
    }

    /// Takes the sums: they are 0 afterwards.
    pub fn take_metrics(&self, stream: &Stream) -> Done<[f32; 3]> {
        let mut bytes = [0; 12];
        stream.download(&mut bytes, self.metrics.region(..12)?)?;
        stream.zero(self.metrics.region(..)?)?;
        Ok(bytemuck::cast(bytes))
    }

    /// Bytes set aside, and how many of them have been used.
    pub fn usage(&self) -> (u64, u64) {
        let fixed = self.planned.bytes() + self.mask.bytes() + self.metrics.bytes();
        ((fixed + self.scratch.borrow().bytes()) as u64, (fixed + self.most.get()) as u64)
    }
}

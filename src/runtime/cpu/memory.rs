//! The one block of memory of a CPU rank.

use crate::diag::Diagnostic;
use crate::plan::{Op, Program, View};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// Persistent region and arena, one behind the other, on a cache line boundary.
pub(super) struct Memory {
    start: NonNull<u8>,
    layout: Layout,
    arena: usize,
    /// Behind the last byte that an instruction has touched.
    high_water: usize,
}

// SAFETY: the block is owned by this value alone, and plain bytes may move between threads.
unsafe impl Send for Memory {}

impl Memory {
    /// Zeroed memory for a program. Pages that are never touched are never backed.
    ///
    /// # Errors
    /// More than the machine can give.
    pub fn new(program: &Program) -> Result<Memory, Diagnostic> {
        let bytes = (program.persistent + program.arena).max(64);
        let out_of_memory = || {
            let gib = bytes as f64 / (1u64 << 30) as f64;
            Diagnostic::error(
                "step::runtime::memory",
                format!("a rank needs {gib:.1} GiB, which this machine refused"),
            )
            .help("lower `micro_batch`, `sequence` or the size of the model in the profile for cpu")
        };
        let layout = usize::try_from(bytes).ok().and_then(|size| Layout::from_size_align(size, 64).ok());
        let layout = layout.ok_or_else(out_of_memory)?;
        // SAFETY: the layout has a size above zero.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(out_of_memory)?;
        Ok(Memory {
            start,
            layout,
            arena: program.persistent as usize,
            high_water: program.persistent as usize,
        })
    }

    /// The byte range of the first `elements` of a view.
    fn place<T>(&self, program: &Program, view: View, elements: usize) -> usize {
        let buffer = program.buffer(view.buffer);
        let region = if buffer.persistent { 0 } else { self.arena };
        let start = region + buffer.offset as usize + view.offset as usize * size_of::<T>();
        assert!(
            start + elements * size_of::<T>() <= self.layout.size()
                && size_of::<T>() as u64 == buffer.dtype.size(),
            "the view lies in the block"
        );
        start
    }

    /// A view for reading.
    pub fn get<T: bytemuck::Pod>(&self, program: &Program, view: View, elements: usize) -> &[T] {
        let start = self.place::<T>(program, view, elements);
        // SAFETY: `place` has checked the range; buffers start on cache lines, so `T` is aligned; the bytes were zeroed
        // at the start and any bytes are a `T`. Writers of the same bytes are excluded by the contract of `out`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(start).cast(), elements) }
    }

    /// A view for writing.
    ///
    /// # Safety
    /// While the slice is in use, no other slice of the same bytes may be.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn out<'a, T: bytemuck::Pod>(
        &self,
        program: &Program,
        view: View,
        elements: usize,
    ) -> &'a mut [T] {
        let start = self.place::<T>(program, view, elements);
        // SAFETY: as in `get`; exclusiveness is the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().add(start).cast(), elements) }
    }

    /// Remembers how far up the arena an instruction reaches.
    pub fn note(&mut self, program: &Program, op: &Op) {
        let arena = self.arena;
        let high_water = &mut self.high_water;
        op.operands(|_, view| {
            let buffer = program.buffer(view.buffer);
            if !buffer.persistent {
                let end = arena + (buffer.offset + program.bytes(view.buffer)) as usize;
                *high_water = (*high_water).max(end);
            }
        });
    }

    /// Bytes set aside, and how many of them have been used.
    pub fn usage(&self) -> (u64, u64) {
        (self.layout.size() as u64, self.high_water as u64)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout and freed only here.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

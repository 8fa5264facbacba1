//! The one block of memory of a CPU rank.

use crate::diag::Diagnostic;
use crate::plan::{Op, Program, View};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Persistent region and arena, one behind the other, on a cache line boundary.
pub(super) struct Memory {
    start: NonNull<u8>,
    size: usize,
    /// What was allocated: `start` is its first cache line boundary.
    block: (NonNull<u8>, Layout),
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
        let size = usize::try_from(bytes).map_err(|_| out_of_memory())?;
        // Only for alignments that every block has does the system's allocator hand out pages as they come, zeroed when they
        // are touched; for larger ones it writes the zeros itself, which would back all of them.
        let layout = size.checked_add(LINE).and_then(|size| Layout::from_size_align(size, 16).ok());
        let layout = layout.ok_or_else(out_of_memory)?;
        // SAFETY: the layout has a size above zero.
        let block = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(out_of_memory)?;
        ask_for_large_pages(block, size);
        // SAFETY: the block is a cache line longer than what is used of it.
        let start = unsafe { block.add(block.align_offset(LINE)) };
        Ok(Memory {
            start,
            size,
            block: (block, layout),
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
            start + elements * size_of::<T>() <= self.size && size_of::<T>() as u64 == buffer.dtype.size(),
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
        (self.size as u64, self.high_water as u64)
    }
}

/// Bytes of the pages that a mapping is made of, at most.
#[cfg(target_os = "linux")]
const PAGE: usize = 64 << 10;

/// Large pages where the system has them: touching memory for the first time costs a fault for each page of it, which takes
/// several times as long as filling a small one.
#[cfg(target_os = "linux")]
fn ask_for_large_pages(block: NonNull<u8>, size: usize) {
    let before = block.align_offset(PAGE);
    if let Some(size) = size.checked_sub(before).map(|size| size - size % PAGE).filter(|size| *size > 0) {
        // SAFETY: whole pages inside of the block, whose contents the advice does not change. It is no harm if it is not taken.
        unsafe { libc::madvise(block.add(before).as_ptr().cast(), size, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(target_os = "linux"))]
fn ask_for_large_pages(_: NonNull<u8>, _: usize) {}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout and freed only here.
        unsafe { dealloc(self.block.0.as_ptr(), self.block.1) }
    }
}

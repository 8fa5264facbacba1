//! How kernels share work: tasks on the current rayon pool, and the one door to memory written by several
//! tasks.
//!
//! Tasks are cut by shape, never by who is idle, so that every sum has the same order whatever the timing.

use rayon::iter::{IndexedParallelIterator, ParallelIterator};
use std::marker::PhantomData;

/// Elements a task should touch at least, so that starting it costs little against its work.
pub(super) const GRAIN: usize = 1 << 14;

/// Runs `work` on every task; inline when the pool has one thread.
pub(super) fn run<I: IndexedParallelIterator>(tasks: I, work: impl Fn(I::Item) + Send + Sync) {
    let least = if rayon::current_num_threads() == 1 { usize::MAX } else { 1 };
    tasks.with_min_len(least).for_each(work);
}

/// Runs both, at the same time when the pool has more than one thread.
pub(super) fn join<A: Send, B: Send>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
    if rayon::current_num_threads() == 1 { (a(), b()) } else { rayon::join(a, b) }
}

/// Rows of `cols` elements that make a task of about [`GRAIN`] elements.
pub(super) fn rows_per_task(cols: usize) -> usize {
    (GRAIN / cols.max(1)).max(1)
}

/// A slice that several tasks write, each in places of its own.
pub(super) struct Shared<'a, T> {
    start: *mut T,
    len: usize,
    owner: PhantomData<&'a mut [T]>,
}

// SAFETY: all access goes through the unsafe methods below, whose callers promise disjoint places.
unsafe impl<T: Send> Sync for Shared<'_, T> {}
// SAFETY: as above; the borrow of the slice travels with it.
unsafe impl<T: Send> Send for Shared<'_, T> {}

impl<'a, T> Shared<'a, T> {
    pub(super) fn new(slice: &'a mut [T]) -> Self {
        Shared { start: slice.as_mut_ptr(), len: slice.len(), owner: PhantomData }
    }

    /// The elements `from..from + count`.
    ///
    /// # Safety
    /// While the result lives no other task may reach any of these elements.
    #[allow(clippy::mut_from_ref)]
    pub(super) unsafe fn slice(&self, from: usize, count: usize) -> &mut [T] {
        assert!(from <= self.len && count <= self.len - from, "{from}+{count} of {}", self.len);
        // SAFETY: inside the slice, and the caller promises that nobody else uses these elements.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(from), count) }
    }

    /// The address of a matrix of `rows` x `cols` elements whose rows are `stride` apart, starting at `from`.
    pub(super) fn matrix(&self, from: usize, rows: usize, cols: usize, stride: usize) -> *mut T {
        if rows > 0 && cols > 0 {
            let last = from + (rows - 1) * stride + cols;
            assert!(last <= self.len, "{last} of {}", self.len);
        }
        self.start.wrapping_add(from)
    }
}

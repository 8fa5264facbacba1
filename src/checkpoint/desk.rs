//! Where a rank lays a copy of its state, and a thread takes it from to write it while the rank goes on.

use crate::plan::{Contents, Slice, View};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// What is to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    pub step: u64,
    pub contents: Contents,
}

/// The desk of one rank. Its buffer is set aside once, before the first step.
pub(super) struct Desk {
    slices: Vec<Slice>,
    staged: Option<Contents>,
    stage: Mutex<Stage>,
    changed: Condvar,
}

enum Stage {
    Free(Vec<f32>),
    Full(Vec<f32>, Request),
    /// The thread is writing.
    Busy,
    /// There is no thread, or none any more.
    Closed,
}

impl Desk {
    /// A desk for the parts that a rank writes, with room for those of `staged`.
    pub fn new(slices: Vec<Slice>, staged: Option<Contents>) -> Desk {
        let mut desk = Desk { slices, staged, stage: Mutex::new(Stage::Closed), changed: Condvar::new() };
        if let Some(contents) = staged {
            let elements: u64 = desk.parts(contents).map(Slice::len).sum();
            desk.stage = Mutex::new(Stage::Free(vec![0.0; elements as usize]));
        }
        desk
    }

    /// The parts that belong to such a checkpoint.
    pub fn parts(&self, contents: Contents) -> impl Iterator<Item = &Slice> {
        crate::plan::within(&self.slices, contents)
    }

    /// Whether there is room for such a copy.
    pub fn has_room(&self, contents: Contents) -> bool {
        self.staged == Some(Contents::State) || self.staged == Some(contents)
    }

    /// Bytes of the buffer.
    pub fn bytes(&self) -> u64 {
        let elements = |contents| self.parts(contents).map(Slice::len).sum::<u64>();
        self.staged.map_or(0, |contents| elements(contents) * size_of::<f32>() as u64)
    }

    /// Copies the rank's parts here, as soon as the copy before is on disk. `false`: nobody will write it.
    pub fn hand_over(&self, request: Request, copy: &mut dyn FnMut(View, &mut [f32])) -> bool {
        let mut stage = self.lock();
        loop {
            match std::mem::replace(&mut *stage, Stage::Busy) {
                Stage::Free(mut buffer) => {
                    let mut rest = &mut buffer[..];
                    for slice in self.parts(request.contents) {
                        let (part, behind) = rest.split_at_mut(slice.len() as usize);
                        copy(slice.view, part);
                        rest = behind;
                    }
                    *stage = Stage::Full(buffer, request);
                    self.changed.notify_all();
                    return true;
                }
                Stage::Closed => {
                    *stage = Stage::Closed;
                    return false;
                }
                other => *stage = other,
            }
            stage = self.changed.wait(stage).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// For the thread: the next copy to write, `None` when there will be no more.
    pub fn take(&self) -> Option<(Vec<f32>, Request)> {
        let mut stage = self.lock();
        loop {
            match std::mem::replace(&mut *stage, Stage::Busy) {
                Stage::Full(buffer, request) => return Some((buffer, request)),
                Stage::Closed => {
                    *stage = Stage::Closed;
                    return None;
                }
                other => *stage = other,
            }
            stage = self.changed.wait(stage).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// For the thread: the copy has been written.
    pub fn give_back(&self, buffer: Vec<f32>) {
        self.set(Stage::Free(buffer));
    }

    /// Ends the thread once it has written what it was given.
    pub fn close(&self) {
        let mut stage = self.lock();
        while matches!(*stage, Stage::Full(..) | Stage::Busy) {
            stage = self.changed.wait(stage).unwrap_or_else(PoisonError::into_inner);
        }
        *stage = Stage::Closed;
        self.changed.notify_all();
    }

    /// For a thread that cannot go on.
    pub fn abandon(&self) {
        self.set(Stage::Closed);
    }

    fn set(&self, next: Stage) {
        *self.lock() = next;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Places in memory: persistent buffers one behind the other, all others in an arena that is reused over the step.

use super::program::{BufferId, Program};
use std::collections::BTreeMap;
use std::ops::Range;

/// Every buffer starts on a cache line, which also keeps vector loads aligned.
pub(super) const ALIGN: u64 = 64;

/// Bytes a buffer takes, rounded up to [`ALIGN`].
pub(super) fn resident(program: &Program, id: BufferId) -> u64 {
    program.bytes(id).next_multiple_of(ALIGN)
}

/// From the first instruction that touches a transient buffer to behind the last one.
pub(super) fn lifetimes(program: &Program) -> BTreeMap<BufferId, Range<usize>> {
    let mut lifetimes: BTreeMap<BufferId, Range<usize>> = BTreeMap::new();
    for (at, op) in program.instrs.iter().enumerate() {
        op.operands(|_, view| {
            if !program.buffer(view.buffer).persistent {
                lifetimes.entry(view.buffer).or_insert(at..at).end = at + 1;
            }
        });
    }
    lifetimes
}

/// Gives every buffer its offset and the program its sizes. Walks the list as an allocator would: best fit among the
/// free gaps at a buffer's first instruction, free again behind its last.
pub(super) fn assign(program: &mut Program) {
    let mut persistent = 0;
    for index in 0..program.buffers.len() {
        if program.buffers[index].persistent {
            program.buffers[index].offset = persistent;
            persistent += resident(program, BufferId(index as u32));
        }
    }
    let mut ends: Vec<Vec<BufferId>> = vec![Vec::new(); program.instrs.len() + 1];
    let mut starts = ends.clone();
    for (id, life) in lifetimes(program) {
        starts[life.start].push(id);
        ends[life.end].push(id);
    }
    let mut arena = Arena::default();
    for (ended, started) in ends.iter().zip(&starts) {
        for &id in ended {
            arena.free(program.buffer(id).offset, resident(program, id));
        }
        for &id in started {
            program.buffers[id.0 as usize].offset = arena.allocate(resident(program, id));
        }
    }
    program.persistent = persistent;
    program.arena = arena.size;
}

/// Free gaps by offset below `size`, the high-water mark; neighbours are always merged.
#[derive(Default)]
struct Arena {
    gaps: BTreeMap<u64, u64>,
    size: u64,
}

impl Arena {
    fn allocate(&mut self, bytes: u64) -> u64 {
        let fitting = self.gaps.iter().filter(|(_, gap)| **gap >= bytes).min_by_key(|(_, gap)| **gap);
        let (offset, gap) = match fitting {
            Some((&offset, &gap)) => (offset, gap),
            // Grow at the end, starting inside the last gap where it touches the end.
            None => match self.gaps.last_key_value() {
                Some((&offset, &gap)) if offset + gap == self.size => (offset, gap),
                _ => (self.size, 0),
            },
        };
        self.gaps.remove(&offset);
        if gap > bytes {
            self.gaps.insert(offset + bytes, gap - bytes);
        }
        self.size = self.size.max(offset + bytes);
        offset
    }

    fn free(&mut self, mut offset: u64, mut bytes: u64) {
        if bytes == 0 {
            return;
        }
        if let Some((&before, &gap)) = self.gaps.range(..offset).next_back()
            && before + gap == offset
        {
            self.gaps.remove(&before);
            (offset, bytes) = (before, gap + bytes);
        }
        if let Some(gap) = self.gaps.remove(&(offset + bytes)) {
            bytes += gap;
        }
        self.gaps.insert(offset, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::Arena;

    #[test]
    fn gaps_are_merged_and_reused() {
        let mut arena = Arena::default();
        let a = arena.allocate(64);
        let b = arena.allocate(128);
        let c = arena.allocate(64);
        arena.free(a, 64);
        arena.free(b, 128);
        assert_eq!(arena.allocate(192), a);
        arena.free(c, 64);
        assert_eq!(arena.allocate(256), c, "the last gap grows");
        assert_eq!(arena.size, 448);
    }
}

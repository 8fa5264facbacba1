//! Places in memory: persistent buffers one behind the other, all others in an arena that is reused over the step.

use super::program::{BufferId, Program};
use std::cmp::Reverse;
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

/// Gives every buffer its offset and the program its sizes.
pub(super) fn assign(program: &mut Program) {
    let mut persistent = 0;
    for index in 0..program.buffers.len() {
        if program.buffers[index].persistent {
            program.buffers[index].offset = persistent;
            persistent += resident(program, BufferId(index as u32));
        }
    }
    let lives: Vec<(BufferId, Range<usize>)> = lifetimes(program).into_iter().collect();
    let blocks = lives.iter().map(|(id, life)| Block { life: life.clone(), bytes: resident(program, *id) });
    let offsets = place(&blocks.collect::<Vec<_>>());
    program.persistent = persistent;
    program.arena = 0;
    for ((id, _), offset) in lives.iter().zip(offsets) {
        program.buffers[id.0 as usize].offset = offset;
        program.arena = program.arena.max(offset + resident(program, *id));
    }
}

/// Bytes that are needed from one instruction to another.
struct Block {
    life: Range<usize>,
    bytes: u64,
}

/// A block that has its place.
struct Placed {
    place: Range<u64>,
    life: Range<usize>,
}

/// An offset for each block, so that no two overlap that are alive together.
///
/// The largest one goes first, of equal ones that which lives longest, each into the lowest gap between those that are
/// alive with it (Pisarchyk and Lee 2020, greedy by size, arXiv:2001.03288). An allocator that walks the instructions
/// and knows nothing of what comes leaves up to a third of such an arena unused where units are large.
fn place(blocks: &[Block]) -> Vec<u64> {
    let mut order: Vec<usize> = (0..blocks.len()).collect();
    order.sort_by_key(|&i| Reverse((blocks[i].bytes, blocks[i].life.len())));
    let mut offsets = vec![0; blocks.len()];
    // By offset.
    let mut placed: Vec<Placed> = Vec::with_capacity(blocks.len());
    for index in order {
        let Block { life, bytes } = &blocks[index];
        let mut offset = 0;
        for Placed { place, life: other } in &placed {
            if other.start < life.end && life.start < other.end {
                if place.start >= offset + bytes {
                    break;
                }
                offset = offset.max(place.end);
            }
        }
        offsets[index] = offset;
        let at = placed.partition_point(|block| block.place.start <= offset);
        placed.insert(at, Placed { place: offset..offset + bytes, life: life.clone() });
    }
    offsets
}

#[cfg(test)]
mod tests {
    use super::{Block, place};
    use proptest::prelude::*;
    use std::ops::Range;

    fn placed(blocks: &[(Range<usize>, u64)]) -> Vec<u64> {
        let block = |(life, bytes): &(Range<usize>, u64)| Block { life: life.clone(), bytes: *bytes };
        place(&blocks.iter().map(block).collect::<Vec<_>>())
    }

    #[test]
    fn gaps_are_used_again() {
        // The last one fits below the long one only when that has been put above the two short ones.
        assert_eq!(placed(&[(0..2, 64), (2..4, 128), (1..4, 64), (0..4, 256)]), [256, 256, 384, 0]);
    }

    proptest! {
        #[test]
        fn blocks_that_live_together_lie_apart(
            blocks in prop::collection::vec((0usize..40, 1usize..12, 0u64..200), 0..60)
        ) {
            let blocks: Vec<_> = blocks.into_iter().map(|(at, for_, bytes)| (at..at + for_, bytes)).collect();
            let offsets = placed(&blocks);
            for (i, (a, bytes)) in blocks.iter().enumerate() {
                for (j, (b, others)) in blocks.iter().enumerate().take(i) {
                    let together = a.start < b.end && b.start < a.end;
                    let apart = offsets[i] + bytes <= offsets[j] || offsets[j] + others <= offsets[i];
                    prop_assert!(!together || apart);
                }
            }
        }
    }
}

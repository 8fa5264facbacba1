//! Room for the operands of one instruction in f32, for a device whose kernels compute in nothing else.
//!
//! The CPU device keeps half-precision buffers as they are, widens what an instruction reads, runs it in f32 and rounds
//! what it wrote. The room is a buffer of the plan like every other, so the plan's memory is what the device uses.

use super::arena::ALIGN;
use super::memory::Category;
use super::ops::Op;
use super::program::{Buffer, BufferId, Program, Rows, View};
use crate::base::DType;

/// Bytes that the widened elements of an operand take.
pub fn widened(elements: u64) -> u64 {
    (elements * DType::F32.size()).next_multiple_of(ALIGN)
}

/// Bytes that the instruction with the largest half-precision operands needs.
pub(super) fn needed(program: &Program) -> u64 {
    let of = |op: &Op| {
        let mut bytes = 0;
        op.operands(|_, view| {
            if program.buffer(view.buffer).dtype.is_half() {
                bytes += widened(program.rows(view.rows).saturating_mul(view.cols));
            }
        });
        bytes
    };
    program.instrs.iter().map(of).max().unwrap_or(0)
}

/// Sets the room aside where the program has half-precision operands.
pub(super) fn add(program: &mut Program) {
    let (bytes, rows) = (needed(program), Rows::Fixed(1));
    if bytes == 0 {
        return;
    }
    let (dtype, cols) = (DType::F32, bytes / DType::F32.size());
    let buffer = BufferId(program.buffers.len() as u32);
    let (name, category) = ("workspace".to_owned(), Category::Workspace);
    program.buffers.push(Buffer { name, dtype, rows, cols, category, persistent: true, offset: 0 });
    program.workspace = Some(View { buffer, offset: 0, rows, cols });
}

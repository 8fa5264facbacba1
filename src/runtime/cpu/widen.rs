//! Half-precision operands: widened to f32 before an instruction, rounded to what they are behind it.

use super::Cpu;
use crate::base::DType;
use crate::kernels;
use crate::plan::{Access, Op, View, widened};
use half::{bf16, f16};

/// An operand of the current instruction and its f32 elements inside the workspace.
pub(super) struct Widened {
    access: Access,
    narrow: View,
    wide: View,
}

/// No instruction has more operands.
const MOST_OPERANDS: usize = 16;

/// Room for the operands of any instruction.
pub(super) fn room() -> Vec<Widened> {
    Vec::with_capacity(MOST_OPERANDS)
}

impl Cpu {
    /// Lays out the workspace for the half-precision operands of `op` and widens those that it reads.
    pub(super) fn widen(&mut self, op: &Op) {
        self.widened.clear();
        let Some(workspace) = self.plan.program.workspace else { return };
        let (program, all) = (&self.plan.program, &mut self.widened);
        let mut offset = 0;
        op.operands(|access, narrow| {
            if program.buffer(narrow.buffer).dtype.is_half() {
                all.push(Widened {
                    access,
                    narrow,
                    wide: View { offset, ..View { buffer: workspace.buffer, ..narrow } },
                });
                offset += widened(program.rows(narrow.rows) * narrow.cols) / DType::F32.size();
            }
        });
        for operand in self.widened.iter().filter(|operand| operand.access != Access::Write) {
            self.load_wide(operand.narrow, self.stored_mut(operand.wide));
        }
    }

    /// The elements of a floating-point view in f32.
    pub(super) fn load_wide(&self, view: View, wide: &mut [f32]) {
        match self.dtype(view) {
            DType::Bf16 => kernels::widen::<bf16>(wide, self.stored(view)),
            DType::F16 => kernels::widen::<f16>(wide, self.stored(view)),
            _ => wide.copy_from_slice(self.stored(view)),
        }
    }

    /// The inverse, rounding to the nearest, ties to even.
    pub(super) fn store_wide(&self, view: View, wide: &[f32]) {
        match self.dtype(view) {
            DType::Bf16 => kernels::narrow::<bf16>(self.stored_mut(view), wide),
            DType::F16 => kernels::narrow::<f16>(self.stored_mut(view), wide),
            _ => self.stored_mut::<f32>(view).copy_from_slice(wide),
        }
    }

    /// Rounds what the instruction has written.
    pub(super) fn narrow(&mut self) {
        for operand in self.widened.iter().filter(|operand| operand.access != Access::Read) {
            self.store_wide(operand.narrow, self.stored(operand.wide));
        }
        self.widened.clear();
    }

    /// Where the f32 elements of an operand are: in the workspace if its own are narrower.
    pub(super) fn wide(&self, view: View) -> View {
        self.widened.iter().find(|operand| operand.narrow == view).map_or(view, |operand| operand.wide)
    }

    fn dtype(&self, view: View) -> DType {
        self.plan.program.buffer(view.buffer).dtype
    }
}

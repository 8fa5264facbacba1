//! The CPU device: kernels on one block of host memory, collectives through a [`Communicator`].

mod collectives;
mod compute;
mod memory;
mod widen;

use super::device::{Device, Fill, Scalars};
use super::peers::Peers;
use super::rope;
use crate::comm::Communicator;
use crate::data::Sequence;
use crate::diag::Diagnostic;
use crate::kernels;
use crate::plan::{Op, Plan, Rows, Stream, View};
use memory::Memory;
use std::sync::Arc;
use widen::Widened;

/// Elements of a half-precision buffer that are filled at a time.
const FILLED: u64 = 1 << 22;

/// One rank's device.
pub struct Cpu {
    plan: Arc<Plan>,
    memory: Memory,
    peers: Peers,
    /// Boundaries of the documents in the micro batch.
    segments: Vec<u32>,
    /// The half-precision operands of the instruction that runs.
    widened: Vec<Widened>,
}

impl Cpu {
    /// Allocates what the plan says and nothing else.
    ///
    /// # Errors
    /// A size that the kernels do not have, or a group of ranks that cannot be formed.
    pub fn new(plan: Arc<Plan>, comm: Box<dyn Communicator>) -> Result<Cpu, Diagnostic> {
        Cpu::supports(&plan)?;
        let peers = Peers::new(&plan, comm)?;
        let tokens = plan.train.micro_batch * plan.data.sequence;
        let mut cpu = Cpu {
            memory: Memory::new(&plan.program)?,
            segments: Vec::with_capacity(tokens as usize + 1),
            widened: widen::room(),
            peers,
            plan,
        };
        cpu.fill_ropes();
        Ok(cpu)
    }

    /// Whether this device has kernels for the sizes of a plan.
    ///
    /// # Errors
    /// The first size beyond what a kernel was made for.
    pub fn supports(plan: &Plan) -> Result<(), Diagnostic> {
        plan.program.instrs.iter().try_for_each(|op| {
            let sizes: &[(&str, u64, usize)] = match op {
                Op::MoeGatingTopK { index, groups, .. } => {
                    &[("top_k", index.cols, kernels::MOST_TOP_K), ("groups", *groups, kernels::MOST_GROUPS)]
                }
                Op::FlashAttentionScore { heads, .. } => &[
                    ("head_dim", heads.head_dim, kernels::MOST_HEAD_DIM),
                    ("value_dim", heads.value_dim, kernels::MOST_HEAD_DIM),
                ],
                _ => &[],
            };
            let beyond = sizes.iter().find(|(_, size, most)| *size > *most as u64);
            let Some((what, size, most)) = beyond else { return Ok(()) };
            let message = format!("the CPU engine computes `{what}` up to {most}, not {size}");
            Err(Diagnostic::error("step::run::unsupported", message)
                .help(format!("lower `{what}` in the profile for cpu")))
        })
    }

    fn fill_ropes(&mut self) {
        let plan = Arc::clone(&self.plan);
        for rope in &plan.program.ropes {
            rope::fill(self.out(rope.cos), self.out(rope.sin), rope, plan.data.sequence);
        }
    }

    /// An operand for reading, in f32 where its buffer is narrower.
    fn get<T: bytemuck::Pod>(&self, view: View) -> &[T] {
        self.stored(self.wide(view))
    }

    /// An operand for writing, in f32 where its buffer is narrower.
    fn out<'a, T: bytemuck::Pod>(&self, view: View) -> &'a mut [T] {
        self.stored_mut(self.wide(view))
    }

    /// The elements of a view as its buffer has them.
    fn stored<T: bytemuck::Pod>(&self, view: View) -> &[T] {
        self.memory.get(&self.plan.program, view, self.peers.elements(view))
    }

    /// The same for writing.
    ///
    /// The slice does not borrow the device, so that an instruction can hold its inputs and outputs at once; see
    /// [`Memory::out`] for why they never overlap.
    fn stored_mut<'a, T: bytemuck::Pod>(&self, view: View) -> &'a mut [T] {
        // SAFETY: the plan has been verified: the operands that an instruction writes overlap none of its others, their
        // widened copies have places of their own in the workspace, and every caller drops the slice before the next
        // instruction runs.
        unsafe { self.memory.out(&self.plan.program, view, self.peers.elements(view)) }
    }
}

impl Device for Cpu {
    fn load(&mut self, sequences: &[Arc<Sequence>]) {
        let program = &self.plan.program;
        let [tokens, labels, positions] = [program.tokens, program.labels, program.positions];
        let (tokens, positions) = (self.out::<u32>(tokens), self.out::<u32>(positions));
        let labels = self.out::<i32>(labels);
        let length = self.plan.data.sequence as usize;
        self.segments.clear();
        self.segments.push(0);
        for (i, sequence) in sequences.iter().enumerate() {
            let at = i * length..(i + 1) * length;
            tokens[at.clone()].copy_from_slice(&sequence.tokens);
            labels[at.clone()].copy_from_slice(&sequence.labels);
            positions[at.clone()].copy_from_slice(&sequence.positions);
            self.segments.extend(sequence.segments[1..].iter().map(|end| at.start as u32 + end));
        }
    }

    fn run(&mut self, op: &Op, scalars: &mut Scalars) -> Result<(), Diagnostic> {
        self.memory.note(&self.plan.program, op);
        self.widen(op);
        match op.stream() {
            Stream::Comm => self.communicate(op, scalars)?,
            Stream::Compute => self.compute(op, scalars),
        }
        self.narrow();
        Ok(())
    }

    fn fill(&mut self, view: View, fill: &mut Fill) -> Result<(), Diagnostic> {
        if !self.dtype(view).is_half() {
            return fill(0, self.stored_mut(view));
        }
        let elements = self.peers.elements(view) as u64;
        let mut wide = vec![0.0; FILLED.min(elements) as usize];
        (0..elements).step_by(FILLED as usize).try_for_each(|first| {
            let cols = FILLED.min(elements - first);
            let wide = &mut wide[..cols as usize];
            fill(first, wide)?;
            self.store_wide(View { offset: view.offset + first, rows: Rows::Fixed(1), cols, ..view }, wide);
            Ok(())
        })
    }

    fn copy(&self, view: View, out: &mut [f32]) {
        self.load_wide(view, out);
    }

    fn read(&self, view: View) -> Vec<f32> {
        let mut values = vec![0.0; self.peers.elements(view)];
        self.load_wide(view, &mut values);
        values
    }

    fn least(&mut self, number: u64) -> Result<u64, Diagnostic> {
        self.peers.least(number)
    }

    fn memory(&self) -> (u64, u64) {
        self.memory.usage()
    }
}

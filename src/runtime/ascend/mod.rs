//! An Ascend NPU: every instruction as operators of aclnn, collectives through HCCL.
//!
//! The plan's memory is one allocation. What an instruction needs beside its operands, because aclnn has no single operator for
//! it, is scratch memory that each instruction uses anew. Numbers that the host must know, how many rows a router sends where
//! and the norm that gradients are clipped to, travel over the host's own [`Communicator`].

mod attention;
mod collectives;
mod dense;
mod experts;
mod failure;
mod loss;
mod memory;
mod optimizer;
mod supports;

use super::device::{Device, Fill, Scalars};
use super::peers::Peers;
use super::rope;
use crate::base::DType;
use crate::comm::Communicator;
use crate::data::Sequence;
use crate::diag::Diagnostic;
use crate::plan::{Axis, Op, Plan, Rows, Sum, View};
use ascend_rs::{Call, Communicator as Hccl, DataType, Runtime, Stream, Tensor, ops};
use failure::{Refused, refused};
use memory::Memory;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a call of CANN gives inside of this device.
type Done<T = ()> = Result<T, ascend_rs::Error>;

/// Elements that are filled at a time.
const FILLED: u64 = 1 << 22;

/// The NPUs of this machine, looked for when they are first asked for. From then on CANN stays initialised while this lives.
#[derive(Default)]
pub struct Npus(OnceCell<Option<Runtime>>);

impl Npus {
    /// How many there are; without CANN there are none.
    pub fn count(&self) -> u64 {
        let runtime = self.0.get_or_init(|| Runtime::init().ok());
        runtime.as_ref().and_then(|runtime| runtime.devices().ok()).map_or(0, u64::from)
    }
}

/// One rank's NPU.
pub struct Ascend {
    plan: Arc<Plan>,
    memory: Memory,
    stream: Stream,
    peers: Peers,
    /// The groups of ranks on the NPUs, of those that have more than one member.
    devices: BTreeMap<Axis, Hccl>,
    /// Where the documents of the micro batch end.
    ends: Vec<i64>,
    /// What went wrong where nothing can be reported: the next instruction reports it.
    fault: Option<ascend_rs::Error>,
}

impl Ascend {
    /// Opens NPU `id` and allocates what the plan says. All ranks call it, since it joins their groups.
    ///
    /// # Errors
    /// No such device, not enough memory on it, an operator that this installation lacks, or a rank that does not come.
    pub fn new(plan: Arc<Plan>, comm: Box<dyn Communicator>, id: i32) -> Result<Ascend, Diagnostic> {
        Ascend::supports(&plan)?;
        let rank = u64::from(comm.rank());
        let peers = Peers::new(&plan, comm)?;
        let opened = |error| refused(rank, "opening", &error);
        let runtime = Runtime::init().map_err(opened)?;
        let device = ascend_rs::Device::open(&runtime, id).map_err(opened)?;
        let stream = device.stream().map_err(opened)?;
        let memory =
            Memory::new(&plan.program, &device).map_err(|error| refused(rank, "allocating", &error))?;
        let devices = collectives::join(&device, &peers)?;
        let ascend = Ascend { plan, memory, stream, peers, devices, ends: Vec::new(), fault: None };
        ascend.fill_ropes().map_err(|error| refused(rank, "filling", &error))?;
        Ok(ascend)
    }

    fn fill_ropes(&self) -> Done {
        for table in &self.plan.program.ropes {
            let elements = self.elements(table.cos);
            let (mut cos, mut sin) = (vec![0.0; elements], vec![0.0; elements]);
            rope::fill(&mut cos, &mut sin, table, self.plan.data.sequence);
            self.upload(table.cos, bytemuck::cast_slice(&cos))?;
            self.upload(table.sin, bytemuck::cast_slice(&sin))?;
        }
        Ok(())
    }

    fn rows(&self, view: View) -> u64 {
        self.peers.rows(view)
    }

    fn elements(&self, view: View) -> usize {
        self.peers.elements(view)
    }

    fn dtype(&self, view: View) -> DataType {
        data_type(self.plan.program.buffer(view.buffer).dtype)
    }

    /// A view as the matrix that it is.
    fn matrix(&self, view: View) -> Done<Tensor> {
        self.shaped(view, &[self.rows(view), view.cols])
    }

    /// The elements of a view in another shape.
    fn shaped(&self, view: View, shape: &[u64]) -> Done<Tensor> {
        let (memory, start) = self.memory.place(&self.plan.program, view);
        Tensor::new(memory, start, &signed(shape), self.dtype(view))
    }

    /// Some elements of a view, the first of them `offset` behind its start.
    fn strided(&self, view: View, offset: u64, shape: &[u64], strides: &[u64]) -> Done<Tensor> {
        let of = self.dtype(view);
        let (memory, start) = self.memory.place(&self.plan.program, view);
        Tensor::strided(memory, start + offset as usize * of.bytes(), &signed(shape), &signed(strides), of)
    }

    fn upload_batch(&mut self, sequences: &[Arc<Sequence>]) -> Done {
        self.ends.clear();
        for (number, sequence) in sequences.iter().enumerate() {
            let start = number as i64 * self.plan.data.sequence as i64;
            self.ends.extend(sequence.segments[1..].iter().map(|end| start + i64::from(*end)));
        }
        let program = &self.plan.program;
        let [mut tokens, mut labels, mut positions] = [const { Vec::new() }; 3];
        for sequence in sequences {
            tokens.extend(sequence.tokens.iter().map(|token| token.cast_signed()));
            labels.extend_from_slice(&sequence.labels);
            positions.extend(sequence.positions.iter().map(|position| position.cast_signed()));
        }
        for (view, numbers) in
            [(program.tokens, tokens), (program.labels, labels), (program.positions, positions)]
        {
            self.upload(view, bytemuck::cast_slice(&numbers))?;
        }
        Ok(())
    }

    fn launch(&self, call: Done<Call<'_>>) -> Done {
        self.stream.launch(call?)
    }

    /// Lets `write` write a result, at once or, where it is to be added to what is there, by way of scratch memory of `of`.
    fn sum(
        &self,
        sum: Sum,
        micro: u64,
        shape: &[u64],
        of: DataType,
        write: impl FnOnce(&Tensor) -> Done,
    ) -> Done {
        self.add_or_write(sum.view, sum.mode.adds(micro), shape, of, write)
    }

    fn add_or_write(
        &self,
        view: View,
        adds: bool,
        shape: &[u64],
        of: DataType,
        write: impl FnOnce(&Tensor) -> Done,
    ) -> Done {
        let result = self.shaped(view, shape)?;
        if !adds && of == self.dtype(view) {
            return write(&result);
        }
        let part = self.memory.scratch(shape, of)?;
        write(&part)?;
        match adds {
            true => self.launch(ops::inplace_add(&result, &part, &ascend_rs::Scalar::f32(1.0)?)),
            false => self.launch(ops::inplace_copy(&result, &part)),
        }
    }

    fn upload(&self, view: View, bytes: &[u8]) -> Done {
        let (memory, start) = self.memory.place(&self.plan.program, view);
        self.stream.upload(memory.region(start..start + bytes.len())?, bytes)
    }

    fn download(&self, view: View, bytes: &mut [u8]) -> Done {
        let (memory, start) = self.memory.place(&self.plan.program, view);
        self.stream.download(bytes, memory.region(start..start + bytes.len())?)
    }

    /// The numbers of a view, widened.
    fn numbers(&self, view: View, out: &mut [f32]) -> Done {
        let of = self.plan.program.buffer(view.buffer).dtype;
        if matches!(of, DType::F32 | DType::I32) {
            return self.download(view, bytemuck::cast_slice_mut(out));
        }
        let mut narrow = vec![0u8; out.len() * of.size() as usize];
        self.download(view, &mut narrow)?;
        match of {
            DType::Bf16 => crate::kernels::widen::<half::bf16>(out, bytemuck::cast_slice(&narrow)),
            DType::F16 => crate::kernels::widen::<half::f16>(out, bytemuck::cast_slice(&narrow)),
            DType::F32 | DType::I32 => {}
        }
        Ok(())
    }

    /// Writes numbers to a view, rounded to its type.
    fn store(&self, view: View, values: &[f32]) -> Done {
        match self.plan.program.buffer(view.buffer).dtype {
            DType::Bf16 => {
                let mut narrow = vec![half::bf16::ZERO; values.len()];
                crate::kernels::narrow(&mut narrow, values);
                self.upload(view, bytemuck::cast_slice(&narrow))
            }
            DType::F16 => {
                let mut narrow = vec![half::f16::ZERO; values.len()];
                crate::kernels::narrow(&mut narrow, values);
                self.upload(view, bytemuck::cast_slice(&narrow))
            }
            _ => self.upload(view, bytemuck::cast_slice(values)),
        }
    }

    fn execute(&mut self, op: &Op, scalars: &mut Scalars) -> Result<(), Refused> {
        self.memory.begin();
        let micro = scalars.micro;
        match op {
            op if op.stream() == crate::plan::Stream::Comm => return self.communicate(op, scalars),
            Op::CrossEntropy { .. } | Op::Softcap { .. } | Op::ShiftLabels { .. } => self.loss(op, scalars),
            Op::SumSquares { .. } | Op::ApplyAdamW { .. } => self.optimize(op, scalars),
            Op::RotaryPositionEmbedding { .. }
            | Op::LatentKeyValue { .. }
            | Op::LatentKeyValueGrad { .. }
            | Op::FlashAttentionScore { .. }
            | Op::FlashAttentionScoreGrad { .. }
            | Op::HeadGate { .. }
            | Op::HeadGateGrad { .. } => self.attend(op),
            op => match self.dense(op, micro)? {
                true => Ok(()),
                false => self.experts(op, micro),
            },
        }?;
        Ok(())
    }
}

fn signed(sizes: &[u64]) -> Vec<i64> {
    sizes.iter().map(|size| *size as i64).collect()
}

/// What aclnn calls the type.
fn data_type(of: DType) -> DataType {
    match of {
        DType::F32 => DataType::F32,
        DType::Bf16 => DataType::BF16,
        DType::F16 => DataType::F16,
        _ => DataType::I32,
    }
}

impl Device for Ascend {
    fn load(&mut self, sequences: &[Arc<Sequence>]) {
        self.fault = self.upload_batch(sequences).err();
    }

    fn run(&mut self, op: &Op, scalars: &mut Scalars) -> Result<(), Diagnostic> {
        let rank = u64::from(self.peers.comm.rank());
        if let Some(error) = self.fault.take() {
            return Err(refused(rank, "loading a micro batch", &error));
        }
        self.execute(op, scalars).map_err(|refusal| refusal.diagnostic(rank, op.name()))
    }

    fn fill(&mut self, view: View, fill: &mut Fill) -> Result<(), Diagnostic> {
        let rank = u64::from(self.peers.comm.rank());
        let elements = self.elements(view) as u64;
        let mut wide = vec![0.0; FILLED.min(elements) as usize];
        (0..elements).step_by(FILLED as usize).try_for_each(|first| {
            let cols = FILLED.min(elements - first);
            let wide = &mut wide[..cols as usize];
            fill(first, wide)?;
            let part = View { offset: view.offset + first, rows: Rows::Fixed(1), cols, ..view };
            self.store(part, wide).map_err(|error| refused(rank, "filling", &error))
        })
    }

    fn copy(&self, view: View, out: &mut [f32]) {
        // What is wrong with the device shows at the next instruction.
        if self.numbers(view, out).is_err() {
            out.fill(f32::NAN);
        }
    }

    fn read(&self, view: View) -> Vec<f32> {
        let mut values = vec![0.0; self.elements(view)];
        self.copy(view, &mut values);
        values
    }

    fn least(&mut self, number: u64) -> Result<u64, Diagnostic> {
        self.peers.least(number)
    }

    fn memory(&self) -> (u64, u64) {
        self.memory.usage()
    }
}

//! The program: buffers, instructions and the ranges of the list that repeat.

use super::memory::Category;
use super::mesh::Axis;
use super::ops::Op;
use crate::base::DType;
use crate::recipe;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Index of a buffer in [`Program::buffers`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BufferId(pub u32);

/// Index of a routing in [`Program::routed`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SlotId(pub u32);

/// Number of rows of a matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Rows {
    Fixed(u64),
    /// The token rows that the router of a layer sends to this rank: known only when it runs.
    Routed(SlotId),
}

/// What is known beforehand of the rows that a router sends to one rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Routed {
    pub name: String,
    /// Experts of all ranks together.
    pub experts: u64,
    /// Rows when all experts get the same number of tokens.
    pub balanced: u64,
    /// Rows that can come at most: every token of the ep group picks as many of this rank's experts as it can.
    pub bound: u64,
    /// Rows that memory is set aside for, between the two.
    pub capacity: u64,
}

/// A row-major matrix inside a buffer. Written as `(buffer, offset, rows, cols)` in a plan's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "(BufferId, u64, Rows, u64)", into = "(BufferId, u64, Rows, u64)")]
pub struct View {
    pub buffer: BufferId,
    /// Elements of the buffer before the first one of the view.
    pub offset: u64,
    pub rows: Rows,
    pub cols: u64,
}

impl From<(BufferId, u64, Rows, u64)> for View {
    fn from((buffer, offset, rows, cols): (BufferId, u64, Rows, u64)) -> View {
        View { buffer, offset, rows, cols }
    }
}

impl From<View> for (BufferId, u64, Rows, u64) {
    fn from(view: View) -> Self {
        (view.buffer, view.offset, view.rows, view.cols)
    }
}

impl View {
    /// The same elements with another number of columns; `cols` divides or multiplies the present one.
    pub fn reshape(self, rows: u64, cols: u64) -> View {
        View { rows: Rows::Fixed(rows), cols, ..self }
    }

    /// Rows `range` of a view with a fixed number of rows.
    pub fn slice(self, range: Range<u64>) -> View {
        View {
            offset: self.offset + range.start * self.cols,
            rows: Rows::Fixed(range.end - range.start),
            ..self
        }
    }
}

/// A named piece of memory of every rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Buffer {
    pub name: String,
    pub dtype: DType,
    pub rows: Rows,
    pub cols: u64,
    pub category: Category,
    /// Persistent buffers live as long as the run, the others from their first to their last instruction.
    pub persistent: bool,
    /// Bytes from the start of the arena (of the persistent region for persistent buffers).
    pub offset: u64,
}

/// Rotary position tables to fill before the first step: `cos` and `sin` `[positions, rotary / 2]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rope {
    pub cos: View,
    pub sin: View,
    /// Channels of a head that rotate.
    pub rotary: u64,
    pub config: recipe::Rope,
}

/// The flat list that every rank runs for a step, and the memory that it runs in.
///
/// `begin` runs once, `micro` once for each micro batch, `update` once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Program {
    pub buffers: Vec<Buffer>,
    pub routed: Vec<Routed>,
    pub ropes: Vec<Rope>,
    pub instrs: Vec<Op>,
    pub begin: Range<usize>,
    pub micro: Range<usize>,
    pub update: Range<usize>,
    /// Micro batches a step.
    pub accumulation: u64,
    /// Bytes of the persistent region and of the arena for all other buffers.
    pub persistent: u64,
    pub arena: u64,
    /// Token ids, next-token labels (−1: none) and positions of the micro batch, `[tokens, 1]`.
    pub tokens: View,
    pub labels: View,
    pub positions: View,
    /// The frozen parameters, in the order of the placement.
    pub frozen: Vec<View>,
    /// `[tokens, vocab]` where the program only goes forward.
    pub logits: Option<View>,
    /// Where a device that computes in f32 widens half-precision operands, one instruction at a time.
    pub workspace: Option<View>,
}

impl Program {
    /// The buffer behind an id.
    pub fn buffer(&self, id: BufferId) -> &Buffer {
        &self.buffers[id.0 as usize]
    }

    /// The rows that memory is set aside for.
    pub fn rows(&self, rows: Rows) -> u64 {
        match rows {
            Rows::Fixed(n) => n,
            Rows::Routed(slot) => self.routed[slot.0 as usize].capacity,
        }
    }

    /// The rows when routing is balanced.
    pub fn balanced_rows(&self, rows: Rows) -> u64 {
        match rows {
            Rows::Fixed(n) => n,
            Rows::Routed(slot) => self.routed[slot.0 as usize].balanced,
        }
    }

    /// Bytes set aside for a buffer.
    pub fn bytes(&self, id: BufferId) -> u64 {
        let buffer = self.buffer(id);
        self.rows(buffer.rows) * buffer.cols * buffer.dtype.size()
    }

    /// The axes that its collectives run over.
    pub fn axes(&self) -> Vec<Axis> {
        let mut axes: Vec<Axis> = self.instrs.iter().filter_map(Op::axis).collect();
        axes.sort();
        axes.dedup();
        axes
    }
}

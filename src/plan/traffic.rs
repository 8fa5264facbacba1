//! What a rank sends in a step.

use super::mesh::{Axis, Mesh};
use super::ops::Op;
use super::program::{Program, View};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Bytes that one rank sends in a step, by collective and axis, with balanced routing and ring algorithms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    pub sent: BTreeMap<(String, Axis), u64>,
}

impl Traffic {
    /// Sums the collectives of a program over the micro batches of a step.
    pub fn of(program: &Program, mesh: &Mesh) -> Traffic {
        let mut sent = BTreeMap::new();
        for (at, op) in program.instrs.iter().enumerate() {
            let Some(axis) = op.axis() else { continue };
            let ranks = mesh.size(axis);
            let (data, passes) = match op {
                // Ring: every rank passes all shards but one on; an all-reduce does it twice.
                Op::Gather { full, .. } | Op::ReduceScatter { full, .. } => (bytes(program, *full), 1),
                Op::AllReduce { data, .. } => (bytes(program, *data), 2),
                // A balanced rank keeps one share of its rows.
                Op::Dispatch { out: rows, .. } | Op::Combine { rows, .. } => (bytes(program, *rows), 1),
                _ => continue,
            };
            let times = if program.micro.contains(&at) { program.accumulation } else { 1 };
            let total = data * passes * (ranks - 1) / ranks * times;
            *sent.entry((op.name().to_owned(), axis)).or_insert(0) += total;
        }
        sent.retain(|_, bytes| *bytes > 0);
        Traffic { sent }
    }
}

fn bytes(program: &Program, view: View) -> u64 {
    program.balanced_rows(view.rows) * view.cols * program.buffer(view.buffer).dtype.size()
}

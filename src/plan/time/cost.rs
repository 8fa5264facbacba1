//! Seconds of an instruction and what bounds it.

use super::link::{Way, exchanged, sharded};
use super::work::{Work, size};
use crate::base::DType;
use crate::plan::mesh::{Axis, Mesh};
use crate::plan::ops::Op;
use crate::plan::program::Program;
use crate::recipe::Cluster;
use serde::{Deserialize, Serialize};

/// What an instruction, or a step, spends its time on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Bound {
    /// Matrix products.
    Compute,
    /// Device memory.
    Memory,
    /// Links inside a node.
    IntraNode,
    /// Links between nodes.
    InterNode,
    /// The host, which has not started the next kernel yet.
    Host,
}

impl Bound {
    pub const ALL: [Bound; 5] =
        [Bound::Compute, Bound::Memory, Bound::IntraNode, Bound::InterNode, Bound::Host];

    /// The word for it in plans.
    pub fn word(self) -> &'static str {
        match self {
            Bound::Compute => "compute",
            Bound::Memory => "device memory",
            Bound::IntraNode => "links in a node",
            Bound::InterNode => "links between nodes",
            Bound::Host => "host",
        }
    }
}

/// How long an instruction takes when nothing keeps it waiting.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    pub seconds: f64,
    pub bound: Bound,
}

/// Bytes of a count or a sum that ranks agree on.
const SCALAR: f64 = 16.0;

impl Cost {
    /// The roofline: the longest of products, memory and links at the fractions of their peaks that are reached.
    pub fn of(program: &Program, mesh: &Mesh, cluster: &Cluster, op: &Op, sequence: u64) -> Cost {
        let work = Work::of(program, op, sequence);
        let device = &cluster.device;
        let peak = if work.dtype == DType::F32 { device.flops_f32 } else { device.flops_bf16 };
        let compute = work.flops / (peak * device.efficiency.compute);
        let memory = work.bytes / (device.bandwidth * device.efficiency.memory);
        let local = if compute > memory {
            Cost { seconds: compute, bound: Bound::Compute }
        } else {
            Cost { seconds: memory, bound: Bound::Memory }
        };
        let bytes = |view| size(program, view) as f64;
        let sharded = |axis: Axis, bytes: f64| sharded(cluster, mesh, axis, bytes);
        let all_reduce = |axis: Axis, bytes: f64| {
            let Way { intra, inter } = sharded(axis, bytes);
            Way { intra: 2.0 * intra, inter: 2.0 * inter }
        };
        let exchanged = |bytes: f64| exchanged(cluster, mesh, Axis::Ep, bytes);
        let way = match op {
            Op::Gather { full, axis, .. } | Op::ReduceScatter { full, axis, .. } => {
                Cost::phases(sharded(*axis, bytes(*full)))
            }
            Op::AllReduce { data, axis } => Cost::phases(all_reduce(*axis, bytes(*data))),
            Op::CountTokens {} | Op::ReduceMetrics {} => Cost::phases(all_reduce(Axis::World, SCALAR)),
            Op::Exchange { counts, .. } => Cost::at_once(exchanged(bytes(*counts))),
            // The busiest rank receives more than it sends, and on the way back sends more than it receives.
            Op::Dispatch { out: routed, .. } | Op::Combine { rows: routed, .. } => {
                Cost::at_once(exchanged(bytes(*routed)))
            }
            _ => return local,
        };
        if way.seconds > local.seconds { way } else { local }
    }

    /// Between the nodes and inside of them, one behind the other.
    fn phases(way: Way) -> Cost {
        Cost { seconds: way.intra + way.inter, ..Cost::at_once(way) }
    }

    /// Between the nodes and inside of them at the same time.
    fn at_once(Way { intra, inter }: Way) -> Cost {
        if intra > inter {
            Cost { seconds: intra, bound: Bound::IntraNode }
        } else {
            Cost { seconds: inter, bound: Bound::InterNode }
        }
    }
}

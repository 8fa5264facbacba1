//! What can go wrong between ranks, with the ranks and the collectives involved.

use crate::diag::Diagnostic;
use std::fmt;
use std::time::Duration;

/// The name of a collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Op {
    Barrier,
    AllGather,
    AllGatherU32,
    ReduceScatter,
    AllReduce,
    AllReduceF64,
    Broadcast,
    Exchange,
    Dispatch,
    Combine,
}

impl Op {
    /// Every collective, at the index of its discriminant.
    pub(super) const ALL: [Op; 10] = [
        Op::Barrier,
        Op::AllGather,
        Op::AllGatherU32,
        Op::ReduceScatter,
        Op::AllReduce,
        Op::AllReduceF64,
        Op::Broadcast,
        Op::Exchange,
        Op::Dispatch,
        Op::Combine,
    ];

    /// The word used in messages.
    pub fn word(self) -> &'static str {
        match self {
            Op::Barrier => "barrier",
            Op::AllGather => "all_gather",
            Op::AllGatherU32 => "all_gather_u32",
            Op::ReduceScatter => "reduce_scatter",
            Op::AllReduce => "all_reduce",
            Op::AllReduceF64 => "all_reduce_f64",
            Op::Broadcast => "broadcast",
            Op::Exchange => "exchange",
            Op::Dispatch => "dispatch",
            Op::Combine => "combine",
        }
    }
}

/// One rank's side of one collective, as it appears in messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub rank: u32,
    pub op: Op,
    /// How many collectives this rank has issued on this group, this one included.
    pub number: u64,
    /// Elements a rank brings; rows have `detail` columns in `dispatch` and `combine`.
    pub elements: u64,
    /// The root of a broadcast, the columns of a dispatch or combine, otherwise 0.
    pub detail: u64,
    /// The members of the group.
    pub group: Vec<u32>,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} is in {} (call {}, ", self.rank, self.op.word(), self.number)?;
        match self.op {
            Op::Broadcast => write!(f, "{} elements from rank {}, ", self.elements, self.detail)?,
            Op::Dispatch | Op::Combine => write!(f, "{} columns, ", self.detail)?,
            _ => write!(f, "{} elements, ", self.elements)?,
        }
        match self.group.as_slice() {
            [first, .., last] if self.group.len() > 8 => {
                write!(f, "{} ranks {first}…{last})", self.group.len())
            }
            ranks => write!(f, "ranks {ranks:?})"),
        }
    }
}

/// Why a collective did not happen. Every rank of the world gets the same error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommError {
    /// Two ranks that have to be in the same collective are not.
    Mismatch { first: Call, second: Call },
    /// The arguments of one rank do not fit together.
    Argument { rank: u32, op: Op, problem: String },
    /// More rows arrived for the experts of a rank than its buffer holds; ranks receive `average` of them.
    Capacity { rank: u32, rows: u64, average: u64, capacity: u64 },
    /// A rank gave up, panicked or ended early.
    Aborted { rank: u32, reason: String },
    /// Ranks did not show up in time.
    Timeout { call: Call, silent: Vec<u32>, limit: Duration },
    /// A group cannot be formed of these ranks, or is not one of this communicator.
    Group { rank: u32, ranks: Vec<u32>, problem: &'static str },
}

impl fmt::Display for CommError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommError::Mismatch { first, second } => {
                write!(f, "ranks disagree on the collective: {first} while {second}")
            }
            CommError::Argument { rank, op, problem } => write!(f, "rank {rank}, {}: {problem}", op.word()),
            CommError::Capacity { rank, rows, average, capacity } => {
                write!(
                    f,
                    "rank {rank} receives {rows} rows for its experts, {:.2} times the average of {average}; \
                     the plan has set memory aside for {capacity}",
                    factor(*rows, *average)
                )
            }
            CommError::Aborted { rank, reason } => write!(f, "rank {rank} {reason}"),
            CommError::Timeout { call, silent, limit } => {
                let seconds = limit.as_secs_f64();
                write!(f, "{call} and waited {seconds} s for ranks {silent:?}, which never joined")
            }
            CommError::Group { rank, ranks, problem } => write!(f, "rank {rank}, group {ranks:?}: {problem}"),
        }
    }
}

impl std::error::Error for CommError {}

/// How many times the average so many rows are.
fn factor(rows: u64, average: u64) -> f64 {
    rows as f64 / average.max(1) as f64
}

impl From<CommError> for Diagnostic {
    fn from(error: CommError) -> Self {
        let message = error.to_string();
        match error {
            CommError::Mismatch { .. } => Diagnostic::error("step::comm::mismatch", message)
                .help("all ranks must issue the same collectives in the same order"),
            CommError::Argument { .. } => Diagnostic::error("step::comm::argument", message),
            CommError::Capacity { rows, average, .. } => {
                // Some room beside, in tenths.
                let factor = (factor(rows, average) * 1.1 * 10.0).ceil() / 10.0;
                Diagnostic::error("step::comm::capacity", message).help(format!(
                    "make room with `parallel.ep_imbalance = {factor:.1}`, or even out the load of experts with \
                     the router's `aux_loss` or `bias_update`"
                ))
            }
            CommError::Aborted { .. } => Diagnostic::error("step::comm::aborted", message),
            CommError::Timeout { .. } => Diagnostic::error("step::comm::timeout", message)
                .help("look at the log of the silent ranks: they are stuck, or slower than the time limit"),
            CommError::Group { .. } => Diagnostic::error("step::comm::group", message),
        }
    }
}

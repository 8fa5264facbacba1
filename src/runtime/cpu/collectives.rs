//! Instructions of the communication stream.

use super::{Cpu, Scalars};
use crate::comm::CommError;
use crate::plan::{Axis, Op};

impl Cpu {
    /// Runs one instruction of the communication stream.
    pub(super) fn communicate(&mut self, op: &Op, scalars: &mut Scalars) -> Result<(), CommError> {
        match *op {
            Op::Gather { shard, full, axis, .. } => {
                self.peers.comm.all_gather(&self.peers.groups[&axis], self.get(shard), self.out(full))
            }
            Op::Free { .. } => Ok(()),
            Op::ReduceScatter { full, shard, axis, .. } => {
                let adds = shard.mode.adds(scalars.micro);
                self.peers.comm.reduce_scatter(
                    &self.peers.groups[&axis],
                    self.get(full),
                    self.out(shard.view),
                    adds,
                )
            }
            Op::AllReduce { data, axis } => {
                self.peers.comm.all_reduce(&self.peers.groups[&axis], self.out(data))
            }
            Op::Exchange { counts, local, slot } => {
                let local = self.out(local);
                let counts = self.memory.get(&self.plan.program, counts, counts.cols as usize);
                self.peers.exchange(counts, local, slot)
            }
            Op::Dispatch { rows, out, slot } => {
                let (group, routing) = (&self.peers.groups[&Axis::Ep], self.peers.routing(slot));
                let cols = rows.cols as usize;
                self.peers.comm.dispatch(group, self.get(rows), self.out(out), cols, routing).map(|_| ())
            }
            Op::Combine { rows, out, slot } => {
                let (group, routing) = (&self.peers.groups[&Axis::Ep], self.peers.routing(slot));
                self.peers.comm.combine(group, self.get(rows), self.out(out), rows.cols as usize, routing)
            }
            Op::CountTokens {} => self.peers.count_tokens(scalars),
            Op::ReduceMetrics {} => self.peers.reduce_metrics(scalars),
            ref other => unreachable!("{} is not an instruction of the communication stream", other.name()),
        }
    }
}

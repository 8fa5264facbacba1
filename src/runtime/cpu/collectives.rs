//! Instructions of the communication stream.

use super::{Cpu, Scalars};
use crate::comm::CommError;
use crate::plan::{Axis, Op};

impl Cpu {
    /// Runs one instruction of the communication stream.
    pub(super) fn communicate(&mut self, op: &Op, scalars: &mut Scalars) -> Result<(), CommError> {
        match *op {
            Op::Gather { shard, full, axis, .. } => {
                self.comm.all_gather(&self.groups[&axis], self.get(shard), self.out(full))
            }
            Op::Free { .. } => Ok(()),
            Op::ReduceScatter { full, shard, axis, .. } => {
                let adds = shard.mode.adds(scalars.micro);
                self.comm.reduce_scatter(&self.groups[&axis], self.get(full), self.out(shard.view), adds)
            }
            Op::AllReduce { data, axis } => self.comm.all_reduce(&self.groups[&axis], self.out(data)),
            Op::Exchange { counts, local, slot } => {
                let local = self.out(local);
                let counts = self.memory.get(&self.plan.program, counts, counts.cols as usize);
                let (group, at) = (&self.groups[&Axis::Ep], slot.0 as usize);
                let routing = &mut self.routings[at];
                self.comm.exchange(group, counts, routing)?;
                routing.local_counts(group.index(), local);
                self.received[at] = routing.received(group.index()) as u64;
                self.fits(at)
            }
            Op::Dispatch { rows, out, slot } => {
                let (group, routing) = (&self.groups[&Axis::Ep], &self.routings[slot.0 as usize]);
                let cols = rows.cols as usize;
                self.comm.dispatch(group, self.get(rows), self.out(out), cols, routing).map(|_| ())
            }
            Op::Combine { rows, out, slot } => {
                let (group, routing) = (&self.groups[&Axis::Ep], &self.routings[slot.0 as usize]);
                self.comm.combine(group, self.get(rows), self.out(out), rows.cols as usize, routing)
            }
            Op::CountTokens {} => {
                let mut sums = [scalars.supervised, scalars.stop];
                self.comm.all_reduce_f64(&self.groups[&Axis::World], &mut sums)?;
                [scalars.supervised, scalars.stop] = sums;
                Ok(())
            }
            Op::ReduceMetrics {} => {
                let mut sums = [scalars.loss, scalars.norm_squared, scalars.aux_loss, scalars.mtp_loss];
                self.comm.all_reduce_f64(&self.groups[&Axis::World], &mut sums)?;
                [scalars.loss, scalars.norm_squared, scalars.aux_loss, scalars.mtp_loss] = sums;
                Ok(())
            }
            ref other => unreachable!("{} is not an instruction of the communication stream", other.name()),
        }
    }

    /// More rows than the plan has set memory aside for are an error of all ranks, never a write beyond it.
    fn fits(&self, slot: usize) -> Result<(), CommError> {
        let (rows, capacity) = (self.received[slot], self.plan.program.routed[slot].capacity);
        if rows <= capacity {
            return Ok(());
        }
        let rank = self.comm.rank();
        let average = self.routings[slot].average() as u64;
        let error = CommError::Capacity { rank, rows, average, capacity };
        self.comm.abort(&error.to_string());
        Err(error)
    }
}

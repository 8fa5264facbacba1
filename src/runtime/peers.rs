//! What a rank knows of the others, whatever its device: its groups, and who sends how many rows where.

use super::device::Scalars;
use crate::comm::{CommError, Communicator, Group, Routing};
use crate::diag::Diagnostic;
use crate::plan::{Axis, Plan, Rows, SlotId, View};
use std::collections::BTreeMap;

/// The other ranks, as the host reaches them.
pub(super) struct Peers {
    pub comm: Box<dyn Communicator>,
    pub groups: BTreeMap<Axis, Group>,
    routings: Vec<Routing>,
    /// Rows that each routing has brought to this rank, and those that memory is set aside for.
    received: Vec<u64>,
    capacities: Vec<u64>,
}

impl Peers {
    /// # Errors
    /// A group of ranks that cannot be formed, or experts that cannot be divided.
    pub fn new(plan: &Plan, mut comm: Box<dyn Communicator>) -> Result<Peers, Diagnostic> {
        let rank = u64::from(comm.rank());
        let mut groups = BTreeMap::new();
        for axis in Axis::ALL {
            groups.insert(axis, comm.group(&plan.mesh.group(axis, rank))?);
        }
        let routings = plan.program.routed.iter().map(|routed| {
            Routing::new(plan.mesh.ep as usize, routed.experts as usize).ok_or_else(|| {
                let (experts, ep) = (routed.experts, plan.mesh.ep);
                let message = format!("{experts} experts cannot be divided over {ep} ranks");
                Diagnostic::error("step::parallel::ep_experts", message)
            })
        });
        let routings = routings.collect::<Result<Vec<_>, _>>()?;
        let capacities = plan.program.routed.iter().map(|routed| routed.capacity).collect();
        Ok(Peers { received: vec![0; routings.len()], comm, groups, routings, capacities })
    }

    /// Elements of a view now: routed rows are as many as have come.
    pub fn elements(&self, view: View) -> usize {
        (self.rows(view) * view.cols) as usize
    }

    /// Rows of a view now, likewise.
    pub fn rows(&self, view: View) -> u64 {
        match view.rows {
            Rows::Fixed(rows) => rows,
            Rows::Routed(slot) => self.received[slot.0 as usize],
        }
    }

    pub fn routing(&self, slot: SlotId) -> &Routing {
        &self.routings[slot.0 as usize]
    }

    /// Tells all ranks of `ep` how many rows this one has for each expert, and writes how many each of its own gets.
    ///
    /// More rows than the plan has set memory aside for are an error of all ranks, never a write beyond it.
    pub fn exchange(&mut self, counts: &[u32], local: &mut [u32], slot: SlotId) -> Result<(), CommError> {
        let (group, at) = (&self.groups[&Axis::Ep], slot.0 as usize);
        let routing = &mut self.routings[at];
        self.comm.exchange(group, counts, routing)?;
        routing.local_counts(group.index(), local);
        let (rows, capacity) = (routing.received(group.index()) as u64, self.capacities[at]);
        self.received[at] = rows;
        if rows <= capacity {
            return Ok(());
        }
        let average = routing.average() as u64;
        let error = CommError::Capacity { rank: self.comm.rank(), rows, average, capacity };
        self.comm.abort(&error.to_string());
        Err(error)
    }

    /// Sums the supervised tokens and the wishes to stop over all ranks.
    pub fn count_tokens(&self, scalars: &mut Scalars) -> Result<(), CommError> {
        let mut sums = [scalars.supervised, scalars.stop];
        self.comm.all_reduce_f64(&self.groups[&Axis::World], &mut sums)?;
        [scalars.supervised, scalars.stop] = sums;
        Ok(())
    }

    /// Sums losses and the squared norm over all ranks.
    pub fn reduce_metrics(&self, scalars: &mut Scalars) -> Result<(), CommError> {
        let mut sums = [scalars.loss, scalars.norm_squared, scalars.aux_loss, scalars.mtp_loss];
        self.comm.all_reduce_f64(&self.groups[&Axis::World], &mut sums)?;
        [scalars.loss, scalars.norm_squared, scalars.aux_loss, scalars.mtp_loss] = sums;
        Ok(())
    }

    /// The least of the numbers that the ranks give.
    pub fn least(&self, number: u64) -> Result<u64, Diagnostic> {
        let world = &self.groups[&Axis::World];
        let mut all = vec![0; 2 * world.size()];
        self.comm.all_gather_u32(world, &[(number >> 32) as u32, number as u32], &mut all)?;
        let numbers = all.chunks_exact(2).map(|half| u64::from(half[0]) << 32 | u64::from(half[1]));
        Ok(numbers.min().unwrap_or(number))
    }
}

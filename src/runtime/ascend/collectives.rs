//! Collectives among NPUs, and what the host has to know of them.

use super::super::peers::Peers;
use super::failure::{Refused, refused};
use super::{Ascend, Scalars};
use crate::comm::Routing;
use crate::diag::Diagnostic;
use crate::plan::{Axis, Op, Rows, SlotId, View};
use ascend_rs::{Communicator as Hccl, DataType, Device, Reduction, Region, RootInfo, Tensor, ops};
use std::collections::BTreeMap;
use std::ops::Range;

/// Joins the groups of more than one member, all ranks in the same order. The first of a group tells the others where it is met.
pub(super) fn join(device: &Device, peers: &Peers) -> Result<BTreeMap<Axis, Hccl>, Diagnostic> {
    let Peers { comm, groups, .. } = peers;
    let rank = u64::from(comm.rank());
    let mut joined = BTreeMap::new();
    for (axis, group) in groups.iter().filter(|(_, group)| group.size() > 1) {
        let failed = |error| {
            comm.abort(&format!("rank {rank} has not joined the group of {axis:?}"));
            refused(rank, &format!("joining the group of {axis:?}"), &error)
        };
        let mut own = [0u8; RootInfo::BYTES];
        if group.index() == 0 {
            own = *RootInfo::new(device).map_err(failed)?.bytes();
        }
        let words: Vec<u32> = own.as_chunks::<4>().0.iter().map(|word| u32::from_ne_bytes(*word)).collect();
        let mut all = vec![0; words.len() * group.size()];
        comm.all_gather_u32(group, &words, &mut all)?;
        own.copy_from_slice(&bytemuck::cast_slice(&all)[..RootInfo::BYTES]);
        let root = RootInfo::from_bytes(own);
        let made = Hccl::new(device, group.size() as u32, &root, group.index() as u32);
        joined.insert(*axis, made.map_err(failed)?);
    }
    Ok(joined)
}

impl Ascend {
    pub(super) fn communicate(&mut self, op: &Op, scalars: &mut Scalars) -> Result<(), Refused> {
        match *op {
            Op::Gather { shard, full, axis, .. } => self.gather(shard, full, axis),
            Op::Free { .. } => Ok(()),
            Op::ReduceScatter { full, shard, axis, .. } => {
                let adds = shard.mode.adds(scalars.micro);
                self.reduce_scatter(full, shard.view, axis, adds)
            }
            Op::AllReduce { data, axis } => match self.devices.get(&axis) {
                None => Ok(()),
                Some(group) => {
                    let (data, of) = (self.region(data)?, self.dtype(data));
                    Ok(group.all_reduce(&self.stream, data, data, of, Reduction::Sum)?)
                }
            },
            Op::Exchange { counts, local, slot } => {
                let (mut all, mut own) = (vec![0u32; counts.cols as usize], vec![0u32; local.cols as usize]);
                self.download(counts, bytemuck::cast_slice_mut(&mut all))?;
                self.peers.exchange(&all, &mut own, slot)?;
                Ok(self.upload(local, bytemuck::cast_slice(&own))?)
            }
            Op::Dispatch { rows, out, slot } => self.dispatch(rows, out, slot),
            Op::Combine { rows, out, slot } => self.combine(rows, out, slot),
            Op::CountTokens {} => Ok(self.peers.count_tokens(scalars)?),
            Op::ReduceMetrics {} => {
                let sums = self.memory.take_metrics(&self.stream)?.map(f64::from);
                [scalars.loss, scalars.norm_squared, scalars.mtp_loss] = sums;
                Ok(self.peers.reduce_metrics(scalars)?)
            }
            ref other => unreachable!("{} is not an instruction of the communication stream", other.name()),
        }
    }

    /// The bytes of a view.
    fn region(&self, view: View) -> Result<Region<'_>, Refused> {
        let (memory, start) = self.memory.place(&self.plan.program, view);
        Ok(memory.region(start..start + self.elements(view) * self.dtype(view).bytes())?)
    }

    fn gather(&self, shard: View, full: View, axis: Axis) -> Result<(), Refused> {
        let Some(group) = self.devices.get(&axis) else {
            let (to, from) = (self.matrix(full)?, self.matrix(shard)?);
            return Ok(self.launch(ops::inplace_copy(&to, &from))?);
        };
        let (of, to) = (self.dtype(full), self.region(full)?);
        if of == self.dtype(shard) {
            return Ok(group.all_gather(&self.stream, self.region(shard)?, to, of)?);
        }
        let narrow = self.cast(shard, of)?;
        Ok(group.all_gather(&self.stream, narrow.region()?, to, of)?)
    }

    fn reduce_scatter(&self, full: View, shard: View, axis: Axis, adds: bool) -> Result<(), Refused> {
        let (of, count) = (self.dtype(full), self.elements(shard) as u64);
        let Some(group) = self.devices.get(&axis) else {
            let part = self.matrix(full)?;
            let sum = self.matrix(shard)?;
            let one = ascend_rs::Scalar::f32(1.0)?;
            let call =
                if adds { ops::inplace_add(&sum, &part, &one) } else { ops::inplace_copy(&sum, &part) };
            return Ok(self.launch(call)?);
        };
        let from = self.region(full)?;
        self.add_or_write(shard, adds, &[count], of, |to| {
            group.reduce_scatter(&self.stream, from, to.region()?, of, Reduction::Sum)
        })?;
        Ok(())
    }

    /// Rows sorted by expert go to the ranks of their experts; what comes, by rank, is put in the order of experts.
    fn dispatch(&self, rows: View, out: View, slot: SlotId) -> Result<(), Refused> {
        let (routing, me) = (self.peers.routing(slot), self.peers.groups[&Axis::Ep].index());
        let received = routing.received(me) as u64;
        let Some(group) = self.devices.get(&Axis::Ep) else {
            let rows = View { rows: Rows::Fixed(received), ..rows };
            return match received {
                0 => Ok(()),
                _ => Ok(self.launch(ops::inplace_copy(&self.matrix(out)?, &self.matrix(rows)?))?),
            };
        };
        let cols = rows.cols;
        let (sent, taken) = elements(routing, me, cols);
        let of = self.dtype(rows);
        let arrived = self.memory.scratch(&[received.max(1), cols], of)?;
        let from = self.region(View { rows: Rows::Fixed(routing.sent(me) as u64), ..rows })?;
        group.all_to_all(&self.stream, from, &sent, arrived.region()?, &taken, of)?;
        if received > 0 {
            let order = self.order(&by_expert(routing, me))?;
            let arrived = arrived.view(0, &[received as i64, cols as i64], &[cols as i64, 1])?;
            self.launch(ops::index_select(&arrived, 0, &order, &self.matrix(out)?))?;
        }
        Ok(())
    }

    /// The way back.
    fn combine(&self, rows: View, out: View, slot: SlotId) -> Result<(), Refused> {
        let (routing, me) = (self.peers.routing(slot), self.peers.groups[&Axis::Ep].index());
        let (received, cols) = (routing.received(me) as u64, rows.cols);
        let out = View { rows: Rows::Fixed(routing.sent(me) as u64), ..out };
        let Some(group) = self.devices.get(&Axis::Ep) else {
            return match received {
                0 => Ok(()),
                _ => Ok(self.launch(ops::inplace_copy(&self.matrix(out)?, &self.matrix(rows)?))?),
            };
        };
        let of = self.dtype(rows);
        let leaving = self.memory.scratch(&[received.max(1), cols], of)?;
        if received > 0 {
            let order = by_expert(routing, me);
            let mut back = vec![0; order.len()];
            order.iter().enumerate().for_each(|(row, arrived)| back[*arrived as usize] = row as i32);
            let leaving = leaving.view(0, &[received as i64, cols as i64], &[cols as i64, 1])?;
            self.launch(ops::index_select(&self.matrix(rows)?, 0, &self.order(&back)?, &leaving))?;
        }
        let (taken, sent) = elements(routing, me, cols);
        Ok(group.all_to_all(&self.stream, leaving.region()?, &sent, self.region(out)?, &taken, of)?)
    }

    /// Numbers of rows on the device.
    fn order(&self, rows: &[i32]) -> Result<Tensor, Refused> {
        let order = self.memory.scratch(&[rows.len() as u64], DataType::I32)?;
        self.stream.upload(order.region()?, bytemuck::cast_slice(rows))?;
        Ok(order)
    }
}

/// Elements that this rank sends to each rank and gets from each.
fn elements(routing: &Routing, me: usize, cols: u64) -> (Vec<u64>, Vec<u64>) {
    let rows = |source: usize, owner: usize| -> u64 {
        let counts = &routing.counts()[source * routing.experts()..][..routing.experts()];
        counts[routing.owned(owner)].iter().map(|count| u64::from(*count)).sum()
    };
    let ranks = 0..routing.ranks();
    (
        ranks.clone().map(|owner| rows(me, owner) * cols).collect(),
        ranks.map(|source| rows(source, me) * cols).collect(),
    )
}

/// For each row in the order of experts, and of ranks for each, where it arrives in the order of ranks.
fn by_expert(routing: &Routing, me: usize) -> Vec<i32> {
    let (owned, mut arrived) = (routing.owned(me), 0);
    // The rows of each rank for each expert, as they arrive.
    let mut arriving: Vec<Vec<Range<i32>>> = vec![Vec::new(); owned.len()];
    for counts in routing.counts().chunks_exact(routing.experts()) {
        for (rows, count) in arriving.iter_mut().zip(&counts[owned.clone()]) {
            let start = arrived;
            arrived += count.cast_signed();
            rows.push(start..arrived);
        }
    }
    arriving.into_iter().flatten().flatten().collect()
}

//! The device mesh: how the ranks are arranged for dense parameters and for experts.
//!
//! The same ranks carry two arrangements, the last axis varying fastest:
//! dense parameters `(replicate, fsdp)`, experts `(expert_replicate, ep_fsdp, ep)`.

use crate::recipe;
use serde::{Deserialize, Serialize};

/// Sizes of the axes. `replicate · fsdp = expert_replicate · ep_fsdp · ep = devices`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mesh {
    pub devices: u64,
    pub fsdp: u64,
    pub ep: u64,
    pub ep_fsdp: u64,
}

/// A direction of the mesh: the ranks that a collective runs over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Axis {
    World,
    /// Shards of a dense parameter.
    Fsdp,
    /// Copies of a dense shard (hybrid sharding).
    Replicate,
    /// Experts are divided over these ranks; tokens travel between them.
    Ep,
    /// Shards of the experts of one `ep` coordinate.
    EpFsdp,
    /// Copies of an expert shard.
    ExpertReplicate,
}

impl Axis {
    pub const ALL: [Axis; 6] =
        [Axis::World, Axis::Fsdp, Axis::Replicate, Axis::Ep, Axis::EpFsdp, Axis::ExpertReplicate];

    /// The word for it in plans and messages.
    pub fn word(self) -> &'static str {
        match self {
            Axis::World => "world",
            Axis::Fsdp => "fsdp",
            Axis::Replicate => "replicate",
            Axis::Ep => "ep",
            Axis::EpFsdp => "ep_fsdp",
            Axis::ExpertReplicate => "expert_replicate",
        }
    }
}

impl Mesh {
    /// The mesh of a recipe whose sizes have been checked to divide the devices.
    pub fn new(parallel: &recipe::Parallel, devices: u64) -> Mesh {
        Mesh { devices, fsdp: parallel.fsdp, ep: parallel.ep, ep_fsdp: parallel.ep_fsdp }
    }

    /// Number of ranks along an axis.
    pub fn size(&self, axis: Axis) -> u64 {
        match axis {
            Axis::World => self.devices,
            Axis::Fsdp => self.fsdp,
            Axis::Replicate => self.devices / self.fsdp,
            Axis::Ep => self.ep,
            Axis::EpFsdp => self.ep_fsdp,
            Axis::ExpertReplicate => self.devices / (self.ep * self.ep_fsdp),
        }
    }

    /// Distance between neighbouring ranks of an axis.
    pub fn stride(&self, axis: Axis) -> u64 {
        match axis {
            Axis::World | Axis::Fsdp | Axis::Ep => 1,
            Axis::Replicate => self.fsdp,
            Axis::EpFsdp => self.ep,
            Axis::ExpertReplicate => self.ep * self.ep_fsdp,
        }
    }

    /// Where `rank` stands on an axis.
    pub fn coordinate(&self, axis: Axis, rank: u64) -> u64 {
        rank / self.stride(axis) % self.size(axis)
    }

    /// The ranks that share all other coordinates with `rank`, in the order of the axis.
    pub fn group(&self, axis: Axis, rank: u64) -> Vec<u32> {
        let (size, stride) = (self.size(axis), self.stride(axis));
        let first = rank - self.coordinate(axis, rank) * stride;
        (0..size).map(|i| (first + i * stride) as u32).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_axis_partitions_the_ranks() {
        let mesh = Mesh { devices: 24, fsdp: 12, ep: 3, ep_fsdp: 4 };
        for axis in Axis::ALL {
            let mut seen = vec![0; 24];
            for rank in 0..24 {
                let group = mesh.group(axis, rank);
                assert_eq!(group[mesh.coordinate(axis, rank) as usize], rank as u32);
                seen[group[0] as usize] += 1;
            }
            let sizes: Vec<_> = seen.into_iter().filter(|&n| n > 0).collect();
            assert_eq!(sizes, vec![mesh.size(axis); (24 / mesh.size(axis)) as usize], "{axis:?}");
        }
    }

    #[test]
    fn a_replica_holds_the_same_shard() {
        let mesh = Mesh { devices: 8, fsdp: 4, ep: 2, ep_fsdp: 2 };
        assert_eq!(mesh.group(Axis::Replicate, 5), [1, 5]);
        assert_eq!(mesh.group(Axis::EpFsdp, 5), [5, 7]);
        assert_eq!(mesh.group(Axis::ExpertReplicate, 5), [1, 5]);
    }
}

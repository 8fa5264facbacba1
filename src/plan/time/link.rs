//! How long a collective is on its way, from the place of its ranks on the nodes.

use crate::plan::mesh::{Axis, Mesh};
use crate::recipe::{Cluster, Link};

/// Seconds on the links inside the nodes and between them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Way {
    pub intra: f64,
    pub inter: f64,
}

/// How the ranks of an axis lie on the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Spread {
    ranks: u64,
    /// Ranks of a group that share a node.
    local: u64,
}

impl Spread {
    fn new(mesh: &Mesh, axis: Axis, per_node: u64) -> Spread {
        let (ranks, stride) = (mesh.size(axis), mesh.stride(axis));
        // Groups tile blocks of `ranks · stride` devices; blocks that do not divide a node straddle two of them.
        let local = match ranks * stride {
            block if per_node.is_multiple_of(block) => ranks,
            _ => (per_node / stride).clamp(1, ranks),
        };
        Spread { ranks, local }
    }

    fn nodes(self) -> u64 {
        self.ranks.div_ceil(self.local)
    }
}

/// All-gather or reduce-scatter of `bytes`, the whole of all shards: between the nodes, where each device carries its share
/// of the node's traffic, then inside of them. Recursive doubling: a ring's bytes with a logarithm of messages.
pub(super) fn sharded(cluster: &Cluster, mesh: &Mesh, axis: Axis, bytes: f64) -> Way {
    let spread = Spread::new(mesh, axis, cluster.devices_per_node);
    let (local, nodes) = (spread.local as f64, spread.nodes() as f64);
    Way {
        intra: carry(cluster, &cluster.intra_node, bytes * (local - 1.0) / local, hops(local)),
        inter: carry(cluster, &cluster.inter_node, bytes * (nodes - 1.0) / nodes / local, hops(nodes)),
    }
}

/// All-to-all of `bytes` a rank: every peer gets an equal part, over the links inside and between the nodes at once.
pub(super) fn exchanged(cluster: &Cluster, mesh: &Mesh, axis: Axis, bytes: f64) -> Way {
    let spread = Spread::new(mesh, axis, cluster.devices_per_node);
    let (ranks, local) = (spread.ranks as f64, spread.local as f64);
    let messages = |peers: f64| if peers > 0.0 { 1.0 } else { 0.0 };
    let (near, far) = (local - 1.0, ranks - local);
    Way {
        intra: carry(cluster, &cluster.intra_node, bytes * near / ranks, messages(near)),
        inter: carry(cluster, &cluster.inter_node, bytes * far / ranks, messages(far)),
    }
}

fn carry(cluster: &Cluster, link: &Link, bytes: f64, messages: f64) -> f64 {
    bytes / (link.bandwidth * cluster.device.efficiency.link) + messages * link.latency
}

/// Messages one behind the other until something has reached all of `ranks`.
fn hops(ranks: f64) -> f64 {
    ranks.log2().ceil()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_an_axis_share_nodes() {
        let mesh = Mesh { devices: 64, fsdp: 64, ep: 8, ep_fsdp: 4 };
        let spread = |axis| {
            let spread = Spread::new(&mesh, axis, 16);
            (spread.local, spread.nodes())
        };
        assert_eq!(spread(Axis::Fsdp), (16, 4));
        assert_eq!(spread(Axis::Ep), (8, 1));
        assert_eq!(spread(Axis::EpFsdp), (2, 2), "stride 8: two of a group in a node");
        assert_eq!(spread(Axis::ExpertReplicate), (1, 2), "stride 32");
        assert_eq!(spread(Axis::Replicate), (1, 1));
    }
}

//! How the work is divided over the devices.

use crate::base::DType;

block! {
    /// How parameters, experts and activations are divided over the devices.
    pub struct Parallel("parallel") {
        /// Devices over which every parameter is sharded. Fewer than all of them: hybrid sharding, with replicas.
        fsdp: u64 { unit("devices"), at_least(1.0) } = cluster.devices,
        /// Expert parallelism: groups of experts, each on devices of its own. Divides the number of experts.
        ep: u64 { unit("devices"), at_least(1.0) } = 1,
        /// Devices over which the experts of one group are sharded again. `ep * ep_fsdp` divides the devices.
        ep_fsdp: u64 { unit("devices"), at_least(1.0) } = max(1, floor(cluster.devices / parallel.ep)),
        /// What is computed again in the backward pass instead of being kept.
        recompute: Recompute = none,
        /// Units (a layer, the embedding, the head) gathered ahead of their use.
        prefetch: u64 { unit("units"), at_most(64.0) } = 1,
        /// Element types of what is kept and sent.
        precision: Precision,
    }
}

block! {
    /// Element types of what is kept and sent.
    pub struct Precision("precision") {
        /// Parameters and activations in computation.
        params: DType = bf16,
        /// Gradients while they are summed over devices.
        reduce: DType = f32,
        /// Master weights and moments of the optimizer.
        optimizer: DType = f32,
    }
}

words! {
    /// What is computed again in the backward pass.
    pub enum Recompute {
        /// Every activation is kept.
        none => None,
        /// Only the input of each layer is kept.
        full => Full,
    }
}

//! How the work is divided over the devices.
//!
//! Devices form a mesh of `pp` × data × `cp` × `tp` ranks, tensor-parallel ranks side by side. What is left for data,
//! `devices / (tp · cp · pp)`, is [`Parallel::data_ranks`]. Parameters are sharded over the ranks of data and context
//! together, as ranks that share a sequence hold the same parameters; the experts of a stage lie over all of its ranks,
//! `tp` and `cp` folded in, whole experts on each.

use crate::base::DType;
use crate::recipe::schema::machine::Cluster;

block! {
    /// How parameters, experts and activations are divided over the devices.
    pub struct Parallel("parallel") {
        /// Devices over which every parameter is sharded, beside `tp` and `pp`. It divides the ranks of data and context,
        /// devices / (tp * pp); fewer than all of them: hybrid sharding, with replicas.
        fsdp: u64 { unit("devices"), at_least(1.0) } = max(1, floor(cluster.devices / (parallel.tp * parallel.pp))),
        /// Tensor parallelism: heads, the width inside of dense layers and the vocabulary are divided; between them
        /// activations are divided by sequence. Divides each of them, and not the experts, which `ep` divides.
        tp: u64 { unit("devices"), at_least(1.0), at_most(1000000.0) } = 1,
        /// Context parallelism: each sequence is divided over these devices.
        cp: u64 { unit("devices"), at_least(1.0), at_most(1000000.0) } = 1,
        /// How attention sees a sequence that context parallelism has divided.
        cp_kind: CpKind = ulysses,
        /// Pipeline parallelism: stages of consecutive layers. Divides the layers.
        pp: u64 { unit("stages"), at_least(1.0), at_most(1000000.0) } = 1,
        /// Expert parallelism: groups of experts, each on devices of its own. Divides the number of experts.
        ep: u64 { unit("devices"), at_least(1.0) } = 1,
        /// Devices over which the experts of one group are sharded again. `ep * ep_fsdp` divides the devices of a stage.
        ep_fsdp: u64 { unit("devices"), at_least(1.0) } =
            max(1, floor(cluster.devices / (parallel.pp * parallel.ep))),
        /// What is computed again in the backward pass instead of being kept.
        recompute: Recompute = none,
        /// Units (a layer, the embedding, the head) gathered ahead of their use.
        prefetch: u64 { unit("units"), at_most(64.0) } = 1,
        /// Gathered parameters are freed behind the forward pass and gathered again for the backward pass.
        reshard_after_forward: bool = true,
        /// What waits in the memory of the host until it is used.
        offload: Offload = none,
        /// Element types of what is kept and sent.
        precision: Precision,
    }
}

impl Parallel {
    /// Ranks that each take sequences of their own, of `cluster`'s devices.
    pub fn data_ranks(&self, cluster: &Cluster) -> u64 {
        cluster.devices() / (self.tp * self.cp * self.pp)
    }

    /// Ranks of one pipeline stage.
    pub fn stage_ranks(&self, cluster: &Cluster) -> u64 {
        cluster.devices() / self.pp
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
        /// Attention, the choice of experts and the rows sent to them are kept; norms, rotations and the inside of
        /// feed-forward layers, most of the memory for a quarter of the products, are computed again. Engines on PyTorch
        /// keep attention and every second product instead.
        selective => Selective,
        /// Only the input of each layer is kept.
        full => Full,
    }
}

words! {
    /// How attention sees a sequence that is divided.
    pub enum CpKind {
        /// Heads are exchanged for positions: each device has whole sequences of some heads.
        ulysses => Ulysses,
        /// Keys and values go round from device to device.
        ring => Ring,
    }
}

words! {
    /// What waits in the memory of the host.
    pub enum Offload {
        /// Everything stays on the device.
        none => None,
        /// Master weights and moments, updated there.
        optimizer => Optimizer,
        /// The shards of parameters too.
        params => Params,
    }
}

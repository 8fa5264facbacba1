//! What each engine leaves to choose.

use super::fields::Candidate;
use crate::plan::estimate::Engine;
use crate::recipe::Recompute;

/// The fields that an engine reads, and how free their values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choices {
    pub tensor: bool,
    pub context: bool,
    /// Sequences are divided for some models alone: only where the recipe divides them.
    pub some_models: bool,
    pub pipeline: bool,
    /// Copies of shards: `fsdp` may be less than the ranks of data and context.
    pub hybrid: bool,
    /// `ep` × `ep_fsdp` may be less than the ranks over which a dense parameter is sharded.
    pub expert_copies: bool,
    /// A rank may hold a single expert.
    pub lone_experts: bool,
    pub selective: bool,
    pub prefetch: bool,
    pub reshard: bool,
    pub loss_chunk: bool,
}

impl Choices {
    pub fn of(engine: Engine) -> Choices {
        // Of PyTorch's FSDP2 over a mesh of (replicate, shard, cp, tp), as torchtitan has it: it chooses itself what to
        // prefetch, and experts lie over all ranks of a shard.
        let torchtitan = Choices {
            tensor: true,
            context: true,
            some_models: false,
            pipeline: true,
            hybrid: true,
            expert_copies: false,
            lone_experts: true,
            selective: true,
            prefetch: false,
            reshard: true,
            loss_chunk: true,
        };
        match engine {
            Engine::TorchtitanFsdp2 => torchtitan,
            // One mesh over all ranks: no pipeline, no copies; `tp` is an option that its mesh never admits, recomputation
            // is by whole layers, a rank needs two experts, and context parallelism is patched into a few kinds of models.
            Engine::MindspeedFsdp2 => Choices {
                tensor: false,
                some_models: true,
                pipeline: false,
                hybrid: false,
                lone_experts: false,
                selective: false,
                prefetch: true,
                ..torchtitan
            },
            // The optimizer's state is sharded over all ranks of data; parameters are whole, nothing is gathered.
            Engine::Megatron => Choices { hybrid: false, reshard: false, loss_chunk: false, ..torchtitan },
            Engine::Native => Choices {
                tensor: false,
                context: false,
                pipeline: false,
                expert_copies: true,
                prefetch: true,
                reshard: false,
                loss_chunk: false,
                ..torchtitan
            },
        }
    }

    /// Whether the engine has such a recomputation.
    pub fn recompute(&self, recompute: Recompute) -> bool {
        self.selective || recompute != Recompute::Selective
    }

    /// Whether the engine runs `c` on so many devices, of whose experts a layer has at least so many.
    pub fn run(&self, c: &Candidate, devices: u64, experts: u64) -> bool {
        let shards = c.fsdp * c.tp;
        let ranks = c.ep * c.ep_fsdp;
        (self.tensor || c.tp == 1)
            && (self.context || c.cp == 1)
            && (self.pipeline || c.pp == 1)
            && (self.hybrid || shards * c.pp == devices)
            && (self.expert_copies || ranks == shards || (experts == 0 && ranks <= shards))
            && (self.lone_experts || c.ep == 1 || c.ep < experts)
            && self.recompute(c.recompute)
    }
}

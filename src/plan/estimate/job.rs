//! What is asked: an engine, a layout and the choices that memory and time depend on. Plain data, copied freely.

use serde::{Deserialize, Serialize};

/// A training job as far as an estimate depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Job {
    pub engine: Engine,
    pub layout: Layout,
    /// Sequences a device group takes at once.
    pub micro_batch: u64,
    /// Micro-batches a step.
    pub accumulate: u64,
    /// Tokens of a sequence, before context parallelism.
    pub sequence: u64,
    pub recompute: Recompute,
    pub loss: Loss,
    pub optimizer: Optimizer,
    pub precision: Precision,
    pub offload: Offload,
    pub cross_entropy: CrossEntropy,
    /// `torch.compile` of every layer: fused element-wise work keeps less and starts fewer kernels.
    pub compile: bool,
    /// Parameters are freed after the forward pass of their unit and gathered again for the backward pass.
    pub reshard: bool,
    /// Gradients are reduced with the last micro-batch only and held unsharded until then.
    pub reduce_last: bool,
    /// Units gathered ahead of their use.
    pub prefetch: u64,
    /// Tokens of the busiest expert group over those of the average one.
    pub imbalance: f64,
}

/// The engine that runs the step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Engine {
    /// Our own program.
    Native,
    /// FSDP2 of MindSpeed-LLM: Hugging Face models, every layer a unit, optimizer per parameter.
    MindspeedFsdp2,
    /// FSDP2 of torchtitan and of programs built like it.
    TorchtitanFsdp2,
    /// Megatron-Core and MindSpeed-LLM on it: ZeRO-1 instead of sharded parameters.
    Megatron,
}

impl Engine {
    /// All of them.
    pub const ALL: [Engine; 4] =
        [Engine::Native, Engine::MindspeedFsdp2, Engine::TorchtitanFsdp2, Engine::Megatron];

    /// The word for it on the command line and in data.
    pub fn word(self) -> &'static str {
        match self {
            Engine::Native => "native",
            Engine::MindspeedFsdp2 => "mindspeed",
            Engine::TorchtitanFsdp2 => "torchtitan",
            Engine::Megatron => "megatron",
        }
    }

    /// Its name in a sentence.
    pub fn title(self) -> &'static str {
        match self {
            Engine::Native => "the native engine",
            Engine::MindspeedFsdp2 => "MindSpeed-LLM FSDP2",
            Engine::TorchtitanFsdp2 => "torchtitan FSDP2",
            Engine::Megatron => "Megatron-Core",
        }
    }
}

/// Sizes of the parallel axes. Devices = `replicate` × `fsdp` × `tp` × `pp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Copies of every shard.
    pub replicate: u64,
    /// Ranks that shard a dense parameter (ZeRO-1: its optimizer state); context parallel ranks are among them.
    pub fsdp: u64,
    /// Ranks that experts are spread over.
    pub ep: u64,
    /// Ranks that shard each expert.
    pub ep_fsdp: u64,
    /// Ranks that split the matrices of a layer.
    pub tp: u64,
    /// Ranks that split a sequence.
    pub cp: u64,
    /// Pipeline stages.
    pub pp: u64,
    /// How attention sees a sequence that `cp` has split.
    pub context: Context,
    /// Chunks of layers a stage holds (interleaved schedule).
    pub chunks: u64,
    /// Layers of the last stage where the split is not even.
    pub last_layers: Option<u64>,
    /// Outside attention and feed-forward, tensor parallel ranks split the sequence.
    pub sequence_parallel: bool,
    /// Tensor parallel ranks share the vocabulary of the logits, not only of the head.
    pub loss_parallel: bool,
    /// Tensor parallel ranks never split an expert; the ranks of `ep` and `ep_fsdp` are all of a stage's.
    pub whole_experts: bool,
}

impl Layout {
    /// All devices.
    pub fn devices(&self) -> u64 {
        self.replicate * self.fsdp * self.tp * self.pp
    }

    /// Groups of devices with sequences of their own.
    pub fn data(&self) -> u64 {
        (self.replicate * self.fsdp / self.cp).max(1)
    }
}

/// How attention sees a sequence that is split over ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Context {
    /// Keys and values go round from rank to rank (Liu et al. 2023, Ring Attention, arXiv:2310.01889).
    Ring,
    /// Heads are exchanged for positions, once before attention and once behind it (Jacobs et al. 2023, DeepSpeed Ulysses,
    /// arXiv:2309.14509).
    Ulysses,
}

/// What the forward pass keeps for the backward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Recompute {
    /// Everything the backward pass reads.
    None,
    /// The input of every layer.
    Full,
    /// The input of so many layers of a stage; of the others, everything.
    Layers(u64),
    /// The input of a layer, what attention returns and the result of every second matrix product.
    Selective,
    /// Everything but the results of activation functions.
    Activations,
    /// Everything but the results of norms.
    Norms,
    /// The input of every layer and the result of the attention's last projection.
    FullButProjection,
}

/// How logits become a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Loss {
    /// All tokens of a micro-batch at once.
    Plain,
    /// In so many chunks.
    Chunks(u64),
}

/// The optimizer and its temporaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Optimizer {
    /// One fused kernel over all tensors: no temporaries.
    Fused,
    /// Element-wise kernels tensor by tensor.
    PerTensor,
    /// Element-wise kernels over lists of all tensors: temporaries as large as a moment.
    Foreach,
    /// Momentum with an update that so many Newton–Schulz iterations orthogonalise, for the matrices inside layers;
    /// AdamW for the rest.
    Muon { iterations: u64 },
}

/// Bytes of an element.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Precision {
    /// Of parameters between steps.
    pub stored: f64,
    /// In matrix products.
    pub compute: f64,
    /// Of gradients while they are reduced, and of Megatron's main gradients.
    pub reduce: f64,
    /// Of each of the two moments.
    pub moment: f64,
    /// Of a master copy beside the stored parameters.
    pub master: f64,
    /// Matrix products in an 8-bit format.
    pub eight_bit: bool,
}

impl Precision {
    /// Stored, reduced and updated in fp32, computed in bf16.
    pub const MIXED: Precision =
        Precision { stored: 4.0, compute: 2.0, reduce: 4.0, moment: 4.0, master: 0.0, eight_bit: false };
    /// Stored and computed in bf16, with main gradients and a master copy in fp32.
    pub const MASTER: Precision =
        Precision { stored: 2.0, compute: 2.0, reduce: 4.0, moment: 4.0, master: 4.0, eight_bit: false };
}

/// What lives in host memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Offload {
    /// The moments, and a master copy.
    pub optimizer: bool,
    /// The shards of parameters and of their gradients.
    pub params: bool,
    /// Whatever a layer keeps.
    pub activations: bool,
}

/// How cross entropy goes from logits to their gradient.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CrossEntropy {
    /// Kernel by kernel on an fp32 copy.
    Eager,
    /// Compiled into few kernels.
    Fused,
    /// Kernel by kernel in the precision of the logits.
    Half,
}

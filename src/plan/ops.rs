//! The instruction set. Each operation is declared once: its operands with how they are accessed, its attributes and
//! the stream it runs on. Names and arguments follow the operators of aclnn.

use super::mesh::Axis;
use super::placement::UnitId;
use super::program::{SlotId, View};
use crate::recipe::{Activation, GroupScore, RopeStyle, Score};
use serde::{Deserialize, Serialize};

/// How an operand is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Read,
    /// Overwritten; the old content does not matter.
    Write,
    /// Read and written in place.
    Update,
}

/// The queue an instruction runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Stream {
    Compute,
    Comm,
}

/// What happens to the old content of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Accumulate {
    Never,
    /// Replaced in the first micro batch of a step, added to in the others.
    AfterFirst,
    Always,
}

impl Accumulate {
    /// Whether to add in micro batch number `micro` of a step.
    pub fn adds(self, micro: u64) -> bool {
        match self {
            Accumulate::Never => false,
            Accumulate::AfterFirst => micro > 0,
            Accumulate::Always => true,
        }
    }
}

/// A result that may be added to what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sum {
    pub view: View,
    pub mode: Accumulate,
}

/// An operand or the absence of an optional one.
trait Operand {
    fn visit(&self, access: Access, f: &mut dyn FnMut(Access, View));
}

impl Operand for View {
    fn visit(&self, access: Access, f: &mut dyn FnMut(Access, View)) {
        f(access, *self);
    }
}

impl Operand for Option<View> {
    fn visit(&self, access: Access, f: &mut dyn FnMut(Access, View)) {
        if let Some(view) = self {
            f(access, *view);
        }
    }
}

impl Operand for Option<Sum> {
    fn visit(&self, access: Access, f: &mut dyn FnMut(Access, View)) {
        if let Some(sum) = self {
            sum.visit(access, f);
        }
    }
}

impl Operand for Sum {
    fn visit(&self, access: Access, f: &mut dyn FnMut(Access, View)) {
        let access = if self.mode == Accumulate::Never { access } else { Access::Update };
        f(access, self.view);
    }
}

/// The heads of an attention operator and how their scores come about.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Heads {
    /// Of queries.
    pub queries: u64,
    /// Of keys and values.
    pub keys: u64,
    /// Channels of a query or key, and of a value.
    pub head_dim: u64,
    pub value_dim: u64,
    /// Keys a query sees at most.
    pub window: Option<u64>,
    /// Factor on products of queries and keys.
    pub scale: f64,
    /// Limit L of a score s: `L · tanh(s / L)`.
    pub softcap: Option<f64>,
}

macro_rules! ops {
    ($(
        $(#[$doc:meta])*
        $stream:ident $name:ident {
            $($access:ident $operand:ident: $operand_type:ty),*
            $(; $($attribute:ident: $type:ty),*)?
        }
    )*) => {
        /// One operation and its arguments.
        // The gradient of attention has twice the operands of most others; a program holds thousands of operations.
        #[allow(clippy::large_enum_variant)]
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        pub enum Op {
            $($(#[$doc])* $name { $($operand: $operand_type,)* $($($attribute: $type,)*)? },)*
        }

        impl Op {
            /// Its name in plans and messages.
            pub fn name(&self) -> &'static str {
                match self { $(Op::$name { .. } => stringify!($name),)* }
            }

            /// The queue it runs in.
            pub fn stream(&self) -> Stream {
                match self { $(Op::$name { .. } => Stream::$stream,)* }
            }

            /// Calls `f` with each operand and how it is accessed, in the order of the declaration.
            pub fn operands(&self, mut f: impl FnMut(Access, View)) {
                match self {
                    $(Op::$name { $($operand,)* .. } => {
                        $(Operand::visit($operand, Access::$access, &mut f);)*
                        let _ = &mut f;
                    })*
                }
            }
        }
    };
}

ops! {
    // Collectives.

    /// All-gather of a unit: equal shards of all ranks of the unit's axis, cast to the type of `full`.
    Comm Gather { Read shard: View, Write full: View; unit: UnitId, axis: Axis }
    /// The gathered copy of a unit is no longer needed.
    Comm Free { Read full: View; unit: UnitId }
    /// Sum of the ranks' gradients of a unit, each rank keeping its shard.
    Comm ReduceScatter { Read full: View, Write shard: Sum; unit: UnitId, axis: Axis }
    /// Sum over the ranks of an axis, in place.
    Comm AllReduce { Update data: View; axis: Axis }
    /// Tells all ranks of `ep` how many rows go where; fills `local` `[experts / ep]` and the row count of `slot`.
    Comm Exchange { Read counts: View, Write local: View; slot: SlotId }
    /// All-to-all of token rows to the ranks that hold their experts; the rows arrive sorted by expert.
    Comm Dispatch { Read rows: View, Write out: View; slot: SlotId }
    /// The inverse of `Dispatch`.
    Comm Combine { Read rows: View, Write out: View; slot: SlotId }
    /// Sums the number of supervised tokens of the step over all ranks: the divisor of loss and gradients.
    Comm CountTokens {}
    /// Sums the squared gradient norm, the loss and those beside it over all ranks.
    Comm ReduceMetrics {}

    // Embedding and loss.

    /// `out[t] = scale · table[ids[t]]`
    Compute Embedding { Read table: View, Read ids: View, Write out: View; scale: f64 }
    /// `d_table[ids[t]] (+)= scale · dy[t]`
    Compute EmbeddingGrad { Read dy: View, Read ids: View, Write d_table: Sum; scale: f64 }
    /// `logits = cap · tanh(logits / cap)`
    Compute Softcap { Update logits: View; cap: f64 }
    /// Adds `−log softmax(logits)[label]` over the rows to the step's loss and replaces the logits by the gradient of
    /// the step's mean loss; that of the logits before `Softcap` where there was one. A loss of multi-token prediction is
    /// added up apart and has a weight in the gradient.
    Compute CrossEntropy {
        Update logits: View, Read labels: View;
        softcap: Option<f64>, mtp: Option<f64>
    }
    /// `y[t] (+)= x[t + by]` where both tokens are of the same document, else 0.
    Compute ShiftTokens { Read x: View, Write y: Sum; by: i64 }
    /// `targets[t] = labels[t + by]` where both tokens are of the same document, else −1.
    Compute ShiftLabels { Read labels: View, Write targets: View; by: i64 }

    // Dense operators.

    /// `out (+)= op(a) · op(b)`, `op` transposing where asked for.
    Compute Matmul {
        Read a: View, Read b: View, Write out: Sum;
        trans_a: bool, trans_b: bool
    }
    /// `out = [a, b]`, row by row.
    Compute Concat { Read a: View, Read b: View, Write out: View }
    /// The inverse of `Concat`.
    Compute Split { Read x: View, Write a: View, Write b: View }
    /// `out = a + b`
    Compute Add { Read a: View, Read b: View, Write out: View }
    /// `y = x · rstd · (gamma + offset)`, `rstd = 1 / sqrt(mean(x²) + eps)` by row.
    Compute RmsNorm { Read x: View, Read gamma: View, Write y: View, Write rstd: View; eps: f64, offset: f64 }
    /// Gradients of `RmsNorm`.
    Compute RmsNormGrad {
        Read dy: View, Read x: View, Read rstd: View, Read gamma: View, Write dx: Sum, Write d_gamma: Sum;
        offset: f64
    }
    /// `y = clip(x, ±limit)`
    Compute Clip { Read x: View, Write y: View; limit: f64 }
    /// Gradient of `Clip` in place.
    Compute ClipGrad { Update dy: View, Read x: View; limit: f64 }
    /// Rotates channels of every head from number `from` on by the token's position, in place, as many as the tables have;
    /// `inverse` applies the transpose, which is the gradient.
    Compute RotaryPositionEmbedding {
        Update x: View, Read cos: View, Read sin: View, Read positions: View;
        heads: u64, head_dim: u64, from: u64, style: RopeStyle, inverse: bool
    }
    /// Keys and values of every head from what their latent was projected to: `k[t, h] = [kv[t, h, ..], rope[t]]` and
    /// `v[t, h] = kv[t, h, .. last]`.
    Compute LatentKeyValue { Read kv: View, Read rope: View, Write k: View, Write v: View; heads: u64 }
    /// Gradients of `LatentKeyValue`; that of `rope` is summed over the heads.
    Compute LatentKeyValueGrad { Read dk: View, Read dv: View, Write d_kv: View, Write d_rope: View; heads: u64 }
    /// Causal attention inside each document, over the last `window` keys where given; `lse` `[tokens, heads]` is the
    /// log of the softmax denominator, to which every head adds `exp(sinks[h])`.
    Compute FlashAttentionScore {
        Read q: View, Read k: View, Read v: View, Read sinks: Option<View>, Write out: View, Write lse: View;
        heads: Heads
    }
    /// Gradients of `FlashAttentionScore`.
    Compute FlashAttentionScoreGrad {
        Read dy: View, Read q: View, Read k: View, Read v: View, Read sinks: Option<View>, Read out: View,
        Read lse: View, Write dq: View, Write dk: View, Write dv: View, Write d_sinks: Option<Sum>;
        heads: Heads
    }
    /// `y[t, h] = x[t, h] · sigmoid(gate[t, h])`, one gate a head.
    Compute HeadGate { Read x: View, Read gate: View, Write y: View; heads: u64, head_dim: u64 }
    /// Gradients of `HeadGate`.
    Compute HeadGateGrad {
        Read dy: View, Read x: View, Read gate: View, Write dx: View, Write d_gate: View;
        heads: u64, head_dim: u64
    }
    /// `y = scale · act(gate, up)`, `scale` a number a row.
    Compute Glu {
        Read gate: View, Read up: View, Read scale: Option<View>, Write y: View;
        act: Activation
    }
    /// Gradients of `Glu` in place: `gate` and `up` become their gradients, `dy` becomes `y` again.
    Compute GluGrad {
        Update gate: View, Update up: View, Update dy: View, Read scale: Option<View>, Write d_scale: Option<View>;
        act: Activation
    }
    /// `x += scale · bias`, a row of `bias` for each expert whose rows `counts` counts, one for all without; `scale` a
    /// number a row.
    Compute AddBias { Update x: View, Read bias: View, Read counts: Option<View>, Read scale: Option<View> }
    /// Gradients of `AddBias`; that of `scale` is added to `d_scale`.
    Compute AddBiasGrad {
        Read dy: View, Read bias: View, Read counts: Option<View>, Read scale: Option<View>,
        Write d_bias: Sum, Update d_scale: Option<View>
    }

    // Mixture of experts.

    /// The `top_k` experts of each token by score (plus `bias` for the choice alone) and their weights; only those of the
    /// `top_groups` groups of the best score.
    Compute MoeGatingTopK {
        Read logits: View, Read bias: Option<View>, Write index: View, Write weight: View;
        score: Score, normalize: bool, scale: f64, groups: u64, top_groups: u64, group_score: GroupScore
    }
    /// Gradient of `MoeGatingTopK` with respect to the logits.
    Compute MoeGatingTopKGrad {
        Read logits: View, Read index: View, Read d_weight: View, Write d_logits: View;
        score: Score, normalize: bool, scale: f64
    }
    /// The loss that evens out the load of experts over each sequence, `weight · experts / top_k · Σ share · mean score`:
    /// added to the step's auxiliary loss, its gradient to `d_logits`. `load` `[sequences, experts]` is for itself.
    Compute MoeAuxLoss {
        Read logits: View, Read index: View, Write load: View, Update d_logits: View;
        score: Score, sequence: u64, weight: f64
    }
    /// `load (+)= counts`, the tokens that each expert got in a step.
    Compute MoeCountLoad { Read counts: View, Write load: Sum }
    /// `bias += rate` where an expert's load is under the mean, `bias -= rate` where it is over it.
    Compute MoeUpdateBias { Read load: View, Update bias: View; rate: f64 }
    /// Sorts the chosen (token, slot) pairs by expert: `position` of each pair, `source` of each row, rows of each
    /// expert.
    Compute MoeTokenSort { Read index: View, Write position: View, Write source: View, Write counts: View }
    /// `rows[j] = x[source[j] / top_k]`
    Compute MoeTokenPermute { Read x: View, Read source: View, Write rows: View; top_k: u64 }
    /// `y[t] (+)= Σ rows[position[t, slot]]`
    Compute MoeTokenUnpermute {
        Read rows: View, Read position: View, Write y: Sum;
        top_k: u64
    }
    /// `out[j] = weight[source[j]]`
    Compute MoeWeightPermute { Read weight: View, Read source: View, Write out: View }
    /// `weight[t, slot] = rows[position[t, slot]]`
    Compute MoeWeightUnpermute { Read rows: View, Read position: View, Write weight: View }
    /// `out_e (+)= x_e · op(w_e)` for the rows of each local expert.
    Compute GroupedMatmul {
        Read x: View, Read w: View, Read counts: View, Write out: Sum;
        trans_w: bool
    }
    /// `dw_e (+)= dy_eᵀ · x_e` for the rows of each local expert.
    Compute GroupedMatmulGrad {
        Read dy: View, Read x: View, Read counts: View, Write dw: Sum
    }

    // Optimizer.

    /// Adds the sum of squares of a unit's gradient shard to the squared norm, divided by its number of copies.
    Compute SumSquares { Read grad: View; unit: UnitId, copies: u64 }
    /// AdamW on a unit's shard with the clipped gradient.
    Compute ApplyAdamW {
        Read grad: View, Update param: View, Update m: View, Update v: View;
        unit: UnitId, beta1: f64, beta2: f64, eps: f64, weight_decay: f64
    }
}

impl Op {
    /// The axis of the mesh that a collective runs over.
    pub fn axis(&self) -> Option<Axis> {
        match self {
            Op::Gather { axis, .. } | Op::ReduceScatter { axis, .. } | Op::AllReduce { axis, .. } => {
                Some(*axis)
            }
            Op::Exchange { .. } | Op::Dispatch { .. } | Op::Combine { .. } => Some(Axis::Ep),
            Op::CountTokens {} | Op::ReduceMetrics {} => Some(Axis::World),
            _ => None,
        }
    }
}

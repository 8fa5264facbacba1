//! CPU kernels: explicit forward and backward on plain slices, named after the aclnn operators of an NPU.
//!
//! Every tensor is a contiguous row-major slice of `f32`; shapes follow from the slices and the few sizes
//! that are passed. What holds for all of them:
//!
//! - Work is spread over the current rayon pool, and runs inline when that pool has one thread.
//! - Results are the same bits for every run and every number of threads: a sum has one fixed order.
//! - Nothing is allocated: scratch is on the stack and results go where the caller says.
//! - Loops are compiled for AVX-512, AVX2 and the baseline, and the best is chosen when the program runs.
//!
//! A slice of the wrong length is a mistake of the caller, not of the user, and panics.

mod attention;
mod attention_grad;
#[cfg(test)]
mod attention_reference;
mod balance;
mod bias;
mod convert;
mod elementwise;
mod embedding;
mod gate;
mod gemm;
mod glu;
mod grouped;
mod latent;
mod loss;
mod math;
mod moe;
mod norm;
mod optimizer;
mod parallel;
mod rope;
mod route;
mod shift;
mod simd;
#[cfg(test)]
mod testing;

pub use attention::{Attention, BLOCK as MOST_HEAD_DIM, flash_attention};
pub use attention_grad::{attention_sink_grad, flash_attention_grad};
pub use balance::{balance_loss, count_load, update_bias};
pub use bias::{add_bias, add_bias_grad};
pub use convert::{Half, narrow, widen};
pub use elementwise::{add, add_assign, clip, clip_grad, copy, fill, scale};
pub use embedding::{embedding, embedding_grad};
pub use gate::{head_gate, head_gate_grad};
pub use gemm::{View, matmul, matmul_strided};
pub use glu::{Act, Glu, glu, glu_grad};
pub use grouped::{grouped_matmul, grouped_matmul_weight_grad};
pub use latent::{latent_key_value, latent_key_value_grad};
pub use loss::{cross_entropy, softcap};
pub use moe::{token_permute, token_sort, token_unpermute, weight_permute, weight_unpermute};
pub use norm::{rms_norm, rms_norm_grad};
pub use optimizer::{AdamWStep, adamw, sum_squares};
pub use rope::{Llama3Scaling, RopeScaling, RopeTable, Rotation, YarnScaling, rope_table, rotary};
pub use route::{
    Gating, GroupScore, MOST_CHOSEN as MOST_TOP_K, MOST_GROUPS, Score, gating_top_k, gating_top_k_grad,
};
pub use shift::{concat, shift_labels, shift_tokens, split};

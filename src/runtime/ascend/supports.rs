//! What of the instruction set the NPU has no operators for: refused by name before anything is touched.

use super::Ascend;
use crate::diag::Diagnostic;
use crate::plan::{Op, Plan};
use crate::recipe::Act;

impl Ascend {
    /// Whether every instruction of a plan is one that operators of aclnn compute.
    ///
    /// # Errors
    /// The first one that is not.
    pub fn supports(plan: &Plan) -> Result<(), Diagnostic> {
        let missing = plan.program.instrs.iter().find_map(|op| match op {
            Op::FlashAttentionScore { sinks: Some(_), .. } => Some("attention sinks"),
            Op::FlashAttentionScore { heads, .. } if heads.softcap.is_some() => {
                Some("a softcap of attention scores")
            }
            Op::FlashAttentionScore { heads, .. } if heads.value_dim > heads.head_dim => {
                Some("values with more channels than keys")
            }
            Op::Glu { act, .. } if act.act != Act::SwiGlu => Some("activations other than swiglu"),
            Op::AddBias { counts: Some(_), .. } => Some("biases of experts"),
            Op::AddBiasGrad { scale: Some(_), .. } => Some("the gradient of a scaled bias"),
            Op::MoeGatingTopK { groups, top_groups, .. } if top_groups < groups => Some("groups of experts"),
            Op::MoeAuxLoss { .. } => Some("the auxiliary loss of a router"),
            _ => None,
        });
        missing.map_or(Ok(()), |what| {
            let message = format!("the Ascend engine has no operator for {what} yet");
            Err(Diagnostic::error("step::run::unsupported", message)
                .help("train this model by another engine: `stepc run RECIPE --engine mindspeed`"))
        })
    }
}

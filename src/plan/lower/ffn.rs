//! The feed-forward part of a layer: its norm, then a dense MLP or a mixture of experts.

use super::builder::Builder;
use super::moe;
use crate::model::{FfnModule, LayerModule, MlpModule};
use crate::plan::ops::{Op, Sum};
use crate::plan::program::View;
use crate::recipe::Recompute;

/// What the backward pass reads again.
pub(super) struct Kept {
    /// Input: the layer's middle.
    h: View,
    rstd: View,
    inner: Inner,
}

enum Inner {
    Dense(Mlp),
    Moe(Box<moe::Kept>),
}

/// Both halves of a gated MLP before the activation.
#[derive(Clone, Copy)]
pub(super) struct Mlp {
    pub gate: View,
    pub up: View,
}

impl Builder<'_> {
    /// Everything up to the activation inside.
    pub fn ffn(&mut self, layer: &LayerModule, h: View) -> Kept {
        let rstd = self.exact("ffn.rstd", self.tokens, 1);
        let x = self.rms_norm("ffn.x", h, rstd, layer.ffn_norm);
        let inner = match &layer.ffn {
            FfnModule::Dense(mlp) => Inner::Dense(self.mlp("mlp", mlp, x)),
            FfnModule::Moe(moe) => Inner::Moe(Box::new(self.moe(moe, x))),
        };
        Kept { h, rstd, inner }
    }

    /// From there to the layer's output.
    pub fn ffn_output(&mut self, layer: &LayerModule, kept: &Kept) -> View {
        let y = self.by_token("ffn.y", self.model.hidden);
        match (&layer.ffn, &kept.inner) {
            (FfnModule::Dense(mlp), Inner::Dense(kept)) => self.mlp_output("mlp", mlp, kept, y.set()),
            (FfnModule::Moe(moe), Inner::Moe(kept)) => self.moe_output(moe, kept, y),
            _ => unreachable!("a layer keeps what its own kind makes"),
        }
        self.add("out", kept.h, y)
    }

    /// Adds the gradient through the feed-forward part to `dh`, the gradient of the layer's output.
    pub fn ffn_backward(&mut self, layer: &LayerModule, kept: &Kept, dh: View) {
        let x = self.rms_norm("ffn.x", kept.h, kept.rstd, layer.ffn_norm);
        let dx = self.by_token("ffn.dx", x.cols);
        match (&layer.ffn, &kept.inner) {
            (FfnModule::Dense(mlp), Inner::Dense(kept)) => {
                self.mlp_backward("mlp", mlp, kept, x, dh, dx.set());
            }
            (FfnModule::Moe(moe), Inner::Moe(kept)) => self.moe_backward(moe, kept, x, dh, dx),
            _ => unreachable!("a layer keeps what its own kind makes"),
        }
        self.rms_norm_backward(layer.ffn_norm, dx, kept.h, kept.rstd, dh.add());
    }

    /// Whether the inside of feed-forward layers is made again from their input.
    pub fn recomputes_inside(&self) -> bool {
        self.recipe.parallel.recompute == Recompute::Selective
    }

    pub fn mlp(&mut self, name: &str, module: &MlpModule, x: View) -> Mlp {
        let gate = self.project(&format!("{name}.gate"), x, module.gate);
        let up = self.project(&format!("{name}.up"), x, module.up);
        Mlp { gate, up }
    }

    /// `out (+)= down(act(gate, up))`
    pub fn mlp_output(&mut self, name: &str, module: &MlpModule, kept: &Mlp, out: Sum) {
        let &Mlp { gate, up } = kept;
        let y = self.activation(&format!("{name}.act"), gate.rows, gate.cols);
        self.emit(Op::SwiGlu { gate, up, scale: None, y, clamp: module.config.clamp });
        let down = self.weight(module.down);
        self.matmul(y, down, out, super::builder::TIMES_WEIGHT_T);
    }

    /// Gradients of the three matrices, and `dx (+)=` that of the input, from `dy`, the gradient of the output.
    pub fn mlp_backward(&mut self, name: &str, module: &MlpModule, kept: &Mlp, x: View, dy: View, dx: Sum) {
        let Mlp { gate, up } = match self.recomputes_inside() {
            true => self.mlp(name, module, x),
            false => *kept,
        };
        let act = self.activation(&format!("{name}.d_act"), gate.rows, gate.cols);
        let down = self.weight(module.down);
        self.matmul(dy, down, act.set(), super::builder::PLAIN);
        self.emit(Op::SwiGluGrad {
            gate,
            up,
            dy: act,
            scale: None,
            d_scale: None,
            clamp: module.config.clamp,
        });
        let d_down = self.gradient(module.down);
        self.matmul(dy, act, d_down, super::builder::GRADIENT_T);
        self.project_backward(module.gate, x, gate, dx);
        self.project_backward(module.up, x, up, dx.view.add());
    }
}

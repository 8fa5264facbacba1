//! How the halves of a layer join its residual stream: added as they are, or through a norm (sandwich norms).

use super::builder::Builder;
use crate::model::ParamId;
use crate::plan::program::{Rows, View};

/// What the backward pass of a norm behind a half reads again.
#[derive(Clone, Copy)]
pub(super) struct Behind {
    gamma: ParamId,
    y: View,
    rstd: View,
}

impl Builder<'_> {
    /// `h + y`, or `h + norm(y)` with a norm of weight `gamma`.
    pub fn residual(
        &mut self,
        name: &str,
        h: View,
        y: View,
        gamma: Option<ParamId>,
    ) -> (View, Option<Behind>) {
        let (y, behind) = match gamma {
            None => (y, None),
            Some(gamma) => {
                let (normed, behind) = self.behind(name, y, gamma);
                (normed, Some(behind))
            }
        };
        (self.add(name, h, y), behind)
    }

    /// `norm(y)`
    pub fn behind(&mut self, name: &str, y: View, gamma: ParamId) -> (View, Behind) {
        let Rows::Fixed(rows) = y.rows else { unreachable!("a row for each token") };
        let rstd = self.exact(&format!("{name}.rstd"), rows, 1);
        let normed = self.rms_norm(&format!("{name}.normed"), y, rstd, gamma);
        (normed, Behind { gamma, y, rstd })
    }

    /// The gradient of `y` from `dh`, that of the sum.
    pub fn residual_backward(&mut self, name: &str, dh: View, behind: Option<Behind>) -> View {
        let Some(Behind { gamma, y, rstd }) = behind else { return dh };
        let dy = self.activation(name, y.rows, y.cols);
        self.rms_norm_backward(gamma, dh, y, rstd, dy.set());
        dy
    }
}

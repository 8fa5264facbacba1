//! The program under construction: buffers by name, instructions, and the operators that every module needs.

use super::balance::Load;
use super::units::UnitState;
use crate::base::DType;
use crate::model::{Model, ParamId};
use crate::plan::compile::Task;
use crate::plan::memory::Category;
use crate::plan::mesh::Mesh;
use crate::plan::ops::{Accumulate, Op, Sum};
use crate::plan::placement::{Placement, UnitId};
use crate::plan::program::{Buffer, BufferId, Program, Rope, Rows, View};
use crate::recipe::{self, Precision, Recipe};
use std::collections::HashMap;

/// Which operands of a product are transposed; weights are `[out, in]`.
pub(super) const PLAIN: (bool, bool) = (false, false);
pub(super) const TIMES_WEIGHT_T: (bool, bool) = (false, true);
pub(super) const GRADIENT_T: (bool, bool) = (true, false);

pub(super) struct Builder<'a> {
    pub recipe: &'a Recipe,
    pub model: &'a Model,
    pub mesh: &'a Mesh,
    pub placement: &'a Placement,
    pub task: Task,
    pub precision: Precision,
    /// Tokens of a micro batch.
    pub tokens: u64,
    pub program: Program,
    pub units: Vec<UnitState>,
    /// Where each trainable parameter lies.
    pub homes: HashMap<ParamId, (UnitId, usize)>,
    pub frozen: HashMap<ParamId, View>,
    /// Loads of experts that a bias is moved by.
    pub loads: Vec<Load>,
    /// The units that each stage of the step reads, and the stage that is being emitted.
    pub stages: Vec<Vec<UnitId>>,
    pub stage: Option<usize>,
    /// Prefix of buffer names: the layer and part that is being emitted.
    pub scope: String,
}

impl<'a> Builder<'a> {
    pub fn new(
        recipe: &'a Recipe,
        model: &'a Model,
        mesh: &'a Mesh,
        placement: &'a Placement,
        task: Task,
    ) -> Self {
        let tokens = recipe.train.micro_batch * recipe.data.sequence;
        let nothing = View { buffer: BufferId(0), offset: 0, rows: Rows::Fixed(0), cols: 0 };
        let program = Program {
            buffers: Vec::new(),
            routed: Vec::new(),
            ropes: Vec::new(),
            instrs: Vec::new(),
            begin: 0..0,
            micro: 0..0,
            update: 0..0,
            accumulation: recipe.train.global_batch
                / (recipe.train.micro_batch * recipe.parallel.data_ranks(&recipe.cluster)),
            persistent: 0,
            arena: 0,
            tokens: nothing,
            labels: nothing,
            positions: nothing,
            frozen: Vec::new(),
            logits: None,
            workspace: None,
        };
        let mut homes = HashMap::new();
        for (index, unit) in placement.units.iter().enumerate() {
            let places = unit.params.iter().enumerate();
            homes.extend(places.map(|(at, placed)| (placed.param, (UnitId(index as u32), at))));
        }
        let mut b = Builder {
            recipe,
            model,
            mesh,
            placement,
            task,
            precision: recipe.parallel.precision.clone(),
            tokens,
            program,
            units: Vec::new(),
            homes,
            frozen: HashMap::new(),
            loads: Vec::new(),
            stages: Vec::new(),
            stage: None,
            scope: String::new(),
        };
        b.persistent_buffers();
        b.stages = b.all_stages();
        b
    }

    fn persistent_buffers(&mut self) {
        let [tokens, labels, positions] =
            ["tokens", "labels", "positions"].map(|name| self.persistent(name, self.tokens, 1, DType::I32));
        self.program.tokens = tokens;
        self.program.labels = labels;
        self.program.positions = positions;
        for &param in &self.placement.frozen {
            let parameter = self.model.param(param);
            let view = self.persistent(&parameter.name, 1, parameter.elements(), DType::F32);
            self.program.frozen.push(view);
            self.frozen.insert(param, view);
        }
        self.loads();
        self.unit_buffers();
    }

    /// A buffer that lives as long as the run.
    pub fn persistent(&mut self, name: &str, rows: u64, cols: u64, dtype: DType) -> View {
        self.add_buffer(name.to_owned(), Rows::Fixed(rows), cols, dtype, Category::Constants, true)
    }

    /// An activation `[rows, cols]` in the type of the parameters.
    pub fn activation(&mut self, name: &str, rows: Rows, cols: u64) -> View {
        let category = match rows {
            Rows::Fixed(_) => Category::Activations,
            Rows::Routed(_) => Category::Dispatch,
        };
        self.temporary(name, rows, cols, self.precision.params, category)
    }

    /// An activation with a row for each token of the micro batch.
    pub fn by_token(&mut self, name: &str, cols: u64) -> View {
        self.activation(name, Rows::Fixed(self.tokens), cols)
    }

    /// Numbers that are kept in f32 whatever the precision of the parameters: statistics, router scores.
    pub fn exact(&mut self, name: &str, rows: u64, cols: u64) -> View {
        self.temporary(name, Rows::Fixed(rows), cols, DType::F32, Category::Activations)
    }

    /// A buffer that lives from its first to its last instruction.
    pub fn temporary(&mut self, name: &str, rows: Rows, cols: u64, dtype: DType, category: Category) -> View {
        let name = format!("{}.{name}", self.scope);
        self.add_buffer(name, rows, cols, dtype, category, false)
    }

    pub fn add_buffer(
        &mut self,
        name: String,
        rows: Rows,
        cols: u64,
        dtype: DType,
        category: Category,
        persistent: bool,
    ) -> View {
        let buffer = BufferId(self.program.buffers.len() as u32);
        self.program.buffers.push(Buffer { name, dtype, rows, cols, category, persistent, offset: 0 });
        View { buffer, offset: 0, rows, cols }
    }

    pub fn emit(&mut self, op: Op) {
        self.program.instrs.push(op);
    }

    /// The number of instructions so far.
    pub fn mark(&self) -> usize {
        self.program.instrs.len()
    }

    pub fn matmul(&mut self, a: View, b: View, out: Sum, (trans_a, trans_b): (bool, bool)) {
        self.emit(Op::Matmul { a, b, out, trans_a, trans_b });
    }

    /// `y = x · wᵀ` into a new activation.
    pub fn project(&mut self, name: &str, x: View, weight: ParamId) -> View {
        let w = self.weight(weight);
        let Rows::Fixed(out_features) = w.rows else { unreachable!("weights have a fixed shape") };
        let y = self.activation(name, x.rows, out_features);
        self.matmul(x, w, y.set(), TIMES_WEIGHT_T);
        y
    }

    /// The backward pass of `y = x · wᵀ`: `dw (+)= dyᵀ · x` and `dx (+)= dy · w`.
    pub fn project_backward(&mut self, weight: ParamId, x: View, dy: View, dx: Sum) {
        let w = self.weight(weight);
        self.matmul(dy, w, dx, PLAIN);
        let dw = self.gradient(weight);
        self.matmul(dy, x, dw, GRADIENT_T);
    }

    /// Normalises the rows of `x`; the result's reciprocal root mean square goes to `rstd`.
    pub fn rms_norm(&mut self, name: &str, x: View, rstd: View, gamma: ParamId) -> View {
        let y = self.activation(name, x.rows, x.cols);
        let gamma = self.vector(gamma);
        let recipe::Norm { eps, offset } = self.model.norm;
        self.emit(Op::RmsNorm { x, gamma, y, rstd, eps, offset });
        y
    }

    pub fn rms_norm_backward(&mut self, gamma: ParamId, dy: View, x: View, rstd: View, dx: Sum) {
        let d_gamma = self.gradient(gamma);
        let d_gamma = Sum { view: row(d_gamma.view), ..d_gamma };
        let gamma = self.vector(gamma);
        let offset = self.model.norm.offset;
        self.emit(Op::RmsNormGrad { dy, x, rstd, gamma, dx, d_gamma, offset });
    }

    /// `a + b` in a new activation.
    pub fn add(&mut self, name: &str, a: View, b: View) -> View {
        let out = self.activation(name, a.rows, a.cols);
        self.emit(Op::Add { a, b, out });
        out
    }

    /// The position tables for a kind of rotation, made once for all layers that share it.
    pub fn rope(&mut self, config: &recipe::Rope, head_dim: u64) -> Rope {
        let rotary = (head_dim as f64 * config.fraction).round() as u64;
        let known = self.program.ropes.iter().find(|r| r.config == *config && r.rotary == rotary);
        if let Some(rope) = known {
            return rope.clone();
        }
        let (index, sequence) = (self.program.ropes.len(), self.recipe.data.sequence);
        let cos = self.persistent(&format!("rope{index}.cos"), sequence, rotary / 2, DType::F32);
        let sin = self.persistent(&format!("rope{index}.sin"), sequence, rotary / 2, DType::F32);
        let rope = Rope { cos, sin, rotary, config: config.clone() };
        self.program.ropes.push(rope.clone());
        rope
    }

    pub fn finish(mut self, begin: usize, micro: usize, update: usize) -> Program {
        self.program.begin = begin..micro;
        self.program.micro = micro..update;
        self.program.update = update..self.mark();
        self.program
    }
}

/// A vector as a matrix of one row.
pub(super) fn row(view: View) -> View {
    let Rows::Fixed(rows) = view.rows else { unreachable!("parameters have a fixed shape") };
    view.reshape(1, rows * view.cols)
}

impl View {
    /// As a result that replaces what is there.
    pub(super) fn set(self) -> Sum {
        Sum { view: self, mode: Accumulate::Never }
    }

    /// As a result that is added to what is there.
    pub(super) fn add(self) -> Sum {
        Sum { view: self, mode: Accumulate::Always }
    }
}

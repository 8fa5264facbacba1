//! From the typed model of a recipe to modules and parameters.

use super::names::LayerNames;
use super::parameter::{Aside, Init, ParamId, Parameter, Part};
use super::slice::{Joint, Slice};
use crate::base::DType;
use crate::recipe;

/// The whole model: every parameter once, and modules that refer to them.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    pub params: Vec<Parameter>,
    pub vocab: u64,
    pub hidden: u64,
    pub norm: recipe::Norm,
    pub embed: ParamId,
    pub layers: Vec<LayerModule>,
    pub final_norm: ParamId,
    /// The embedding itself where the two are tied.
    pub head: ParamId,
    pub mtp: Vec<MtpModule>,
    pub aside: Aside,
}

/// A decoder layer: `h += attention(norm(h)); h += ffn(norm(h))`.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerModule {
    pub attention: AttentionModule,
    pub ffn_norm: ParamId,
    pub ffn: FfnModule,
}

/// Grouped-query attention with optional norms on queries and keys and an optional gate per head.
#[derive(Debug, Clone, PartialEq)]
pub struct AttentionModule {
    pub config: recipe::Attention,
    pub norm: ParamId,
    pub q: ParamId,
    pub k: ParamId,
    pub v: ParamId,
    pub o: ParamId,
    pub gate: Option<ParamId>,
    pub qk_norm: Option<(ParamId, ParamId)>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum FfnModule {
    Dense(MlpModule),
    Moe(MoeModule),
}

/// `down(act(gate(x), up(x)))`
#[derive(Debug, Clone, PartialEq)]
pub struct MlpModule {
    pub config: recipe::Mlp,
    pub gate: ParamId,
    pub up: ParamId,
    pub down: ParamId,
}

/// Routed experts, their router and the expert that all tokens share.
#[derive(Debug, Clone, PartialEq)]
pub struct MoeModule {
    pub config: recipe::Moe,
    pub router: ParamId,
    pub bias: Option<ParamId>,
    pub gate: ParamId,
    pub up: ParamId,
    pub down: ParamId,
    pub shared: Option<MlpModule>,
}

/// One layer of multi-token prediction: `block(project([norm(embed(next)), norm(h)]))` and a head.
#[derive(Debug, Clone, PartialEq)]
pub struct MtpModule {
    pub embed_norm: ParamId,
    pub hidden_norm: ParamId,
    pub project: ParamId,
    pub layer: LayerModule,
    pub norm: ParamId,
    pub head: Option<ParamId>,
}

impl Model {
    /// Builds the modules of `model` with parameters of type `dtype` (router tensors have the router's precision).
    pub fn build(model: &recipe::Model, dtype: DType) -> Model {
        let mut b = Builder { model, dtype, params: Vec::new(), part: Part::Body };
        let names = &model.names;
        let embed = b.matrix_of(Part::Embedding, names.embed.clone(), [model.vocab, model.hidden]);
        let layers = model.blocks.iter().enumerate();
        let layers = layers.map(|(i, l)| b.layer(i as u64, &l.attention, &l.ffn)).collect();
        let final_norm = b.norm(names.norm.clone(), model.hidden);
        let head = match model.tie_embeddings {
            true => embed,
            false => b.matrix_of(Part::Head, names.head.clone(), [model.vocab, model.hidden]),
        };
        b.part = Part::Mtp;
        let mtp = model.mtp.iter().flat_map(|m| (0..m.layers).map(move |j| (m, model.layers + j)));
        let mtp = mtp.map(|(m, i)| b.mtp(i, m)).collect();
        Model {
            params: b.params,
            vocab: model.vocab,
            hidden: model.hidden,
            norm: model.norm.clone(),
            embed,
            layers,
            final_norm,
            head,
            mtp,
            aside: Aside {
                tied_head: model.tie_embeddings.then(|| names.head.clone()),
                ignored: names.ignored.values().cloned().collect(),
            },
        }
    }

    /// The parameter behind an id of this model.
    pub fn param(&self, id: ParamId) -> &Parameter {
        &self.params[id.0 as usize]
    }

    /// Parameters that take part in training, in checkpoint order: all but multi-token prediction.
    pub fn trained(&self) -> impl Iterator<Item = (ParamId, &Parameter)> {
        let ids = (0..).map(ParamId);
        ids.zip(&self.params).filter(|(_, p)| p.part != Part::Mtp)
    }
}

struct Builder<'a> {
    model: &'a recipe::Model,
    dtype: DType,
    params: Vec<Parameter>,
    part: Part,
}

impl Builder<'_> {
    fn add(&mut self, parameter: Parameter) -> ParamId {
        self.params.push(parameter);
        ParamId(self.params.len() as u32 - 1)
    }

    fn tensor(&mut self, name: String, shape: Vec<u64>, dtype: DType, part: Part) -> ParamId {
        let init = Init::Normal { std: self.model.init_std };
        self.add(Parameter { name, shape, dtype, part, trainable: true, init, slice: None })
    }

    /// Says how a checkpoint lays out the parameters that it keeps in one tensor: those of `ids`, in the order of its rows,
    /// that have the same name.
    fn join(&mut self, ids: &[ParamId], joint: Joint) {
        let at = |id: &ParamId| id.0 as usize;
        let same = |a: &ParamId, b: &ParamId| self.params[at(a)].name == self.params[at(b)].name;
        for same in ids.chunk_by(same).collect::<Vec<_>>() {
            let parameters: Vec<&Parameter> = same.iter().map(|id| &self.params[at(id)]).collect();
            for (id, slice) in same.iter().zip(Slice::joint(&parameters, joint)) {
                self.params[at(id)].slice = slice;
            }
        }
    }

    /// [`Builder::join`] for a gate and an up projection.
    fn join_gate_up(&mut self, [gate, up]: [ParamId; 2], order: recipe::GateUp, joint: Joint) {
        match order {
            recipe::GateUp::GateFirst => self.join(&[gate, up], joint),
            recipe::GateUp::UpFirst => self.join(&[up, gate], joint),
            recipe::GateUp::Interleaved => self.join(&[gate, up], Joint { interleaved: true, ..joint }),
        }
    }

    fn matrix(&mut self, name: String, shape: [u64; 2]) -> ParamId {
        self.tensor(name, shape.to_vec(), self.dtype, self.part)
    }

    fn matrix_of(&mut self, part: Part, name: String, shape: [u64; 2]) -> ParamId {
        self.tensor(name, shape.to_vec(), self.dtype, part)
    }

    /// A norm starts as the identity: weight + offset = 1.
    fn norm(&mut self, name: String, size: u64) -> ParamId {
        let init = Init::Constant(1.0 - self.model.norm.offset);
        let (dtype, part) = (self.dtype, self.part);
        self.add(Parameter { name, shape: vec![size], dtype, part, trainable: true, init, slice: None })
    }

    fn layer(&mut self, i: u64, attention: &recipe::Attention, ffn: &recipe::Ffn) -> LayerModule {
        let names = LayerNames::new(&self.model.names, i);
        let attention = self.attention(&names, attention);
        let ffn_norm = self.norm(names.of(&names.names.mlp.norm), self.model.hidden);
        let ffn = match ffn {
            recipe::Ffn::Dense(mlp) => {
                let n = &names.names.mlp;
                FfnModule::Dense(self.mlp(mlp, [&n.gate, &n.up, &n.down].map(|n| names.of(n)), n.gate_up))
            }
            recipe::Ffn::Moe(moe) => FfnModule::Moe(self.moe(&names, moe)),
        };
        LayerModule { attention, ffn_norm, ffn }
    }

    fn attention(&mut self, names: &LayerNames, a: &recipe::Attention) -> AttentionModule {
        let n = &names.names.attention;
        let hidden = self.model.hidden;
        let (q, kv) = (a.heads * a.head_dim, a.kv_heads * a.head_dim);
        let norm = self.norm(names.of(&n.norm), hidden);
        let [q, k, v] = [(&n.q, q), (&n.k, kv), (&n.v, kv)]
            .map(|(name, rows)| self.matrix(names.of(name), [rows, hidden]));
        self.join(&[q, k, v], Joint::default());
        AttentionModule {
            norm,
            q,
            k,
            v,
            o: self.matrix(names.of(&n.o), [hidden, a.heads * a.head_dim]),
            gate: (a.gate == recipe::Gate::PerHead)
                .then(|| self.matrix(names.of(&n.gate), [a.heads, hidden])),
            qk_norm: a.qk_norm.then(|| {
                (self.norm(names.of(&n.q_norm), a.head_dim), self.norm(names.of(&n.k_norm), a.head_dim))
            }),
            config: a.clone(),
        }
    }

    fn mlp(&mut self, mlp: &recipe::Mlp, [gate, up, down]: [String; 3], order: recipe::GateUp) -> MlpModule {
        let hidden = self.model.hidden;
        let [gate, up] = [gate, up].map(|name| self.matrix(name, [mlp.inner, hidden]));
        self.join_gate_up([gate, up], order, Joint::default());
        MlpModule { gate, up, down: self.matrix(down, [hidden, mlp.inner]), config: mlp.clone() }
    }

    fn moe(&mut self, names: &LayerNames, moe: &recipe::Moe) -> MoeModule {
        let n = &names.names.moe;
        let (hidden, part) = (self.model.hidden, self.part);
        let experts = if part == Part::Mtp { Part::Mtp } else { Part::Experts };
        let precision = moe.router.precision;
        let router = self.tensor(names.of(&n.router), vec![moe.experts, hidden], precision, part);
        let bias = moe.router.bias.then(|| {
            self.add(Parameter {
                name: names.of(&n.bias),
                shape: vec![moe.experts],
                dtype: precision,
                part,
                trainable: false,
                init: Init::Constant(0.0),
                slice: None,
            })
        });
        let [wide, narrow] = [[moe.inner, hidden], [hidden, moe.inner]];
        let [gate, up, down] =
            [(&n.gate, wide), (&n.up, wide), (&n.down, narrow)].map(|(name, [out, inner])| {
                self.tensor(names.expert(name), vec![moe.experts, out, inner], self.dtype, experts)
            });
        let transposed = n.layout == recipe::Layout::Transposed;
        let joint = Joint { experts: true, transposed, interleaved: false };
        self.join_gate_up([gate, up], n.gate_up, joint);
        self.join(&[down], joint);
        MoeModule {
            router,
            bias,
            gate,
            up,
            down,
            shared: moe.shared.as_ref().map(|shared| {
                let of_shared = [&n.shared_gate, &n.shared_up, &n.shared_down].map(|n| names.of(n));
                self.mlp(shared, of_shared, n.gate_up)
            }),
            config: moe.clone(),
        }
    }

    fn mtp(&mut self, i: u64, mtp: &recipe::Mtp) -> MtpModule {
        let names = LayerNames::new(&self.model.names, i);
        let n = &names.names.mtp;
        let hidden = self.model.hidden;
        MtpModule {
            embed_norm: self.norm(names.of(&n.embed_norm), hidden),
            hidden_norm: self.norm(names.of(&n.hidden_norm), hidden),
            project: self.matrix(names.of(&n.project), [hidden, 2 * hidden]),
            layer: self.layer(i, &mtp.attention, &mtp.ffn),
            norm: self.norm(names.of(&n.norm), hidden),
            head: (mtp.head == recipe::MtpHead::Own)
                .then(|| self.matrix(names.of(&n.head), [self.model.vocab, hidden])),
        }
    }
}

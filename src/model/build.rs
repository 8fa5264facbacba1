//! From the typed model of a recipe to modules and parameters.

use super::attention::AttentionModule;
use super::names::LayerNames;
use super::parameter::{Aside, Copied, Init, ParamId, Parameter, Part};
use super::slice::{Joint, Slice};
use crate::base::DType;
use crate::recipe::{self, MtpUsage};

/// The whole model: every parameter once, and modules that refer to them.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    pub params: Vec<Parameter>,
    pub vocab: u64,
    pub hidden: u64,
    pub norm: recipe::Norm,
    /// The embedding of a token is multiplied by this.
    pub embed_scale: f64,
    /// Logits go through `cap · tanh(logit / cap)`.
    pub logit_softcap: Option<f64>,
    pub embed: ParamId,
    pub layers: Vec<LayerModule>,
    pub final_norm: ParamId,
    /// The embedding itself where the two are tied.
    pub head: ParamId,
    pub mtp: Vec<MtpModule>,
    pub aside: Aside,
}

/// A decoder layer: `h += attention(norm(h)); h += ffn(norm(h))`, with a further norm around each half where the model
/// has norms behind them.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerModule {
    pub attention: AttentionModule,
    pub attention_norm_behind: Option<ParamId>,
    pub ffn_norm: ParamId,
    pub ffn: FfnModule,
    pub ffn_norm_behind: Option<ParamId>,
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
    pub bias: Option<Biases>,
}

/// What the three projections of a feed-forward layer add, by expert where they are routed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Biases {
    pub gate: ParamId,
    pub up: ParamId,
    pub down: ParamId,
}

/// Routed experts, their router and the expert that all tokens share.
#[derive(Debug, Clone, PartialEq)]
pub struct MoeModule {
    pub config: recipe::Moe,
    pub router: ParamId,
    /// Added to the logits, and trained.
    pub logit_bias: Option<ParamId>,
    /// Added to the scores for the choice alone, and frozen.
    pub bias: Option<ParamId>,
    pub gate: ParamId,
    pub up: ParamId,
    pub down: ParamId,
    /// `[experts, out]` each.
    pub biases: Option<Biases>,
    pub shared: Option<MlpModule>,
    /// From a token to the logit of the shared expert's weight.
    pub shared_router: Option<ParamId>,
}

impl MlpModule {
    /// Its parameters.
    pub fn params(&self) -> impl Iterator<Item = ParamId> {
        [self.gate, self.up, self.down].into_iter().chain(self.bias.into_iter().flat_map(Biases::params))
    }
}

impl Biases {
    fn params(self) -> [ParamId; 3] {
        [self.gate, self.up, self.down]
    }
}

impl MoeModule {
    /// The parameters of the routed experts.
    pub fn experts(&self) -> impl Iterator<Item = ParamId> {
        [self.gate, self.up, self.down].into_iter().chain(self.biases.into_iter().flat_map(Biases::params))
    }

    /// The trained parameters that every token meets: of the router and of the shared expert.
    pub fn dense(&self) -> impl Iterator<Item = ParamId> {
        let shared = self.shared.iter().flat_map(MlpModule::params);
        [self.router].into_iter().chain(self.logit_bias).chain(self.shared_router).chain(shared)
    }
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
        b.part = match model.mtp.as_ref().map(|mtp| mtp.usage) {
            Some(MtpUsage::Trained) | None => Part::Body,
            Some(MtpUsage::Kept) => Part::Kept,
            Some(MtpUsage::Dropped) => Part::Dropped,
        };
        let mtp = model.mtp.iter().flat_map(|m| (0..m.layers).map(move |j| (m, model.layers + j)));
        let mtp = mtp.map(|(m, i)| b.mtp(i, m)).collect();
        let copies = b.copies();
        Model {
            params: b.params,
            vocab: model.vocab,
            hidden: model.hidden,
            norm: model.norm.clone(),
            embed_scale: model.embed_scale,
            logit_softcap: model.logit_softcap,
            embed,
            layers,
            final_norm,
            head,
            mtp,
            aside: Aside { copies, ignored: names.ignored.values().cloned().collect() },
        }
    }

    /// The parameter behind an id of this model.
    pub fn param(&self, id: ParamId) -> &Parameter {
        &self.params[id.0 as usize]
    }

    /// Parameters that take part in training, in checkpoint order.
    pub fn trained(&self) -> impl Iterator<Item = (ParamId, &Parameter)> {
        let ids = (0..).map(ParamId);
        ids.zip(&self.params).filter(|(_, p)| p.in_training())
    }

    /// The layers of multi-token prediction that are trained: all of them or none.
    pub fn trained_mtp(&self) -> &[MtpModule] {
        let trained = |mtp: &MtpModule| self.param(mtp.project).in_training();
        if self.mtp.first().is_some_and(trained) { &self.mtp } else { &[] }
    }
}

pub(super) struct Builder<'a> {
    pub model: &'a recipe::Model,
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
    pub fn join(&mut self, ids: &[ParamId], joint: Joint) {
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

    pub fn matrix(&mut self, name: String, shape: [u64; 2]) -> ParamId {
        self.tensor(name, shape.to_vec(), self.dtype, self.part)
    }

    fn matrix_of(&mut self, part: Part, name: String, shape: [u64; 2]) -> ParamId {
        self.tensor(name, shape.to_vec(), self.dtype, part)
    }

    /// A norm starts as the identity: weight + offset = 1.
    pub fn norm(&mut self, name: String, size: u64) -> ParamId {
        self.vector(name, size, Init::Constant(1.0 - self.model.norm.offset))
    }

    pub fn vector(&mut self, name: String, size: u64, init: Init) -> ParamId {
        let (dtype, part) = (self.dtype, self.part);
        self.add(Parameter { name, shape: vec![size], dtype, part, trainable: true, init, slice: None })
    }

    fn norm_behind(&mut self, name: String) -> Option<ParamId> {
        self.model.norm.behind.then(|| self.norm(name, self.model.hidden))
    }

    fn bias(&mut self, name: String, shape: &[u64], dtype: DType, part: Part) -> ParamId {
        let (shape, init) = (shape.to_vec(), Init::Constant(0.0));
        self.add(Parameter { name, shape, dtype, part, trainable: true, init, slice: None })
    }

    fn layer(&mut self, i: u64, attention: &recipe::Attention, ffn: &recipe::Ffn) -> LayerModule {
        let names = LayerNames::new(&self.model.names, i);
        let attention = self.attention(&names, attention);
        let attention_norm_behind = self.norm_behind(names.of(&names.names.attention.norm_behind));
        let n = &names.names.mlp;
        let ffn_norm = self.norm(names.of(&n.norm), self.model.hidden);
        let ffn = match ffn {
            recipe::Ffn::Dense(mlp) => {
                let biases = [&n.gate_bias, &n.up_bias, &n.down_bias];
                FfnModule::Dense(self.mlp(&names, mlp, [&n.gate, &n.up, &n.down], biases, n.gate_up))
            }
            recipe::Ffn::Moe(moe) => FfnModule::Moe(self.moe(&names, moe)),
        };
        let ffn_norm_behind = self.norm_behind(names.of(&n.norm_behind));
        LayerModule { attention, attention_norm_behind, ffn_norm, ffn, ffn_norm_behind }
    }

    fn mlp(
        &mut self,
        names: &LayerNames,
        mlp: &recipe::Mlp,
        [gate, up, down]: [&String; 3],
        biases: [&String; 3],
        order: recipe::GateUp,
    ) -> MlpModule {
        let hidden = self.model.hidden;
        let [gate, up] = [gate, up].map(|name| self.matrix(names.of(name), [mlp.inner, hidden]));
        self.join_gate_up([gate, up], order, Joint::default());
        let down = self.matrix(names.of(down), [hidden, mlp.inner]);
        let bias = mlp.bias.then(|| {
            let biases = self.biases(biases.map(|name| names.of(name)), &[], mlp.inner, self.part);
            self.join_gate_up([biases.gate, biases.up], order, Joint::default());
            biases
        });
        MlpModule { gate, up, down, bias, config: mlp.clone() }
    }

    /// Biases of the three projections, one of each for each of the `experts` where there are some.
    fn biases(&mut self, [gate, up, down]: [String; 3], experts: &[u64], inner: u64, part: Part) -> Biases {
        let (hidden, dtype) = (self.model.hidden, self.dtype);
        let mut bias = |name, width| self.bias(name, &[experts, &[width]].concat(), dtype, part);
        Biases { gate: bias(gate, inner), up: bias(up, inner), down: bias(down, hidden) }
    }

    fn moe(&mut self, names: &LayerNames, moe: &recipe::Moe) -> MoeModule {
        let n = &names.names.moe;
        let (hidden, part) = (self.model.hidden, self.part);
        let experts = if part == Part::Body { Part::Experts } else { part };
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
            logit_bias: (moe.router.logit_bias)
                .then(|| self.bias(names.of(&n.logit_bias), &[moe.experts], precision, part)),
            bias,
            gate,
            up,
            down,
            biases: moe.bias.then(|| {
                let biases = [&n.gate_bias, &n.up_bias, &n.down_bias].map(|name| names.expert(name));
                let biases = self.biases(biases, &[moe.experts], moe.inner, experts);
                self.join_gate_up([biases.gate, biases.up], n.gate_up, joint);
                biases
            }),
            shared: moe.shared.as_ref().map(|shared| {
                let biases = [&n.shared_gate_bias, &n.shared_up_bias, &n.shared_down_bias];
                let weights = [&n.shared_gate, &n.shared_up, &n.shared_down];
                self.mlp(names, shared, weights, biases, n.gate_up)
            }),
            shared_router: (moe.shared_gate && moe.shared.is_some())
                .then(|| self.matrix(names.of(&n.shared_router), [1, hidden])),
            config: moe.clone(),
        }
    }

    /// A tied head, and what layers of multi-token prediction share with the model.
    fn copies(&self) -> Vec<Copied> {
        let names = &self.model.names;
        let head = if self.model.tie_embeddings { &names.embed } else { &names.head };
        let copy = |name: String, of: &String, part| Copied { name, of: of.clone(), part };
        let tied = self.model.tie_embeddings.then(|| copy(names.head.clone(), head, Part::Head));
        let ahead = self.model.mtp.iter().flat_map(|mtp| {
            let layers = (0..mtp.layers).map(|j| LayerNames::new(names, self.model.layers + j));
            layers.flat_map(move |layer| {
                let shared = (mtp.head == recipe::MtpHead::Shared)
                    .then(|| copy(layer.of(&names.mtp.head), head, self.part));
                [copy(layer.of(&names.mtp.embed), &names.embed, self.part)].into_iter().chain(shared)
            })
        });
        tied.into_iter().chain(ahead).collect()
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

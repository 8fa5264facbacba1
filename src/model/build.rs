//! From the typed model of a recipe to modules and parameters.

use super::attention::AttentionModule;
use super::names::LayerNames;
use super::parameter::{Init, ParamId, Parameter, Part};
use crate::base::DType;
use crate::recipe;

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
        b.part = Part::Mtp;
        let mtp = model.mtp.iter().flat_map(|m| (0..m.layers).map(move |j| (m, model.layers + j)));
        let mtp = mtp.map(|(m, i)| b.mtp(i, m)).collect();
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
        self.add(Parameter { name, shape, dtype, part, trainable: true, init })
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
        self.add(Parameter { name, shape: vec![size], dtype, part, trainable: true, init })
    }

    fn norm_behind(&mut self, name: String) -> Option<ParamId> {
        self.model.norm.behind.then(|| self.norm(name, self.model.hidden))
    }

    fn bias(&mut self, name: String, shape: &[u64], dtype: DType, part: Part) -> ParamId {
        let (shape, init) = (shape.to_vec(), Init::Constant(0.0));
        self.add(Parameter { name, shape, dtype, part, trainable: true, init })
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
                FfnModule::Dense(self.mlp(&names, mlp, [&n.gate, &n.up, &n.down], biases))
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
    ) -> MlpModule {
        let hidden = self.model.hidden;
        MlpModule {
            gate: self.matrix(names.of(gate), [mlp.inner, hidden]),
            up: self.matrix(names.of(up), [mlp.inner, hidden]),
            down: self.matrix(names.of(down), [hidden, mlp.inner]),
            bias: mlp.bias.then(|| {
                let [gate, up, down] = biases.map(|name| names.of(name));
                self.biases([gate, up, down], &[], mlp.inner, self.part)
            }),
            config: mlp.clone(),
        }
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
        let experts = if part == Part::Mtp { Part::Mtp } else { Part::Experts };
        let precision = moe.router.precision;
        let wide = vec![moe.experts, moe.inner, hidden];
        MoeModule {
            router: self.tensor(names.of(&n.router), vec![moe.experts, hidden], precision, part),
            logit_bias: (moe.router.logit_bias)
                .then(|| self.bias(names.of(&n.logit_bias), &[moe.experts], precision, part)),
            bias: moe.router.bias.then(|| {
                self.add(Parameter {
                    name: names.of(&n.bias),
                    shape: vec![moe.experts],
                    dtype: precision,
                    part,
                    trainable: false,
                    init: Init::Constant(0.0),
                })
            }),
            gate: self.tensor(names.expert(&n.gate), wide.clone(), self.dtype, experts),
            up: self.tensor(names.expert(&n.up), wide, self.dtype, experts),
            down: self.tensor(
                names.expert(&n.down),
                vec![moe.experts, hidden, moe.inner],
                self.dtype,
                experts,
            ),
            biases: moe.bias.then(|| {
                let biases = [&n.gate_bias, &n.up_bias, &n.down_bias].map(|name| names.expert(name));
                self.biases(biases, &[moe.experts], moe.inner, experts)
            }),
            shared: moe.shared.as_ref().map(|shared| {
                let biases = [&n.shared_gate_bias, &n.shared_up_bias, &n.shared_down_bias];
                let weights = [&n.shared_gate, &n.shared_up, &n.shared_down];
                self.mlp(names, shared, weights, biases)
            }),
            shared_router: (moe.shared_gate && moe.shared.is_some())
                .then(|| self.matrix(names.of(&n.shared_router), [1, hidden])),
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

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
    pub embed: ParamId,
    pub layers: Vec<LayerModule>,
    pub final_norm: ParamId,
    /// The embedding itself where the two are tied.
    pub head: ParamId,
    pub mtp: Vec<MtpModule>,
}

/// A decoder layer: `h += attention(norm(h)); h += ffn(norm(h))`.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerModule {
    pub attention: AttentionModule,
    pub ffn_norm: ParamId,
    pub ffn: FfnModule,
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

    fn layer(&mut self, i: u64, attention: &recipe::Attention, ffn: &recipe::Ffn) -> LayerModule {
        let names = LayerNames::new(&self.model.names, i);
        let attention = self.attention(&names, attention);
        let ffn_norm = self.norm(names.of(&names.names.mlp.norm), self.model.hidden);
        let ffn = match ffn {
            recipe::Ffn::Dense(mlp) => {
                let n = &names.names.mlp;
                FfnModule::Dense(self.mlp(mlp, [&n.gate, &n.up, &n.down].map(|n| names.of(n))))
            }
            recipe::Ffn::Moe(moe) => FfnModule::Moe(self.moe(&names, moe)),
        };
        LayerModule { attention, ffn_norm, ffn }
    }

    fn mlp(&mut self, mlp: &recipe::Mlp, [gate, up, down]: [String; 3]) -> MlpModule {
        let hidden = self.model.hidden;
        MlpModule {
            gate: self.matrix(gate, [mlp.inner, hidden]),
            up: self.matrix(up, [mlp.inner, hidden]),
            down: self.matrix(down, [hidden, mlp.inner]),
            config: mlp.clone(),
        }
    }

    fn moe(&mut self, names: &LayerNames, moe: &recipe::Moe) -> MoeModule {
        let n = &names.names.moe;
        let (hidden, part) = (self.model.hidden, self.part);
        let experts = if part == Part::Mtp { Part::Mtp } else { Part::Experts };
        let precision = moe.router.precision;
        let wide = vec![moe.experts, moe.inner, hidden];
        MoeModule {
            router: self.tensor(names.of(&n.router), vec![moe.experts, hidden], precision, part),
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
            shared: moe.shared.as_ref().map(|shared| {
                self.mlp(shared, [&n.shared_gate, &n.shared_up, &n.shared_down].map(|n| names.of(n)))
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

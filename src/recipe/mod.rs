//! From spanned trees to a typed [`Recipe`]: declaration, loading, merging, evaluation, rules.
//!
//! In: the files that a [`Request`] names. Out: a [`Resolved`] recipe in which every value is of its type, within its bounds
//! and consistent with the others, and [`Origins`], the place that set each. What is wrong is reported to the sink, all of it
//! together.
//!
//! | file | what it does |
//! | --- | --- |
//! | `declare`, `schema` | every block declared once: Rust type, schema, extraction |
//! | `forms`, `reader`, `layers`, `check`, `terms` | extraction and its checks |
//! | `load`, `library` | files, `use`, the embedded library |
//! | `node`, `items`, `merge`, `origins` | bases, profiles, `--set`, and who set what |
//! | `eval`, `lookup`, `operators`, `functions`, `value`, `units` | expressions |
//! | `resolve`, `rules` | all of it in order, then what must hold between values |
//! | `alone` | items that no recipe uses yet |
//! | `draft` | new recipes from the library or from a `config.json` |
//! | `why`, `by_layer`, `binding` | every place that set a value, values layer by layer and of `let`s, for people who ask |

#[macro_use]
mod declare;

mod alone;
mod binding;
mod by_layer;
mod check;
pub mod draft;
mod eval;
mod forms;
pub mod functions;
mod insert;
mod items;
mod layers;
pub mod library;
mod load;
mod lookup;
mod merge;
mod node;
mod operators;
mod origins;
mod reader;
mod resolve;
mod rules;
pub mod schema;
mod terms;
pub mod units;
mod value;
mod why;

pub use declare::Block;
pub use insert::with_profile;
pub use layers::LAYER;
pub use load::{Parsed, Request, SourceFile, parse_all};
pub use origins::{Origin, Origins, Via};
pub use resolve::{Loaded, Profile, Resolved, item_schema, load};
pub use rules::divide::divisors;
pub use rules::divides;
pub use schema::data::{Answers, Chat, Data, Fault, Format, Overlong, Pack, Source};
pub use schema::machine::{Cluster, Device, DeviceKind, Efficiency, Link};
pub use schema::model::{
    Act, Activation, Attention, Bias, Ffn, Gate, GroupScore, Init, Latent, Layer, LinearScaling,
    Llama3Scaling, LongRopeScaling, Mlp, Model, Moe, Mtp, MtpHead, MtpInput, MtpUsage, Norm, QkNorm, Rope,
    RopeStyle, Router, Scaling, Score, Weights, YarnScaling,
};
pub use schema::names::{AttentionNames, GateUp, Ignored, Layout, MlpNames, MoeNames, MtpNames, Names};
pub use schema::parallel::{CpKind, Offload, Parallel, Precision, Recompute};
pub use schema::recipe::Recipe;
pub use schema::train::{AdamW, Checkpoint, Constant, Cosine, Muon, Optimizer, Schedule, Stage, Train};
pub use why::{Setting, Written};

//! `stepc` compiles a training recipe into an execution plan and runs it.
//!
//! Data flows one way, and each module imports only those above it in this list:
//!
//! | module | from | to |
//! | --- | --- | --- |
//! | [`base`], [`diag`] | – | places in text, the outside world, element types; one kind of diagnostic |
//! | [`syntax`] | text of a `.step` file | spanned tree |
//! | [`recipe`] | trees, profile, `--set` | typed [`recipe::Recipe`], checked, with the place of every value |
//! | [`model`] | the recipe's model | modules and parameters on the meta device: shapes, types, names, no memory |
//! | [`plan`] | recipe and model | [`plan::Plan`]: mesh, placement, program, memory |
//! | [`kernels`], [`comm`], [`data`] | plain slices and structs | arithmetic, collectives, token sequences |
//! | [`weights`] | a Hugging Face folder | the bytes of a shard |
//! | [`import`] | its `config.json` | the text of a model |
//! | [`check`] | a loaded recipe | all that is wrong with it |
//! | [`checkpoint`] | the state of a run | a folder that any layout goes on from, or a Hugging Face folder |
//! | [`runtime`] | a plan | trained parameters and a report a step |
//! | [`report`] | plans and reports | what people and programs read |
//! | [`lsp`] | requests of an editor | what it shows |
//! | [`cli`] | arguments | an exit code |
//!
//! The program inside the plan is the only description of a step: its memory is predicted from it, and a device walks it.

pub mod base;
pub mod check;
pub mod checkpoint;
pub mod cli;
pub mod comm;
pub mod data;
pub mod diag;
pub mod import;
pub mod kernels;
pub mod lsp;
pub mod model;
pub mod plan;
pub mod recipe;
pub mod report;
pub mod runtime;
pub mod syntax;
pub mod weights;

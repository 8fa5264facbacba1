//! Models from elsewhere: the `config.json` of a Hugging Face folder becomes a `model` item.
//!
//! ```text
//! config.json ──keys──▶ family (a table) ──▶ page (fields by path) ──▶ text of a model
//!                          ▲
//! safetensors headers ─────┘ where the configuration leaves something open
//! ```
//!
//! A family is a table in `families/`: which key goes to which field, and what holds where a key is absent. Every key of a
//! configuration is mapped, known to say nothing about the architecture (`irrelevant`), or refused by its name.

mod families;
mod family;
mod hf;
mod irrelevant;
mod keys;
mod layers;
mod page;
mod rope;
mod wrapper;

pub use hf::{Imported, hf};

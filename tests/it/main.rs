//! All integration tests in one binary, which links once.

mod command;
mod examples;
mod explain;
mod formats;
mod golden;
mod invariance;
mod language;
mod layers;
mod new;
mod support;

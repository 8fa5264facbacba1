//! All integration tests in one binary, which links once.

mod explain;
mod golden;
mod invariance;
mod layers;
mod support;

//! All integration tests in one binary, which links once.

mod format;
mod golden;
mod invariance;
mod layers;
mod support;

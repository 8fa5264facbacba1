//! All integration tests in one binary, which links once.

mod cases;
mod golden;
mod invariance;
mod layers;
mod support;

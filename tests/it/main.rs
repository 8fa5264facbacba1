//! All integration tests in one binary, which links once.

mod cli;
mod faults;
mod accuracy;
mod golden;
mod invariance;
mod layers;
mod support;

//! All integration tests in one binary, which links once.

mod accuracy;
mod cli;
mod faults;
mod golden;
mod invariance;
mod layers;
mod support;
mod tune;

//! All integration tests in one binary, which links once.

mod cases;
mod cli;
mod faults;
mod format;
mod fuzz;
mod golden;
mod hostile;
mod invariance;
mod layers;
mod support;

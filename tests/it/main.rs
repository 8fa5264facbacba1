//! All integration tests in one binary, which links once.

mod cli;
mod faults;
mod golden;
mod html;
mod invariance;
mod layers;
mod support;
mod time;

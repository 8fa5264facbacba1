//! All integration tests in one binary, which links once.

mod accuracy;
mod cases;
mod cli;
mod command;
mod data;
mod engines;
mod examples;
mod explain;
mod faults;
mod format;
mod formats;
mod fuzz;
mod golden;
mod hostile;
mod html;
mod invariance;
mod language;
mod layers;
mod model;
mod new;
mod router;
mod support;
mod tamper;
mod time;
mod tune;

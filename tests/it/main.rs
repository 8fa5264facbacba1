//! All integration tests in one binary, which links once.

mod accuracy;
mod cases;
mod checkpoint;
mod cli;
mod command;
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
mod killed;
mod language;
mod layers;
mod model;
mod new;
mod reshard;
mod support;
mod tamper;
mod time;
mod tune;

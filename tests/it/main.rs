//! All integration tests in one binary, which links once.

mod cases;
mod cli;
mod command;
mod examples;
mod explain;
mod faults;
mod format;
mod formats;
mod fuzz;
mod accuracy;
mod golden;
mod html;
mod hostile;
mod invariance;
mod language;
mod layers;
mod new;
mod support;
mod time;

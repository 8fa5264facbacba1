//! The language server from outside: a client in the same process, or the program over its standard streams.

pub mod client;
mod edits;
mod features;
mod files;
mod life;
mod requests;

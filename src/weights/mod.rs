//! Checkpoints in the safetensors format: audited without reading their data, read by range, written whole or
//! not at all.
//!
//! A [`Folder`] is a checkpoint of Hugging Face. Opening it reads and audits the headers of its files; a rank
//! then reads exactly the bytes of its own shard. [`write()`] makes a file of tensors that are produced one
//! after the other.

mod audit;
pub mod float8;
mod folder;
mod group;
mod header;
mod mxfp4;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub use audit::{Audit, Needs};
pub use float8::scale_name;
pub use folder::{Folder, TensorInfo};
pub use header::Encoding;
pub use read::Reader;
pub use write::{Output, TensorWriter, header, write};

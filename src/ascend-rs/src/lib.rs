//! CANN, the runtime of Ascend NPUs, as Rust types.
//!
//! ```no_run
//! use ascend_rs::{DataType, Device, Runtime, Scalar, Tensor, ops};
//!
//! # fn main() -> ascend_rs::Result<()> {
//! let runtime = Runtime::init()?;
//! let device = Device::open(&runtime, 0)?;
//! let stream = device.stream()?;
//! let memory = device.allocate(3 * 1024)?;
//! let [x, y, out] = [0, 1024, 2048].map(|start| Tensor::new(&memory, start, &[16, 16], DataType::F32));
//! let (x, y, out, one) = (x?, y?, out?, Scalar::f32(1.0)?);
//! stream.launch(ops::add(&x, &y, &one, &out)?)?;
//! stream.synchronize()?;
//! # Ok(())
//! # }
//! ```
//!
//! | module | what |
//! | --- | --- |
//! | [`sys`] | the C interface, generated from two tables of facts and found at run time |
//! | [`Runtime`], [`Device`] | the process, a device and the thread that drives it |
//! | [`Stream`], [`Event`] | order of device work |
//! | [`DeviceBuffer`], [`PinnedBuffer`] | memory |
//! | [`Tensor`], [`Scalar`], … | what operators take |
//! | [`ops`], [`Call`] | operators in their two phases |
//! | [`Communicator`] | HCCL |
//! | [`Error`], [`Class`] | what went wrong, and what kind of thing that is |
//!
//! A device and all that belongs to it stay on the thread that opened it, since CANN's current context is the thread's: these types are
//! not `Send`. Another thread opens the device again. Nothing is loaded until it is needed, so a program that uses this crate runs
//! where CANN is not installed, and says there what is missing.

#![warn(missing_docs)]

mod comm;
mod device;
mod dtype;
mod error;
mod event;
mod memory;
mod op;
pub mod ops;
mod pinned;
mod runtime;
mod scalar;
mod stream;
pub mod sys;
mod tensor;

pub use comm::{Communicator, Reduction, RootInfo};
pub use device::{Device, MemoryInfo};
pub use dtype::DataType;
pub use error::{Class, Error, Result};
pub use event::Event;
pub use memory::{DeviceBuffer, Region};
pub use op::{Call, Workspace};
pub use pinned::PinnedBuffer;
pub use runtime::Runtime;
pub use scalar::{IntArray, Scalar};
pub use stream::Stream;
pub use tensor::{Tensor, TensorList};

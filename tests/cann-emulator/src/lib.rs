//! The C interface of CANN on the CPU, for tests. It stands where an installation would (`lib64/libascendcl.so`, …), so that what is tested is
//! the code that runs on an NPU, its calls, their order, the lifetime of what they are given and what it does when they fail.
//!
//! It is stricter than hardware where hardware is silent: device memory cannot be reached from the host, a tensor must lie in an allocation that is
//! alive when the stream comes to it, fresh memory is NaN, an executor is used once, everything is destroyed at the end. It does not prove that the
//! declarations are right, nor numbers, speed or sizes of the real kernels.
//!
//! | variable | what |
//! | --- | --- |
//! | `EMU_DEVICES` | devices there are (8) |
//! | `EMU_HBM_BYTES` | memory of each (8 GiB) |
//! | `EMU_FAIL` | `function:n:code`, the n-th call of a function fails; several with commas |
//! | `EMU_REPORT` | a file to which `aclFinalize` adds a line: calls, refused calls, what has leaked |
//! | `EMU_IDLE` | operators compute nothing: for measuring the caller |

#![allow(non_snake_case, clippy::missing_safety_doc)]

mod descriptor;
mod device;
mod executor;
mod hccl;
pub mod installation;
mod kernels;
mod memory;
mod process;
mod runtime;
mod stream;

use executor::Argument;
use std::ffi::c_void;

include!(concat!(env!("OUT_DIR"), "/exports.rs"));

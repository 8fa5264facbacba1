//! The first phase of every aclnn operator that the table `signatures.tsv` has: it checks the arguments, chooses kernels and says how much
//! workspace they need. [`Stream::launch`](crate::Stream::launch) is the second.
//!
//! An output is an argument like the others, allocated by the caller. Arguments that an operator can do without are `Option`s.

#![allow(clippy::too_many_arguments)]

use crate::{Call, DataType, IntArray, Result, Scalar, Tensor, TensorList, sys};
use std::ffi::CStr;

include!(concat!(env!("OUT_DIR"), "/operators.rs"));

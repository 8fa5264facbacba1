//! Arguments that live on the host: scalars and arrays. The library copies what they are made from.

use crate::error::{Result, refused};
use crate::tensor::Described;
use crate::{DataType, sys};

macro_rules! host_argument {
    ($(#[$doc:meta])* $name:ident, $raw:ident, $destroy:ident) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name(*mut sys::$raw);

        impl $name {
            pub(crate) fn raw(&self) -> *mut sys::$raw {
                self.0
            }

            fn from_raw(raw: *mut sys::$raw, call: &'static str) -> Result<$name> {
                match raw.is_null() {
                    true => Err(refused(call)),
                    false => Ok($name(raw)),
                }
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                if let Ok(destroy) = sys::$destroy.get() {
                    // SAFETY: the handle is this one's own.
                    unsafe { destroy(self.0) };
                }
            }
        }

        impl Described for $name {
            type Raw = sys::$raw;
            fn handle(&self) -> *mut sys::$raw {
                self.0
            }
        }
    };
}

host_argument! {
    /// One number.
    Scalar, aclScalar, aclDestroyScalar
}
host_argument! {
    /// Integers: dimensions, lengths of sequences.
    IntArray, aclIntArray, aclDestroyIntArray
}
impl Scalar {
    fn of<T>(mut value: T, of: DataType) -> Result<Scalar> {
        let create = sys::aclCreateScalar.get()?;
        // SAFETY: the value is of the type said, and copied.
        Scalar::from_raw(unsafe { create((&raw mut value).cast(), of as i32) }, "aclCreateScalar")
    }

    /// A number of 32 bits.
    ///
    /// # Errors
    /// If the library refuses it.
    pub fn f32(value: f32) -> Result<Scalar> {
        Scalar::of(value, DataType::F32)
    }

    /// A number of 64 bits.
    ///
    /// # Errors
    /// If the library refuses it.
    pub fn f64(value: f64) -> Result<Scalar> {
        Scalar::of(value, DataType::F64)
    }

    /// An integer of 64 bits.
    ///
    /// # Errors
    /// If the library refuses it.
    pub fn i64(value: i64) -> Result<Scalar> {
        Scalar::of(value, DataType::I64)
    }
}

impl IntArray {
    /// A copy of `values`.
    ///
    /// # Errors
    /// If the library refuses it.
    pub fn new(values: &[i64]) -> Result<IntArray> {
        let create = sys::aclCreateIntArray.get()?;
        // SAFETY: as many values as said, which are copied.
        IntArray::from_raw(unsafe { create(values.as_ptr(), values.len() as u64) }, "aclCreateIntArray")
    }
}

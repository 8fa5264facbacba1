//! Types of elements.

use crate::sys;

/// A type of tensor elements, with the number that aclnn knows it by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum DataType {
    /// IEEE 754, 32 bits.
    F32 = sys::ACL_FLOAT,
    /// IEEE 754, 16 bits.
    F16 = sys::ACL_FLOAT16,
    /// Brain floating point, 16 bits.
    BF16 = sys::ACL_BF16,
    /// IEEE 754, 64 bits.
    F64 = sys::ACL_DOUBLE,
    /// Signed, 8 bits.
    I8 = sys::ACL_INT8,
    /// Signed, 16 bits.
    I16 = sys::ACL_INT16,
    /// Signed, 32 bits.
    I32 = sys::ACL_INT32,
    /// Signed, 64 bits.
    I64 = sys::ACL_INT64,
    /// Unsigned, 8 bits.
    U8 = sys::ACL_UINT8,
    /// A byte, 0 or 1.
    Bool = sys::ACL_BOOL,
}

impl DataType {
    /// Bytes of an element.
    pub fn bytes(self) -> usize {
        match self {
            DataType::I8 | DataType::U8 | DataType::Bool => 1,
            DataType::F16 | DataType::BF16 | DataType::I16 => 2,
            DataType::F32 | DataType::I32 => 4,
            DataType::F64 | DataType::I64 => 8,
        }
    }

    /// The number that HCCL knows it by, another one than aclnn's. Booleans travel as bytes.
    pub fn hccl(self) -> sys::HcclDataType {
        match self {
            DataType::I8 => sys::HCCL_DATA_TYPE_INT8,
            DataType::I16 => sys::HCCL_DATA_TYPE_INT16,
            DataType::I32 => sys::HCCL_DATA_TYPE_INT32,
            DataType::I64 => sys::HCCL_DATA_TYPE_INT64,
            DataType::U8 | DataType::Bool => sys::HCCL_DATA_TYPE_UINT8,
            DataType::F16 => sys::HCCL_DATA_TYPE_FP16,
            DataType::F32 => sys::HCCL_DATA_TYPE_FP32,
            DataType::F64 => sys::HCCL_DATA_TYPE_FP64,
            DataType::BF16 => sys::HCCL_DATA_TYPE_BFP16,
        }
    }
}

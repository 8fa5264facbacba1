//! The C interface of CANN as the tables `signatures.tsv` and `constants.tsv` state it: one static for every function, found in
//! the installed libraries when it is first called; handles as types of their own, which in C are all `void *`.
//!
//! Parameters have the names of the headers, in snake case, so that two of the same type can be told apart.

#![allow(non_camel_case_types, non_upper_case_globals, missing_docs, clippy::type_complexity)]

mod load;

pub use load::{Function, Library, Missing};

use std::ffi::{c_char, c_void};

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident)*) => { $(
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name(pub *mut c_void);
    )* };
}

macro_rules! opaque {
    ($($name:ident)*) => { $(
        /// Known to the libraries only.
        #[repr(C)]
        pub struct $name([u8; 0]);
    )* };
}

handles! {
    /// A stream of device work; null is the default stream of the current context.
    aclrtStream
    /// A mark on a stream.
    aclrtEvent
    /// What a thread's calls belong to.
    aclrtContext
    /// Physical device memory without an address.
    aclrtDrvMemHandle
    /// A group of ranks.
    HcclComm
}

opaque! {
    aclTensor aclTensorList aclScalar aclScalarList aclIntArray aclBoolArray aclFloatArray aclOpExecutor
    aclrtExceptionInfo aclrtErrorInfo aclrtMallocConfig aclrtMemUsageInfo aclrtPhysicalMemProp aclrtPtrAttributes
    aclrtStreamAttrValue aclrtUtilizationInfo HcclCommConfig HcclSendRecvItem
}

/// 0 is success.
pub type aclError = i32;
/// 0 is success.
pub type aclnnStatus = i32;
/// Runs on a thread of the runtime when a task fails.
pub type aclrtExceptionInfoCallback = Option<unsafe extern "C" fn(info: *mut aclrtExceptionInfo)>;
/// Runs when a stream comes to it.
pub type aclrtCallback = Option<unsafe extern "C" fn(user_data: *mut c_void)>;

/// What rank 0 of a communicator tells the others, out of band.
#[repr(C)]
pub struct HcclRootInfo {
    pub internal: [u8; HCCL_ROOT_INFO_BYTES as usize],
}

/// The release of an installed package, NUL-terminated texts.
#[repr(C)]
pub struct aclCANNPackageVersion {
    pub version: [c_char; 128],
    pub major: [c_char; 64],
    pub minor: [c_char; 64],
    pub release: [c_char; 64],
    pub patch: [c_char; 64],
    pub reserved: [c_char; 128],
}

/// A setting of HCCL, passed by value.
#[repr(C)]
#[derive(Clone, Copy)]
pub union HcclConfigValue {
    pub value: i32,
}

const _: () =
    assert!(size_of::<HcclRootInfo>() == HCCL_ROOT_INFO_DEF_BYTES && align_of::<HcclRootInfo>() == 1);
const _: () = assert!(size_of::<aclCANNPackageVersion>() == ACL_CANN_PACKAGE_VERSION_BYTES);

/// Functions of the table that no installed library defines. Opens the libraries.
pub fn missing() -> Vec<&'static str> {
    NAMES.iter().filter(|(name, library)| !load::defines(*library, name)).map(|(name, _)| *name).collect()
}

include!(concat!(env!("OUT_DIR"), "/constants.rs"));
include!(concat!(env!("OUT_DIR"), "/functions.rs"));

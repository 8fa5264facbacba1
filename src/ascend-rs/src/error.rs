//! What a call of CANN gives back when it fails.

use crate::sys;
use std::ffi::CStr;
use std::fmt;

/// The outcome of everything here that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// What kind of thing went wrong, and so what a program can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Device memory, host memory or another resource of the device is used up.
    OutOfMemory,
    /// A wait was longer than its limit.
    Timeout,
    /// A peer or the way to it is lost: its process has died or never came, or the network is down.
    Link,
    /// An argument is wrong: a shape, a type, a handle. The caller's mistake.
    Argument,
    /// The installation has no such library, function, operator or device.
    Unavailable,
    /// The device reports a fault of its own: memory, heartbeat, link errors.
    Hardware,
    /// A task on the device failed, or CANN did.
    Internal,
}

impl Class {
    /// As a person says it.
    pub fn name(self) -> &'static str {
        match self {
            Class::OutOfMemory => "out of memory",
            Class::Timeout => "timed out",
            Class::Link => "a peer is lost",
            Class::Argument => "wrong argument",
            Class::Unavailable => "not available",
            Class::Hardware => "device fault",
            Class::Internal => "failed",
        }
    }
}

/// A failed call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// What kind of failure it is.
    pub class: Class,
    /// The C function that failed.
    pub call: &'static str,
    /// What it returned; 0 where it was not called or gives no code.
    pub code: i32,
    /// The name of the code in CANN's headers.
    pub name: Option<&'static str>,
    /// CANN's own message, which begins with a code such as `EL0004` that its documentation explains; or ours.
    pub message: String,
}

impl Error {
    pub(crate) fn argument(call: &'static str, message: impl Into<String>) -> Error {
        Error { class: Class::Argument, call, code: 0, name: None, message: message.into() }
    }

    /// The textual code in the message, `EI0002`, where there is one.
    pub fn message_code(&self) -> Option<&str> {
        textual_code(&self.message)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", self.call, self.class.name())?;
        match (self.code, self.name) {
            (0, _) => {}
            (code, Some(name)) => write!(f, " ({code}, {name})")?,
            (code, None) => write!(f, " ({code})")?,
        }
        match self.message.as_str() {
            "" => Ok(()),
            message => write!(f, ": {message}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<sys::Missing> for Error {
    fn from(missing: sys::Missing) -> Error {
        Error {
            class: Class::Unavailable,
            call: missing.function,
            code: 0,
            name: None,
            message: missing.to_string(),
        }
    }
}

/// The result of a function of the runtime or of an operator.
pub(crate) fn check(call: &'static str, code: i32) -> Result<()> {
    match code {
        sys::ACL_SUCCESS => Ok(()),
        code => Err(failure(call, code, class_of, sys::acl_error_name(code).or_else(|| aclnn_name(code)))),
    }
}

/// The result of a function of HCCL.
pub(crate) fn check_hccl(call: &'static str, code: i32) -> Result<()> {
    match code {
        sys::HCCL_SUCCESS => Ok(()),
        code => Err(failure(call, code, class_of_hccl, sys::hccl_result_name(code))),
    }
}

/// A function that gives null where it fails.
pub(crate) fn refused(call: &'static str) -> Error {
    Error { class: Class::Argument, call, code: 0, name: None, message: recent_message() }
}

#[cold]
fn failure(call: &'static str, code: i32, class: fn(i32) -> Class, name: Option<&'static str>) -> Error {
    let message = recent_message();
    let class = textual_code(&message).and_then(class_of_message).unwrap_or_else(|| class(code));
    Error { class, call, code, name, message }
}

/// Takes the thread's message. It is valid until the thread's next call only.
fn recent_message() -> String {
    let Ok(function) = sys::aclGetRecentErrMsg.get() else { return String::new() };
    // SAFETY: it takes nothing and gives null or a text that lives until the next call, before which it is copied.
    let text = unsafe { function().as_ref().map(|text| CStr::from_ptr(text)) };
    text.map(|text| text.to_string_lossy().trim().to_owned()).unwrap_or_default()
}

/// Two capitals and four digits.
fn textual_code(message: &str) -> Option<&str> {
    let is_code = |word: &str| {
        let bytes = word.as_bytes();
        bytes.len() == 6
            && bytes[0] == b'E'
            && bytes[1].is_ascii_uppercase()
            && bytes[2..].iter().all(u8::is_ascii_digit)
    };
    message.split(|c: char| !c.is_ascii_alphanumeric()).find(|word| is_code(word))
}

/// What a textual code says more exactly than the number beside it.
fn class_of_message(code: &str) -> Option<Class> {
    Some(match code {
        "EL0004" | "EL0005" | "EL0006" | "EI0007" => Class::OutOfMemory,
        "EE1002" => Class::Timeout,
        "EI0002" | "EI0006" | "EI0009" | "EI0010" | "EJ0002" => Class::Link,
        "EL0001" | "EL0002" => Class::Unavailable,
        "EI0003" | "EI0004" | "EI0005" => Class::Argument,
        _ => return None,
    })
}

fn class_of(code: i32) -> Class {
    match code {
        200_000 | 207_001 | 207_005 | 207_007..=207_012 | 207_018 => Class::OutOfMemory,
        107_019 | 107_020 | 207_020 | 507_014 | 507_017 | 507_034 | 507_046 | 507_047 => Class::Timeout,
        507_048 | 507_056 | 507_057 | 507_904 => Class::Link,
        100_000..=100_045 | 107_000..=107_046 | 145_000..=148_053 | 161_001 | 161_002 | 561_001 | 561_002 => {
            Class::Argument
        }
        200_001..=200_007 | 207_000 | 207_004 | 561_003 | 561_107 | 561_112 => Class::Unavailable,
        507_010 | 507_053 | 507_054 => Class::Hardware,
        _ => Class::Internal,
    }
}

fn class_of_hccl(code: i32) -> Class {
    match code {
        sys::HCCL_E_MEMORY | sys::HCCL_E_OOM => Class::OutOfMemory,
        sys::HCCL_E_TIMEOUT => Class::Timeout,
        sys::HCCL_E_TCP_CONNECT..=sys::HCCL_E_ROCE_TRANSFER | sys::HCCL_E_NETWORK | sys::HCCL_E_REMOTE => {
            Class::Link
        }
        sys::HCCL_E_PARA | sys::HCCL_E_PTR | sys::HCCL_E_NOT_FOUND => Class::Argument,
        sys::HCCL_E_NOT_SUPPORT | sys::HCCL_E_UNAVAIL => Class::Unavailable,
        _ => Class::Internal,
    }
}

/// Codes of the aclnn layer, which no public header outside a CANN installation names.
fn aclnn_name(code: i32) -> Option<&'static str> {
    Some(match code {
        161_001 => "ACLNN_ERR_PARAM_NULLPTR",
        161_002 => "ACLNN_ERR_PARAM_INVALID",
        361_001 => "ACLNN_ERR_RUNTIME_ERROR",
        561_000 => "ACLNN_ERR_INNER",
        561_001 => "ACLNN_ERR_INNER_INFERSHAPE_ERROR",
        561_002 => "ACLNN_ERR_INNER_TILING_ERROR",
        561_003 => "ACLNN_ERR_INNER_FIND_KERNEL_ERROR",
        561_101 => "ACLNN_ERR_INNER_CREATE_EXECUTOR",
        561_103 => "ACLNN_ERR_INNER_NULLPTR",
        561_107 => "ACLNN_ERR_INNER_OPP_PATH_NOT_FOUND",
        561_112 => "ACLNN_ERR_INNER_OPP_KERNEL_PKG_NOT_FOUND",
        _ => return None,
    })
}

/// Calls a function of the runtime; its code becomes a result. Goes into an `unsafe` block that says why the arguments are right.
macro_rules! acl {
    ($function:ident($($argument:expr),* $(,)?)) => {{
        let function = crate::sys::$function.get()?;
        crate::error::check(stringify!($function), function($($argument),*))
    }};
}

/// Calls a function of HCCL likewise.
macro_rules! hccl {
    ($function:ident($($argument:expr),* $(,)?)) => {{
        let function = crate::sys::$function.get()?;
        crate::error::check_hccl(stringify!($function), function($($argument),*))
    }};
}

pub(crate) use {acl, hccl};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_textual_code_says_more_than_the_number() {
        let message = "EI0002: [PID: 7] 2026-01-01-00:00:00.000.001 The wait execution of the Notify register timed out.";
        assert_eq!(textual_code(message), Some("EI0002"));
        assert_eq!(class_of_message("EI0002"), Some(Class::Link));
        assert_eq!(textual_code("no code in ABC1234 or EI00021"), None);
    }

    #[test]
    fn codes_have_names_and_classes() {
        assert_eq!(sys::acl_error_name(207_001), Some("ACL_ERROR_RT_MEMORY_ALLOCATION"));
        assert_eq!(class_of(207_001), Class::OutOfMemory);
        assert_eq!(class_of(507_015), Class::Internal);
        assert_eq!(class_of_hccl(sys::HCCL_E_REMOTE), Class::Link);
    }
}

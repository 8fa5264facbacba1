//! The process: initialised once, finalised when the last of its devices is closed.

use crate::error::{Result, acl, check};
use crate::{Error, sys};
use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// CANN, initialised for this process. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Runtime(#[expect(dead_code, reason = "its drop finalises")] Arc<Initialised>);

#[derive(Debug)]
struct Initialised;

static CURRENT: Mutex<Weak<Initialised>> = Mutex::new(Weak::new());

impl Runtime {
    /// Initialises CANN, or gives what is initialised already, also by another library in this process.
    ///
    /// # Errors
    /// If CANN is not installed, or does not start.
    pub fn init() -> Result<Runtime> {
        let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(initialised) = current.upgrade() {
            return Ok(Runtime(initialised));
        }
        let init = sys::aclInit.get()?;
        // SAFETY: null asks for the settings that CANN has by itself.
        match unsafe { init(std::ptr::null()) } {
            sys::ACL_ERROR_REPEAT_INITIALIZE => {}
            code => check("aclInit", code)?,
        }
        let initialised = Arc::new(Initialised);
        *current = Arc::downgrade(&initialised);
        Ok(Runtime(initialised))
    }

    /// Devices that this process sees, `ASCEND_RT_VISIBLE_DEVICES` considered.
    ///
    /// # Errors
    /// If the driver does not answer.
    pub fn devices(&self) -> Result<u32> {
        let mut count = 0;
        // SAFETY: it writes one number.
        unsafe { acl!(aclrtGetDeviceCount(&mut count)) }?;
        Ok(count)
    }

    /// The name of the chip, `Ascend910B4`: beginning with `Ascend910B` an Atlas A2, with `Ascend910_93` an Atlas A3.
    ///
    /// # Errors
    /// If the driver does not answer.
    pub fn soc_name(&self) -> Result<String> {
        let function = sys::aclrtGetSocName.get()?;
        // SAFETY: it takes nothing and gives null or a text that lives as long as the library.
        let name = unsafe { function().as_ref().map(|name| CStr::from_ptr(name)) };
        let name = name.ok_or_else(|| Error::argument("aclrtGetSocName", "no name: is the driver there?"))?;
        Ok(name.to_string_lossy().into_owned())
    }

    /// The release of CANN, `8.1.RC1`.
    ///
    /// # Errors
    /// If this release does not tell.
    pub fn version(&self) -> Result<String> {
        let mut version = MaybeUninit::<sys::aclCANNPackageVersion>::zeroed();
        // SAFETY: it fills the struct, whose size the tables give for every release.
        let version = unsafe {
            acl!(aclsysGetCANNVersion(sys::ACL_PKG_NAME_CANN, version.as_mut_ptr()))?;
            version.assume_init()
        };
        Ok(text(&version.version))
    }

    /// Version of the ACL interface: major, minor, patch. It is not the release of CANN.
    ///
    /// # Errors
    /// If the library does not answer.
    pub fn interface(&self) -> Result<[i32; 3]> {
        let mut version = [0; 3];
        let [major, minor, patch] = &mut version;
        // SAFETY: it writes three numbers.
        unsafe { acl!(aclrtGetVersion(major, minor, patch)) }?;
        Ok(version)
    }
}

impl Drop for Initialised {
    fn drop(&mut self) {
        if let Ok(finalize) = sys::aclFinalize.get() {
            // SAFETY: everything that belongs to the runtime holds a clone of it and so is gone. A failure leaves nothing to do.
            unsafe { finalize() };
        }
    }
}

/// Text up to its NUL, or all of it.
fn text(characters: &[c_char]) -> String {
    let bytes: Vec<u8> = characters.iter().take_while(|c| **c != 0).map(|c| c.cast_unsigned()).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

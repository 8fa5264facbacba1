//! Memory of the host that the device reaches by itself.

use crate::error::{Result, acl};
use crate::{Device, Error, sys};
use std::ffi::c_void;
use std::ptr::null_mut;

/// Page-locked bytes of the host, zeroed. Copies between these and a device go on while the host does other things.
#[derive(Debug)]
pub struct PinnedBuffer {
    address: *mut c_void,
    bytes: usize,
    device: Device,
}

impl PinnedBuffer {
    pub(crate) fn new(device: &Device, bytes: usize) -> Result<PinnedBuffer> {
        if bytes == 0 {
            return Err(Error::argument("aclrtMallocHost", "no memory of 0 bytes can be had"));
        }
        device.enter()?;
        let mut address = null_mut();
        // SAFETY: it writes an address of `bytes` bytes of the host, which are then initialised.
        unsafe {
            acl!(aclrtMallocHost(&mut address, bytes))?;
            address.cast::<u8>().write_bytes(0, bytes);
        }
        Ok(PinnedBuffer { address, bytes, device: device.clone() })
    }

    /// The bytes. No copy may be writing them.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: initialised, `bytes` long and freed with `self`; asynchronous copies are unsafe and ask for their end.
        unsafe { std::slice::from_raw_parts(self.address.cast(), self.bytes) }
    }

    /// The bytes, to be written. No copy may be reading them.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.address.cast(), self.bytes) }
    }
}

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        let _ = self.device.synchronize();
        if let Ok(free) = sys::aclrtFreeHost.get() {
            // SAFETY: the address is that of an allocation nobody else frees, and no copy uses it any more.
            unsafe { free(self.address) };
        }
    }
}

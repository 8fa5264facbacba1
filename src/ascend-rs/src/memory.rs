//! Memory of a device.

use crate::error::{Result, acl};
use crate::{Device, Error, sys};
use std::ffi::c_void;
use std::ops::{Bound, RangeBounds};
use std::ptr::null_mut;
use std::rc::Rc;

/// Bytes in the memory of a device. Clones are the same memory, freed with the last of them and of the tensors that describe it, when
/// the device has done its work.
#[derive(Debug, Clone)]
pub struct DeviceBuffer(Rc<Allocation>);

#[derive(Debug)]
struct Allocation {
    address: *mut c_void,
    bytes: usize,
    device: Device,
}

/// A part of a buffer.
#[derive(Debug, Clone, Copy)]
pub struct Region<'b> {
    buffer: &'b DeviceBuffer,
    start: usize,
    bytes: usize,
}

impl DeviceBuffer {
    pub(crate) fn new(device: &Device, bytes: usize) -> Result<DeviceBuffer> {
        if bytes == 0 {
            return Err(Error::argument("aclrtMalloc", "no memory of 0 bytes can be had"));
        }
        device.enter()?;
        let mut address = null_mut();
        // SAFETY: it writes an address.
        unsafe { acl!(aclrtMalloc(&mut address, bytes, sys::ACL_MEM_MALLOC_HUGE_FIRST)) }?;
        Ok(DeviceBuffer(Rc::new(Allocation { address, bytes, device: device.clone() })))
    }

    /// Its size.
    pub fn bytes(&self) -> usize {
        self.0.bytes
    }

    /// The device whose memory it is.
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// Its address on the device. The host cannot read there.
    pub fn address(&self) -> *mut c_void {
        self.0.address
    }

    /// Bytes `range` of it.
    ///
    /// # Errors
    /// If they are not all within it.
    pub fn region(&self, range: impl RangeBounds<usize>) -> Result<Region<'_>> {
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(last) => last.saturating_add(1),
            Bound::Excluded(end) => *end,
            Bound::Unbounded => self.bytes(),
        };
        if start > end || end > self.bytes() {
            let message = format!("bytes {start}..{end} are not in a buffer of {} bytes", self.bytes());
            return Err(Error::argument("region", message));
        }
        Ok(Region { buffer: self, start, bytes: end - start })
    }
}

impl Region<'_> {
    /// Its size.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The device whose memory it is.
    pub fn device(&self) -> &Device {
        self.buffer.device()
    }

    /// Where it begins on the device.
    pub fn address(&self) -> *mut c_void {
        self.buffer.address().wrapping_byte_add(self.start)
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // `aclrtFree` waits for nothing, and a task that is still to come would work on memory of somebody else. Where the
        // device is lost there is no such task.
        let _ = self.device.synchronize();
        if let Ok(free) = sys::aclrtFree.get() {
            // SAFETY: the address is that of an allocation nobody else frees, and no task uses it any more.
            unsafe { free(self.address) };
        }
    }
}

//! Streams: device work in order.

use crate::device::milliseconds;
use crate::error::{Result, acl};
use crate::{Call, Device, Error, Event, PinnedBuffer, Region, Workspace, sys};
use std::cell::RefCell;
use std::ops::Range;
use std::ptr::null_mut;
use std::time::Duration;

/// Work that the device does one after the other, beside that of other streams. After a task has failed nothing more of the stream is
/// done: [`synchronize`](Stream::synchronize) says what it was.
#[derive(Debug)]
pub struct Stream {
    raw: sys::aclrtStream,
    workspace: RefCell<Workspace>,
    device: Device,
}

impl Stream {
    pub(crate) fn new(device: &Device) -> Result<Stream> {
        device.enter()?;
        let flags = sys::ACL_STREAM_FAST_LAUNCH | sys::ACL_STREAM_FAST_SYNC;
        let mut raw = sys::aclrtStream(null_mut());
        // SAFETY: it writes a handle.
        unsafe { acl!(aclrtCreateStreamWithConfig(&mut raw, 0, flags.cast_unsigned())) }?;
        let stream = Stream { raw, workspace: RefCell::default(), device: device.clone() };
        // SAFETY: the handle is alive.
        unsafe { acl!(aclrtSetStreamFailureMode(raw, sys::ACL_STOP_ON_FAILURE as u64)) }?;
        Ok(stream)
    }

    /// The handle, for functions that only [`sys`] has.
    pub fn raw(&self) -> sys::aclrtStream {
        self.raw
    }

    /// Its device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Operators of this stream take their workspace from `workspace` from now on; by itself a stream allocates what the largest needs.
    ///
    /// # Errors
    /// If the work so far, which may use the former workspace, fails.
    pub fn set_workspace(&self, workspace: Workspace) -> Result<()> {
        self.synchronize()?;
        self.workspace.replace(workspace);
        Ok(())
    }

    /// The most that an operator of this stream has needed, bytes.
    pub fn workspace_needed(&self) -> usize {
        self.workspace.borrow().needed()
    }

    /// Submits an operator: its second phase.
    ///
    /// # Errors
    /// If there is no memory for its workspace, or the operator refuses. What fails on the device shows at the next synchronisation.
    pub fn launch(&self, call: Call<'_>) -> Result<()> {
        self.device.enter()?;
        let bytes = call.workspace();
        let address = match bytes {
            0 => null_mut(),
            bytes => self.workspace.borrow_mut().take(self, bytes)?,
        };
        call.submit(address, self.raw)
    }

    /// Marks this point of the stream.
    ///
    /// # Errors
    /// If the stream takes no more work.
    pub fn record(&self, event: &Event) -> Result<()> {
        self.device.enter()?;
        event.record(self)
    }

    /// What is submitted from now on starts when `event` is done.
    ///
    /// # Errors
    /// If the event has not been recorded.
    pub fn wait(&self, event: &Event) -> Result<()> {
        let event = event.awaited("aclrtStreamWaitEvent")?;
        self.device.enter()?;
        // SAFETY: both are alive; the order of arguments is the opposite of recording.
        unsafe { acl!(aclrtStreamWaitEvent(self.raw, event)) }
    }

    /// Every byte of `region` becomes 0.
    ///
    /// # Errors
    /// If the stream takes no more work.
    pub fn zero(&self, region: Region<'_>) -> Result<()> {
        self.device.enter()?;
        // SAFETY: the bytes are within an allocation, which is not freed before the device is done.
        unsafe { acl!(aclrtMemsetAsync(region.address(), region.bytes(), 0, region.bytes(), self.raw)) }
    }

    /// Copies within the device.
    ///
    /// # Errors
    /// If the sizes differ.
    pub fn copy(&self, to: Region<'_>, from: Region<'_>) -> Result<()> {
        same("aclrtMemcpyAsync", to.bytes(), from.bytes())?;
        self.device.enter()?;
        let kind = sys::ACL_MEMCPY_DEVICE_TO_DEVICE;
        // SAFETY: the bytes are within allocations, which are not freed before the device is done.
        unsafe {
            acl!(aclrtMemcpyAsync(to.address(), to.bytes(), from.address(), from.bytes(), kind, self.raw))
        }
    }

    /// Copies from the host when all work of the stream is done, and comes back when it has.
    ///
    /// # Errors
    /// If the sizes differ, or the work fails.
    pub fn upload(&self, to: Region<'_>, from: &[u8]) -> Result<()> {
        same("aclrtMemcpy", to.bytes(), from.len())?;
        self.synchronize()?;
        let kind = sys::ACL_MEMCPY_HOST_TO_DEVICE;
        // SAFETY: as many bytes are there on both sides, and the call copies before it comes back.
        unsafe { acl!(aclrtMemcpy(to.address(), to.bytes(), from.as_ptr().cast(), from.len(), kind)) }
    }

    /// Copies to the host when all work of the stream is done, and comes back when it has.
    ///
    /// # Errors
    /// If the sizes differ, or the work fails.
    pub fn download(&self, to: &mut [u8], from: Region<'_>) -> Result<()> {
        same("aclrtMemcpy", to.len(), from.bytes())?;
        self.synchronize()?;
        let kind = sys::ACL_MEMCPY_DEVICE_TO_HOST;
        // SAFETY: as many bytes are there on both sides, and the call copies before it comes back.
        unsafe { acl!(aclrtMemcpy(to.as_mut_ptr().cast(), to.len(), from.address(), from.bytes(), kind)) }
    }

    /// Copies bytes `range` of `from` in the order of the stream, while the host goes on.
    ///
    /// # Safety
    /// Until the stream is past the copy, `from` is neither written nor dropped.
    ///
    /// # Errors
    /// If the sizes differ or `range` is not within `from`.
    pub unsafe fn upload_async(
        &self,
        to: Region<'_>,
        from: &PinnedBuffer,
        range: Range<usize>,
    ) -> Result<()> {
        let from = from.as_slice().get(range).ok_or_else(|| outside("aclrtMemcpyAsync"))?;
        same("aclrtMemcpyAsync", to.bytes(), from.len())?;
        self.device.enter()?;
        let kind = sys::ACL_MEMCPY_HOST_TO_DEVICE;
        // SAFETY: as many bytes are there on both sides; the caller keeps those of the host.
        unsafe {
            acl!(aclrtMemcpyAsync(to.address(), to.bytes(), from.as_ptr().cast(), from.len(), kind, self.raw))
        }
    }

    /// Copies to bytes `range` of `to` in the order of the stream, while the host goes on.
    ///
    /// # Safety
    /// Until the stream is past the copy, `to` is neither read, written nor dropped.
    ///
    /// # Errors
    /// If the sizes differ or `range` is not within `to`.
    pub unsafe fn download_async(
        &self,
        to: &mut PinnedBuffer,
        range: Range<usize>,
        from: Region<'_>,
    ) -> Result<()> {
        let to = to.as_mut_slice().get_mut(range).ok_or_else(|| outside("aclrtMemcpyAsync"))?;
        same("aclrtMemcpyAsync", to.len(), from.bytes())?;
        self.device.enter()?;
        let kind = sys::ACL_MEMCPY_DEVICE_TO_HOST;
        // SAFETY: as many bytes are there on both sides; the caller keeps those of the host.
        unsafe {
            acl!(aclrtMemcpyAsync(
                to.as_mut_ptr().cast(),
                to.len(),
                from.address(),
                from.bytes(),
                kind,
                self.raw
            ))
        }
    }

    /// Whether all of its work is done.
    ///
    /// # Errors
    /// With what a task failed with.
    pub fn is_idle(&self) -> Result<bool> {
        self.device.enter()?;
        let mut status = 0;
        // SAFETY: the handle is alive; it writes a number.
        unsafe { acl!(aclrtStreamQuery(self.raw, &mut status)) }?;
        Ok(status == sys::ACL_STREAM_STATUS_COMPLETE)
    }

    /// Waits until all of its work is done.
    ///
    /// # Errors
    /// With what a task failed with.
    pub fn synchronize(&self) -> Result<()> {
        self.device.enter()?;
        // SAFETY: the handle is alive.
        unsafe { acl!(aclrtSynchronizeStream(self.raw)) }
    }

    /// Waits likewise, no longer than `limit`.
    ///
    /// # Errors
    /// With [`Class::Timeout`](crate::Class::Timeout) when the limit is over; the work goes on.
    pub fn synchronize_for(&self, limit: Duration) -> Result<()> {
        self.device.enter()?;
        // SAFETY: the handle is alive.
        unsafe { acl!(aclrtSynchronizeStreamWithTimeout(self.raw, milliseconds(limit))) }
    }
}

fn same(call: &'static str, to: usize, from: usize) -> Result<()> {
    match to == from {
        true => Ok(()),
        false => Err(Error::argument(call, format!("{from} bytes are not copied to a place of {to}"))),
    }
}

fn outside(call: &'static str) -> Error {
    Error::argument(call, "the range is not within the pinned buffer")
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.synchronize();
        if let Ok(destroy) = sys::aclrtDestroyStream.get() {
            // SAFETY: the handle is this one's own, its context is current, and it is idle or lost.
            unsafe { destroy(self.raw) };
        }
    }
}

//! A device, and the thread that drives it.

use crate::error::{Result, acl, check};
use crate::{DeviceBuffer, Event, PinnedBuffer, Runtime, Stream, sys};
use std::cell::Cell;
use std::ptr::null_mut;
use std::rc::Rc;
use std::time::Duration;

/// A device as one thread drives it. Clones are the same one; it is closed when the last of them is gone, and with it all streams, events and
/// memory.
#[derive(Debug, Clone)]
pub struct Device(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    id: i32,
    context: sys::aclrtContext,
    /// Finalised behind the device's reset.
    _runtime: Runtime,
}

/// Memory of a device, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Not in use. Some of it may be in small pages, which large allocations cannot take.
    pub free: usize,
    /// What the system has left to processes.
    pub total: usize,
}

thread_local! {
    /// The context that this thread's calls belong to.
    static CURRENT: Cell<sys::aclrtContext> = const { Cell::new(sys::aclrtContext(null_mut())) };
}

impl Device {
    /// Makes device `id` this thread's own. Every thread that uses a device opens it.
    ///
    /// # Errors
    /// If there is no such device, or another process holds it.
    pub fn open(runtime: &Runtime, id: i32) -> Result<Device> {
        let mut context = sys::aclrtContext(null_mut());
        // SAFETY: they set and read what belongs to this thread.
        unsafe {
            acl!(aclrtSetDevice(id))?;
            if let Err(error) = acl!(aclrtGetCurrentContext(&mut context)) {
                let _ = acl!(aclrtResetDevice(id));
                return Err(error);
            }
        }
        CURRENT.set(context);
        Ok(Device(Rc::new(Inner { id, context, _runtime: runtime.clone() })))
    }

    /// Its number among those that the process sees.
    pub fn id(&self) -> i32 {
        self.0.id
    }

    /// Makes this device the one that the thread's next calls are about.
    pub(crate) fn enter(&self) -> Result<()> {
        if CURRENT.get() == self.0.context {
            return Ok(());
        }
        // SAFETY: the context lives as long as the device is open, and the device is this thread's.
        unsafe { acl!(aclrtSetCurrentContext(self.0.context)) }?;
        CURRENT.set(self.0.context);
        Ok(())
    }

    /// A new stream.
    ///
    /// # Errors
    /// If the device has no stream left (1,984 on Atlas A2 and A3).
    pub fn stream(&self) -> Result<Stream> {
        Stream::new(self)
    }

    /// A new event.
    ///
    /// # Errors
    /// If the device has no event left.
    pub fn event(&self) -> Result<Event> {
        Event::new(self)
    }

    /// Memory of the device, uninitialised. One large allocation divided by the caller is faster and wastes less than many: each is rounded up, and
    /// large ones take pages of 2 MiB.
    ///
    /// # Errors
    /// With [`Class::OutOfMemory`](crate::Class::OutOfMemory) if there is not enough.
    pub fn allocate(&self, bytes: usize) -> Result<DeviceBuffer> {
        DeviceBuffer::new(self, bytes)
    }

    /// Memory of the host that the device can reach by itself.
    ///
    /// # Errors
    /// If the host has not enough.
    pub fn pin(&self, bytes: usize) -> Result<PinnedBuffer> {
        PinnedBuffer::new(self, bytes)
    }

    /// Free and total memory (HBM).
    ///
    /// # Errors
    /// If the driver does not answer.
    pub fn memory(&self) -> Result<MemoryInfo> {
        self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: it writes two numbers.
        unsafe { acl!(aclrtGetMemInfo(sys::ACL_HBM_MEM, &mut free, &mut total)) }?;
        Ok(MemoryInfo { free, total })
    }

    /// Operators that add up in an order of chance (matrix products split on k, gradients of attention and norms) take a fixed one from now on,
    /// slower. Holds for calls prepared after it.
    ///
    /// # Errors
    /// If this release does not know the option.
    pub fn set_deterministic(&self, on: bool) -> Result<()> {
        self.enter()?;
        // SAFETY: an option of the current context.
        unsafe { acl!(aclrtCtxSetSysParamOpt(sys::ACL_OPT_DETERMINISTIC, on.into())) }
    }

    /// Waits until all streams are idle.
    ///
    /// # Errors
    /// With what a task on the device failed with.
    pub fn synchronize(&self) -> Result<()> {
        self.enter()?;
        // SAFETY: it takes nothing.
        unsafe { acl!(aclrtSynchronizeDevice()) }
    }

    /// Waits likewise, no longer than `limit`.
    ///
    /// # Errors
    /// With [`Class::Timeout`](crate::Class::Timeout) when the limit is over; the work goes on.
    pub fn synchronize_for(&self, limit: Duration) -> Result<()> {
        self.enter()?;
        // SAFETY: it takes a number.
        unsafe { acl!(aclrtSynchronizeDeviceWithTimeout(milliseconds(limit))) }
    }
}

/// A limit as CANN takes it.
pub(crate) fn milliseconds(limit: Duration) -> i32 {
    i32::try_from(limit.as_millis()).unwrap_or(i32::MAX).max(1)
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Ok(reset) = sys::aclrtResetDevice.get() {
            // SAFETY: streams, events and memory hold the device and so are gone. A failure leaves nothing to do.
            let _ = check("aclrtResetDevice", unsafe { reset(self.id) });
        }
        CURRENT.set(sys::aclrtContext(null_mut()));
    }
}

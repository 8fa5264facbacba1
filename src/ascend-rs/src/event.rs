//! Marks on streams.

use crate::error::{Result, acl};
use crate::{Device, Error, Stream, sys};
use std::cell::Cell;
use std::ptr::null_mut;
use std::time::Duration;

/// A mark that a stream passes and other streams or the host wait for. It can be recorded again and again: a wait is for
/// the record before it.
#[derive(Debug)]
pub struct Event {
    raw: sys::aclrtEvent,
    recorded: Cell<bool>,
    device: Device,
}

impl Event {
    pub(crate) fn new(device: &Device) -> Result<Event> {
        device.enter()?;
        let flags = sys::ACL_EVENT_SYNC | sys::ACL_EVENT_TIME_LINE;
        let mut raw = sys::aclrtEvent(null_mut());
        // SAFETY: it writes a handle.
        unsafe { acl!(aclrtCreateEventExWithFlag(&mut raw, flags.cast_unsigned())) }?;
        Ok(Event { raw, recorded: Cell::new(false), device: device.clone() })
    }

    pub(crate) fn record(&self, stream: &Stream) -> Result<()> {
        // SAFETY: both are alive and of this thread's device.
        unsafe { acl!(aclrtRecordEvent(self.raw, stream.raw())) }?;
        self.recorded.set(true);
        Ok(())
    }

    /// A wait for an event that nobody recorded would pass at once.
    pub(crate) fn awaited(&self, call: &'static str) -> Result<sys::aclrtEvent> {
        match self.recorded.get() {
            true => Ok(self.raw),
            false => Err(Error::argument(call, "the event has not been recorded")),
        }
    }

    /// Whether the stream has passed it.
    ///
    /// # Errors
    /// If it has not been recorded, or a task failed.
    pub fn is_done(&self) -> Result<bool> {
        let event = self.awaited("aclrtQueryEventStatus")?;
        self.device.enter()?;
        let mut status = 0;
        // SAFETY: the handle is alive; it writes a number.
        unsafe { acl!(aclrtQueryEventStatus(event, &mut status)) }?;
        Ok(status == sys::ACL_EVENT_RECORDED_STATUS_COMPLETE)
    }

    /// Waits on the host.
    ///
    /// # Errors
    /// If it has not been recorded, or a task before it failed.
    pub fn synchronize(&self) -> Result<()> {
        let event = self.awaited("aclrtSynchronizeEvent")?;
        self.device.enter()?;
        // SAFETY: the handle is alive.
        unsafe { acl!(aclrtSynchronizeEvent(event)) }
    }

    /// Time on the device from `earlier` to this one.
    ///
    /// # Errors
    /// If one of them is not done.
    pub fn since(&self, earlier: &Event) -> Result<Duration> {
        let (start, end) =
            (earlier.awaited("aclrtEventElapsedTime")?, self.awaited("aclrtEventElapsedTime")?);
        self.device.enter()?;
        let mut milliseconds = 0.0f32;
        // SAFETY: both handles are alive; it writes a number.
        unsafe { acl!(aclrtEventElapsedTime(&mut milliseconds, start, end)) }?;
        Duration::try_from_secs_f32(milliseconds / 1e3).map_err(|_| {
            Error::argument("aclrtEventElapsedTime", format!("{milliseconds} ms between the events"))
        })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let _ = self.device.enter();
        if let Ok(destroy) = sys::aclrtDestroyEvent.get() {
            // SAFETY: the handle is this one's own.
            unsafe { destroy(self.raw) };
        }
    }
}

//! Operators in two phases: the first gives a [`Call`] with the workspace that it needs, the second submits it to a stream.

use crate::error::{Result, check};
use crate::{DeviceBuffer, Error, Stream, sys};
use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr::null_mut;

/// The type that the second phase of every operator has.
type Submit =
    unsafe extern "C" fn(*mut c_void, u64, *mut sys::aclOpExecutor, sys::aclrtStream) -> sys::aclnnStatus;

/// An operator that is ready to be submitted, once, by [`Stream::launch`]. Its descriptors live until then.
#[derive(Debug)]
pub struct Call<'a> {
    operator: &'static str,
    workspace: u64,
    executor: *mut sys::aclOpExecutor,
    submit: Submit,
    arguments: PhantomData<&'a ()>,
}

impl<'a> Call<'a> {
    pub(crate) fn prepare<F: Copy>(
        operator: &'static str,
        first: &sys::Function<F>,
        second: &sys::Function<Submit>,
        call: impl FnOnce(F, *mut u64, *mut *mut sys::aclOpExecutor) -> sys::aclnnStatus,
    ) -> Result<Call<'a>> {
        let submit = second.get()?;
        let (mut workspace, mut executor) = (0, null_mut());
        check(first.name(), call(first.get()?, &mut workspace, &mut executor))?;
        Ok(Call { operator, workspace, executor, submit, arguments: PhantomData })
    }

    /// Device memory that it works in, bytes.
    pub fn workspace(&self) -> usize {
        self.workspace as usize
    }

    /// As the headers call it.
    pub fn operator(&self) -> &'static str {
        self.operator
    }

    pub(crate) fn submit(self, workspace: *mut c_void, stream: sys::aclrtStream) -> Result<()> {
        let call = std::mem::ManuallyDrop::new(self);
        // SAFETY: the executor comes from the first phase and is used once; the workspace has the size it asked for, and the stream's order keeps
        // it to this operator until the next one; the descriptors live for `'a`, beyond this call.
        check(call.operator, unsafe { (call.submit)(workspace, call.workspace, call.executor, stream) })
    }
}

impl Drop for Call<'_> {
    /// A call that is never submitted. Only executors that can be used again have a function that frees them.
    fn drop(&mut self) {
        if let (Ok(keep), Ok(destroy)) =
            (sys::aclSetAclOpExecutorRepeatable.get(), sys::aclDestroyAclOpExecutor.get())
        {
            // SAFETY: the executor is this call's own and has not been used.
            unsafe {
                keep(self.executor);
                destroy(self.executor);
            }
        }
    }
}

/// Where operators of a stream find their workspace: one after the other in the same place.
#[derive(Debug, Default)]
pub struct Workspace {
    buffer: Option<DeviceBuffer>,
    fixed: bool,
    needed: usize,
}

/// Large pages are of this size, so a workspace is a multiple of it.
const GRANULE: usize = 2 << 20;

impl Workspace {
    /// This memory and no other: an operator that needs more is refused.
    pub fn fixed(buffer: DeviceBuffer) -> Workspace {
        Workspace { buffer: Some(buffer), fixed: true, needed: 0 }
    }

    pub(crate) fn needed(&self) -> usize {
        self.needed
    }

    pub(crate) fn take(&mut self, stream: &Stream, bytes: usize) -> Result<*mut c_void> {
        self.needed = self.needed.max(bytes);
        let there = self.buffer.as_ref().map_or(0, DeviceBuffer::bytes);
        if bytes > there {
            if self.fixed {
                let message =
                    format!("the operator needs {bytes} bytes of workspace, of which {there} are set aside");
                return Err(Error {
                    class: crate::Class::OutOfMemory,
                    ..Error::argument("workspace", message)
                });
            }
            // The former one is freed when what works in it is done.
            self.buffer = None;
            self.buffer = Some(stream.device().allocate(bytes.next_multiple_of(GRANULE))?);
        }
        Ok(self.buffer.as_ref().map_or(null_mut(), DeviceBuffer::address))
    }
}

//! The exported functions of the runtime.

use crate::memory::{self, PINNED};
use crate::process::{self, INITIALIZED, INVALID, NOT_SUPPORTED, REPEATED, SUCCESS, fail, lock};
use crate::stream::{self, EVENTS, Event, Fault, STREAMS, Stream};
use crate::{descriptor, device, executor, hccl};
use std::ffi::{c_char, c_void};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The code of a call that counts, may be made to fail, and needs what `body` asks for.
fn call(function: &'static str, body: impl FnOnce() -> Result<(), i32>) -> i32 {
    process::call(function).and_then(|()| body()).err().unwrap_or(SUCCESS)
}

fn stream_of(handle: *mut c_void) -> Result<Arc<Stream>, i32> {
    let device = device::current()?;
    STREAMS
        .get(handle)
        .filter(|stream| stream.device == device)
        .ok_or_else(|| fail(107_003, format!("{handle:p} is no stream of device {device}")))
}

fn event_of(handle: *mut c_void) -> Result<Arc<Event>, i32> {
    device::current()?;
    EVENTS.get(handle).ok_or_else(|| fail(INVALID, format!("{handle:p} is no event")))
}

/// Writes a result where the caller wants it.
unsafe fn give<T>(to: *mut T, value: T) -> Result<(), i32> {
    if to.is_null() {
        return Err(fail(INVALID, "nowhere to put the result"));
    }
    // SAFETY: the caller of the C function gives a place of this type.
    unsafe { to.write(value) };
    Ok(())
}

fn limit(milliseconds: i32) -> Option<Duration> {
    u64::try_from(milliseconds).ok().map(Duration::from_millis)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclInit(_config: *const c_char) -> i32 {
    call("aclInit", || match INITIALIZED.swap(true, Ordering::AcqRel) {
        false => Ok(()),
        true => Err(fail(REPEATED, "`aclInit` a second time")),
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn aclFinalize() -> i32 {
    call("aclFinalize", || {
        device::begun()?;
        let mut leaks = [descriptor::leaks(), executor::leaks(), hccl::leaks(), device::leaks()].concat();
        leaks.extend(STREAMS.all().iter().map(|_| "a stream".to_owned()));
        leaks.extend(EVENTS.all().iter().map(|_| "an event".to_owned()));
        leaks.extend(lock(&PINNED).values().map(|bytes| format!("{bytes} bytes of pinned memory")));
        leaks.extend(
            (0..device::count())
                .filter_map(|id| memory::of(id.cast_signed()))
                .flat_map(memory::Memory::leaks),
        );
        process::report(&leaks);
        INITIALIZED.store(false, Ordering::Release);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn aclGetRecentErrMsg() -> *const c_char {
    process::recent()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtGetVersion(major: *mut i32, minor: *mut i32, patch: *mut i32) -> i32 {
    // SAFETY: the caller keeps to the signature.
    call("aclrtGetVersion", || unsafe {
        give(major, 1)?;
        give(minor, 14)?;
        give(patch, 0)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtGetSocName() -> *const c_char {
    c"Ascend910B (emulated)".as_ptr()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclsysGetCANNVersion(_package: i32, version: *mut c_char) -> i32 {
    let text = c"8.1.RC1-emulator".to_bytes_with_nul();
    // SAFETY: the caller gives a struct whose first 128 bytes are the text.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr().cast(), version, text.len()) };
    call("aclsysGetCANNVersion", || Ok(()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtGetDeviceCount(count: *mut u32) -> i32 {
    // SAFETY: the caller keeps to the signature.
    call("aclrtGetDeviceCount", || device::begun().and_then(|()| unsafe { give(count, device::count()) }))
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtSetDevice(id: i32) -> i32 {
    call("aclrtSetDevice", || device::set(id))
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtResetDevice(id: i32) -> i32 {
    call("aclrtResetDevice", || device::reset(id))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtGetDevice(id: *mut i32) -> i32 {
    // SAFETY: the caller keeps to the signature.
    call("aclrtGetDevice", || device::current().and_then(|device| unsafe { give(id, device) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtGetCurrentContext(context: *mut *mut c_void) -> i32 {
    // SAFETY: the caller keeps to the signature.
    call("aclrtGetCurrentContext", || device::context().and_then(|current| unsafe { give(context, current) }))
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtSetCurrentContext(context: *mut c_void) -> i32 {
    call("aclrtSetCurrentContext", || device::enter(context))
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtCtxSetSysParamOpt(_option: i32, _value: i64) -> i32 {
    call("aclrtCtxSetSysParamOpt", || device::current().map(drop))
}

/// The first failure of all streams of the device.
fn synchronize_device(limit: Option<Duration>) -> Result<(), i32> {
    let device = device::current()?;
    let streams = STREAMS.all();
    let codes: Vec<i32> = streams
        .iter()
        .filter(|stream| stream.device == device)
        .map(|stream| stream.synchronize(limit))
        .collect();
    codes.into_iter().try_for_each(code)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtSynchronizeDevice() -> i32 {
    call("aclrtSynchronizeDevice", || synchronize_device(None))
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtSynchronizeDeviceWithTimeout(timeout: i32) -> i32 {
    call("aclrtSynchronizeDeviceWithTimeout", || synchronize_device(limit(timeout)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtCreateStreamWithConfig(
    stream: *mut *mut c_void,
    _priority: u32,
    _flags: u32,
) -> i32 {
    // SAFETY: the caller keeps to the signature.
    call("aclrtCreateStreamWithConfig", || {
        device::current().and_then(|device| unsafe { give(stream, stream::create(device)) })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtDestroyStream(handle: *mut c_void) -> i32 {
    call("aclrtDestroyStream", || {
        stream::destroy(&*stream_of(handle)?);
        STREAMS.remove(handle);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtSetStreamFailureMode(handle: *mut c_void, mode: u64) -> i32 {
    call("aclrtSetStreamFailureMode", || stream_of(handle).map(|stream| stream.stop_on_failure(mode == 1)))
}

fn code(code: i32) -> Result<(), i32> {
    if code == SUCCESS { Ok(()) } else { Err(code) }
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtSynchronizeStream(handle: *mut c_void) -> i32 {
    call("aclrtSynchronizeStream", || code(stream_of(handle)?.synchronize(None)))
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtSynchronizeStreamWithTimeout(handle: *mut c_void, timeout: i32) -> i32 {
    call("aclrtSynchronizeStreamWithTimeout", || code(stream_of(handle)?.synchronize(limit(timeout))))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtStreamQuery(handle: *mut c_void, status: *mut i32) -> i32 {
    // SAFETY: the caller keeps to the signature.
    call("aclrtStreamQuery", || unsafe { give(status, i32::from(!stream_of(handle)?.is_idle())) })
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtStreamWaitEvent(stream: *mut c_void, event: *mut c_void) -> i32 {
    call("aclrtStreamWaitEvent", || {
        stream::wait(&*stream_of(stream)?, &*event_of(event)?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtCreateEventExWithFlag(event: *mut *mut c_void, _flags: u32) -> i32 {
    // SAFETY: the caller keeps to the signature.
    call("aclrtCreateEventExWithFlag", || {
        device::current().and_then(|_| unsafe { give(event, EVENTS.add(Arc::new(Event::default()))) })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtDestroyEvent(event: *mut c_void) -> i32 {
    call("aclrtDestroyEvent", || event_of(event).map(|_| drop(EVENTS.remove(event))))
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtRecordEvent(event: *mut c_void, stream: *mut c_void) -> i32 {
    call("aclrtRecordEvent", || {
        stream::record(&*event_of(event)?, &stream_of(stream)?);
        Ok(())
    })
}

/// 1 is complete here; before its first record an event of this kind is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtQueryEventStatus(event: *mut c_void, status: *mut i32) -> i32 {
    call("aclrtQueryEventStatus", || {
        let record = lock(&event_of(event)?.recorded).clone();
        // SAFETY: the caller keeps to the signature.
        unsafe { give(status, i32::from(record.is_none_or(|record| record.is_done()))) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtSynchronizeEvent(event: *mut c_void) -> i32 {
    call("aclrtSynchronizeEvent", || {
        let record = lock(&event_of(event)?.recorded).clone();
        record.map(|record| record.wait());
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtEventElapsedTime(ms: *mut f32, start: *mut c_void, end: *mut c_void) -> i32 {
    call("aclrtEventElapsedTime", || {
        let passed = |event| -> Result<_, i32> {
            let record = lock(&event_of(event)?.recorded).clone();
            Ok(record.and_then(|record| *lock(&record.passed)))
        };
        match (passed(start)?, passed(end)?) {
            // SAFETY: the caller keeps to the signature.
            (Some(start), Some(end)) if end >= start => unsafe {
                give(ms, (end - start).as_secs_f32() * 1e3)
            },
            (Some(_), Some(_)) => Err(fail(107_007, "the events are the other way round")),
            _ => Err(fail(107_006, "an event is not done")),
        }
    })
}

fn memory_of() -> Result<&'static memory::Memory, i32> {
    Ok(memory::of(device::current()?).expect("a current device is one of those there are"))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMalloc(address: *mut *mut c_void, bytes: usize, _policy: i32) -> i32 {
    // SAFETY: the caller keeps to the signature.
    call("aclrtMalloc", || unsafe { give(address, memory_of()?.allocate(bytes)?) })
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtFree(address: *mut c_void) -> i32 {
    call("aclrtFree", || code(memory_of()?.free(address)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtGetMemInfo(_kind: i32, free: *mut usize, total: *mut usize) -> i32 {
    call("aclrtGetMemInfo", || {
        let (left, all) = memory_of()?.info();
        // SAFETY: the caller keeps to the signature.
        unsafe {
            give(free, left)?;
            give(total, all)
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMallocHost(address: *mut *mut c_void, bytes: usize) -> i32 {
    call("aclrtMallocHost", || {
        device::current()?;
        // SAFETY: the size is not 0 and aligned by its rounding.
        let memory = unsafe { libc::aligned_alloc(64, bytes.max(1).next_multiple_of(64)) };
        lock(&PINNED).insert(memory as usize, bytes);
        // SAFETY: the caller keeps to the signature.
        unsafe { give(address, memory) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtFreeHost(address: *mut c_void) -> i32 {
    call("aclrtFreeHost", || {
        lock(&PINNED).remove(&(address as usize)).ok_or_else(|| fail(INVALID, "no pinned memory"))?;
        // SAFETY: it came from `aclrtMallocHost` and is freed once.
        unsafe { libc::free(address) };
        Ok(())
    })
}

/// A side of a copy, found.
struct Side(*mut u8);
// SAFETY: who submits a copy keeps both sides until it is done, which is what the emulator is there to show.
unsafe impl Send for Side {}

fn side(memory: &memory::Memory, on_device: bool, address: usize, bytes: usize) -> Result<Side, String> {
    match (on_device, memory.find(address, bytes)) {
        (true, Some(found)) => Ok(Side(found)),
        (true, None) => Err(format!("{bytes} bytes at {address:#x} are not in an allocation of the device")),
        (false, Some(_)) => Err(format!("{address:#x} is an address of the device, not of the host")),
        (false, None) => Ok(Side(address as *mut u8)),
    }
}

/// Which sides of a copy are on the device.
fn sides(kind: i32) -> Result<(bool, bool), i32> {
    match kind {
        0 => Ok((false, false)),
        1 => Ok((true, false)),
        2 => Ok((false, true)),
        3 => Ok((true, true)),
        kind => Err(fail(NOT_SUPPORTED, format!("copies of kind {kind} are not emulated"))),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMemcpy(
    to: *mut c_void,
    room: usize,
    from: *const c_void,
    bytes: usize,
    kind: i32,
) -> i32 {
    call("aclrtMemcpy", || {
        let (memory, (to_device, from_device)) = (memory_of()?, sides(kind)?);
        if bytes > room {
            return Err(fail(INVALID, format!("{bytes} bytes into {room}")));
        }
        let to = side(memory, to_device, to as usize, bytes).map_err(|text| fail(INVALID, text))?;
        let from = side(memory, from_device, from as usize, bytes).map_err(|text| fail(INVALID, text))?;
        // SAFETY: device sides are within allocations, host sides are the caller's.
        unsafe { std::ptr::copy(from.0, to.0, bytes) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMemcpyAsync(
    to: *mut c_void,
    room: usize,
    from: *const c_void,
    bytes: usize,
    kind: i32,
    stream: *mut c_void,
) -> i32 {
    call("aclrtMemcpyAsync", || {
        let (stream, memory) = (stream_of(stream)?, memory_of()?);
        let (to, from, (to_device, from_device)) = (to as usize, from as usize, sides(kind)?);
        if bytes > room {
            return Err(fail(INVALID, format!("{bytes} bytes into {room}")));
        }
        if !to_device && !from_device {
            return Err(fail(NOT_SUPPORTED, "copies within the host are not asynchronous"));
        }
        for (host, address) in [(!to_device, to), (!from_device, from)] {
            if host && !memory::is_pinned(address, bytes) {
                return Err(fail(INVALID, format!("{bytes} bytes at {address:#x} are not pinned")));
            }
        }
        stream.submit(Box::new(move || {
            let to = side(memory, to_device, to, bytes).map_err(Fault::new)?;
            let from = side(memory, from_device, from, bytes).map_err(Fault::new)?;
            // SAFETY: device sides are within allocations, host sides are pinned.
            unsafe { std::ptr::copy(from.0, to.0, bytes) };
            Ok(())
        }));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtMemsetAsync(
    to: *mut c_void,
    room: usize,
    value: i32,
    bytes: usize,
    stream: *mut c_void,
) -> i32 {
    call("aclrtMemsetAsync", || {
        let (stream, memory, to) = (stream_of(stream)?, memory_of()?, to as usize);
        if bytes > room {
            return Err(fail(INVALID, format!("{bytes} bytes into {room}")));
        }
        stream.submit(Box::new(move || {
            let to = side(memory, true, to, bytes).map_err(Fault::new)?;
            // SAFETY: within an allocation.
            unsafe { to.0.write_bytes(value as u8, bytes) };
            Ok(())
        }));
        Ok(())
    })
}

//! Devices, and which one a thread's calls are about.

use crate::process::{self, INITIALIZED, NO_CONTEXT, NO_DEVICE, UNINITIALIZED, fail, lock};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::Ordering;
use std::sync::{LazyLock, Mutex};

thread_local! {
    static CURRENT: Cell<Option<i32>> = const { Cell::new(None) };
}

/// How often each device has been set and not reset.
static SET: Mutex<BTreeMap<i32, u64>> = Mutex::new(BTreeMap::new());
/// Contexts are addresses that nobody reads.
const CONTEXTS: usize = 0xC0_0000;

pub fn count() -> u32 {
    static COUNT: LazyLock<u32> = LazyLock::new(|| process::setting("EMU_DEVICES").unwrap_or(8) as u32);
    *COUNT
}

/// Whether the process has begun.
pub fn begun() -> Result<(), i32> {
    match INITIALIZED.load(Ordering::Acquire) {
        true => Ok(()),
        false => Err(fail(UNINITIALIZED, "`aclInit` has not been called")),
    }
}

/// The device of this thread.
pub fn current() -> Result<i32, i32> {
    begun()?;
    let device = CURRENT.get().ok_or_else(|| fail(NO_CONTEXT, "this thread has no current device"))?;
    match lock(&SET).get(&device) {
        Some(times) if *times > 0 => Ok(device),
        _ => Err(fail(NO_CONTEXT, format!("device {device} has been reset"))),
    }
}

pub fn set(device: i32) -> Result<(), i32> {
    begun()?;
    if !(0..count().cast_signed()).contains(&device) {
        return Err(fail(NO_DEVICE, format!("device {device} of {}", count())));
    }
    *lock(&SET).entry(device).or_default() += 1;
    CURRENT.set(Some(device));
    Ok(())
}

pub fn reset(device: i32) -> Result<(), i32> {
    begun()?;
    let mut set = lock(&SET);
    match set.get_mut(&device) {
        Some(times) if *times > 0 => {
            *times -= 1;
            Ok(())
        }
        _ => Err(fail(NO_DEVICE, format!("device {device} is reset more often than it was set"))),
    }
}

pub fn context() -> Result<*mut c_void, i32> {
    Ok((CONTEXTS + current()? as usize) as *mut c_void)
}

pub fn enter(context: *mut c_void) -> Result<(), i32> {
    begun()?;
    let device = (context as usize).wrapping_sub(CONTEXTS);
    let device =
        i32::try_from(device).ok().filter(|device| lock(&SET).get(device).is_some_and(|times| *times > 0));
    CURRENT.set(Some(device.ok_or_else(|| fail(NO_CONTEXT, format!("{context:p} is no context")))?));
    Ok(())
}

/// Devices that were set and not reset.
pub fn leaks() -> Vec<String> {
    let set = lock(&SET);
    set.iter()
        .filter(|(_, times)| **times > 0)
        .map(|(device, _)| format!("device {device} is still set"))
        .collect()
}

//! HCCL among processes of this machine: a thread of the first rank takes what every rank of a group brings, computes, and hands it out. A rank
//! that does not come or is gone fails the others when their streams come to it.

mod switch;
mod wire;

use crate::memory::{self, Memory};
use crate::process::{self, SUCCESS, fail_as, lock};
use crate::stream::{Fault, STREAMS};
use crate::{descriptor, device};
use std::collections::BTreeMap;
use std::ffi::{c_char, c_void};
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wire::{Kind, Request};

const PARAMETER: i32 = 1;
const NULL: i32 = 2;
const INTERNAL: i32 = 4;
const TIMEOUT: i32 = 9;
const AGAIN: i32 = 20;
/// What a stream reports when a peer never came.
const NOTIFY_TIMEOUT: i32 = 507_048;

/// A group as one rank has it.
struct Group {
    ranks: u32,
    rank: u32,
    device: i32,
    socket: Mutex<UnixStream>,
    /// Collectives submitted and done.
    submitted: AtomicU64,
    done: AtomicU64,
}

static GROUPS: Mutex<BTreeMap<usize, Arc<Group>>> = Mutex::new(BTreeMap::new());

fn seconds(variable: &str, otherwise: f64) -> Duration {
    let seconds = std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise);
    Duration::from_secs_f64(seconds)
}

fn call(function: &'static str, body: impl FnOnce() -> Result<(), i32>) -> i32 {
    process::call(function).and_then(|()| body()).err().unwrap_or(SUCCESS)
}

pub fn leaks() -> Vec<String> {
    lock(&GROUPS).values().map(|group| format!("a communicator of {} ranks", group.ranks)).collect()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn HcclGetRootInfo(info: *mut wire::RootInfo) -> i32 {
    call("HcclGetRootInfo", || {
        device::current()?;
        let address = switch::listen().map_err(|error| fail_as("EI0009", INTERNAL, error.to_string()))?;
        // SAFETY: the caller gives room for it.
        unsafe { info.write(wire::RootInfo::new(&address)) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn HcclCommInitRootInfo(
    ranks: u32,
    info: *const wire::RootInfo,
    rank: u32,
    group: *mut *mut c_void,
) -> i32 {
    call("HcclCommInitRootInfo", || {
        let device = device::current()?;
        if info.is_null() || group.is_null() {
            return Err(fail_as("EI0003", NULL, "a null pointer"));
        }
        // SAFETY: it is not null, and the caller keeps to the signature.
        let address = unsafe { &*info }.address();
        let address = address.ok_or_else(|| fail_as("EI0003", PARAMETER, "these bytes are no root info"))?;
        if rank >= ranks {
            return Err(fail_as("EI0003", PARAMETER, format!("rank {rank} of {ranks}")));
        }
        let limit = seconds("HCCL_CONNECT_TIMEOUT", 120.0);
        let socket = wire::join(&address, ranks, rank, limit).map_err(|error| match error.kind() {
            ErrorKind::InvalidInput => fail_as("EI0004", PARAMETER, error.to_string()),
            _ => fail_as(
                "EI0006",
                TIMEOUT,
                format!("rank {rank}: not all of {ranks} ranks have come: {error}"),
            ),
        })?;
        let (submitted, done) = (AtomicU64::new(0), AtomicU64::new(0));
        let made = Arc::new(Group { ranks, rank, device, socket: Mutex::new(socket), submitted, done });
        let handle = Arc::as_ptr(&made) as usize;
        lock(&GROUPS).insert(handle, made);
        // SAFETY: it is not null.
        unsafe { group.write(handle as *mut c_void) };
        Ok(())
    })
}

fn group_of(handle: *mut c_void) -> Result<Arc<Group>, i32> {
    let device = device::current()?;
    let group = lock(&GROUPS).get(&(handle as usize)).cloned();
    group.filter(|group| group.device == device).ok_or_else(|| {
        fail_as("EI0003", PARAMETER, format!("{handle:p} is no communicator of device {device}"))
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn HcclCommDestroy(handle: *mut c_void) -> i32 {
    call("HcclCommDestroy", || {
        let group = group_of(handle)?;
        if group.submitted.load(Ordering::Acquire) != group.done.load(Ordering::Acquire) {
            return Err(fail_as("EI9999", AGAIN, "the communicator is at work"));
        }
        lock(&GROUPS).remove(&(handle as usize));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn HcclGetRankSize(handle: *mut c_void, ranks: *mut u32) -> i32 {
    // SAFETY: the caller keeps to the signature.
    call("HcclGetRankSize", || group_of(handle).map(|group| unsafe { ranks.write(group.ranks) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn HcclGetRankId(handle: *mut c_void, rank: *mut u32) -> i32 {
    // SAFETY: the caller keeps to the signature.
    call("HcclGetRankId", || group_of(handle).map(|group| unsafe { rank.write(group.rank) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn HcclGetCommAsyncError(handle: *mut c_void, error: *mut i32) -> i32 {
    // SAFETY: the caller keeps to the signature.
    call("HcclGetCommAsyncError", || group_of(handle).map(|_| unsafe { error.write(SUCCESS) }))
}

#[unsafe(no_mangle)]
pub extern "C" fn HcclGetErrorString(code: i32) -> *const c_char {
    match code {
        SUCCESS => c"no error".as_ptr(),
        TIMEOUT => c"timeout".as_ptr(),
        _ => c"error".as_ptr(),
    }
}

/// Sizes of a collective in elements, by rank, of what this rank brings and gets.
struct Shape {
    brought: Vec<u64>,
    taken: Vec<u64>,
}

impl Shape {
    fn one(brought: u64, taken: u64) -> Shape {
        Shape { brought: vec![brought], taken: vec![taken] }
    }
}

/// Puts a collective into the stream.
fn submit(
    (from, to): (*const c_void, *const c_void),
    shape: &Shape,
    (kind, of, by, root): (Kind, i32, i32, u32),
    group: *mut c_void,
    stream: *mut c_void,
) -> Result<(), i32> {
    let group = group_of(group)?;
    let stream = STREAMS.get(stream).filter(|stream| stream.device == group.device);
    let stream =
        stream.ok_or_else(|| fail_as("EI0003", PARAMETER, "no stream of the communicator's device"))?;
    let element = wire::element(of)
        .ok_or_else(|| fail_as("EI0003", PARAMETER, format!("type {of} is not emulated")))?;
    let bytes = |counts: &[u64]| {
        counts.iter().sum::<u64>() as usize * descriptor::bytes(element).expect("known types")
    };
    let (brings, takes) = (bytes(&shape.brought), bytes(&shape.taken));
    let memory = memory::of(group.device).expect("a communicator's device is one of those there are");
    let (from, to) = (from as usize, to as usize);
    for (address, bytes) in [(from, brings), (to, takes)] {
        if bytes > 0 && memory.find(address, bytes).is_none() {
            let text = format!("{bytes} bytes at {address:#x} are not in an allocation of the device");
            return Err(fail_as("EI0003", PARAMETER, text));
        }
    }
    let number = group.submitted.fetch_add(1, Ordering::AcqRel);
    let request = Request {
        number,
        kind,
        of: element,
        by,
        root,
        brought: shape.brought.clone(),
        taken: shape.taken.clone(),
        data: Vec::new(),
    };
    stream.submit(Box::new(move || {
        let outcome = exchange(&group, memory, request, (from, brings), (to, takes));
        group.done.fetch_add(1, Ordering::AcqRel);
        outcome
    }));
    Ok(())
}

fn exchange(
    group: &Group,
    memory: &Memory,
    mut request: Request,
    (from, brings): (usize, usize),
    (to, takes): (usize, usize),
) -> Result<(), Fault> {
    let gone = || Fault::new("device memory of a collective was freed before the stream came to it");
    if brings > 0 {
        let found = memory.find(from, brings).ok_or_else(gone)?;
        // SAFETY: so many bytes are in an allocation that is alive.
        request.data = unsafe { std::slice::from_raw_parts(found, brings) }.to_vec();
    }
    let what = format!("{:?} number {} of a group of {} ranks", request.kind, request.number, group.ranks);
    let reply = wire::exchange(&mut lock(&group.socket), &request).map_err(|error| Fault {
        code: NOTIFY_TIMEOUT,
        textual: "EI0002",
        text: format!("rank {}: {what}: {error}", group.rank),
    })?;
    match reply {
        Err(text) => Err(Fault {
            code: INTERNAL,
            textual: "EI0005",
            text: format!("rank {}: {what}: {text}", group.rank),
        }),
        Ok(data) => {
            assert_eq!(data.len(), takes, "the switch hands out what was asked for");
            if takes > 0 {
                let found = memory.find(to, takes).ok_or_else(gone)?;
                // SAFETY: so many bytes are in an allocation that is alive.
                unsafe { std::slice::from_raw_parts_mut(found, takes) }.copy_from_slice(&data);
            }
            Ok(())
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn HcclAllReduce(
    from: *mut c_void,
    to: *mut c_void,
    count: u64,
    of: i32,
    by: i32,
    group: *mut c_void,
    stream: *mut c_void,
) -> i32 {
    let shape = Shape::one(count, count);
    call("HcclAllReduce", || submit((from, to), &shape, (Kind::AllReduce, of, by, 0), group, stream))
}

#[unsafe(no_mangle)]
pub extern "C" fn HcclAllGather(
    from: *mut c_void,
    to: *mut c_void,
    count: u64,
    of: i32,
    group: *mut c_void,
    stream: *mut c_void,
) -> i32 {
    call("HcclAllGather", || {
        let shape = Shape::one(count, count * u64::from(group_of(group)?.ranks));
        submit((from, to), &shape, (Kind::AllGather, of, 0, 0), group, stream)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn HcclReduceScatter(
    from: *mut c_void,
    to: *mut c_void,
    count: u64,
    of: i32,
    by: i32,
    group: *mut c_void,
    stream: *mut c_void,
) -> i32 {
    call("HcclReduceScatter", || {
        let shape = Shape::one(count * u64::from(group_of(group)?.ranks), count);
        submit((from, to), &shape, (Kind::ReduceScatter, of, by, 0), group, stream)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn HcclBroadcast(
    data: *mut c_void,
    count: u64,
    of: i32,
    root: u32,
    group: *mut c_void,
    stream: *mut c_void,
) -> i32 {
    let shape = Shape::one(count, count);
    call("HcclBroadcast", || submit((data, data), &shape, (Kind::Broadcast, of, 0, root), group, stream))
}

#[unsafe(no_mangle)]
pub extern "C" fn HcclBarrier(group: *mut c_void, stream: *mut c_void) -> i32 {
    const BYTES: i32 = 7;
    let (shape, nothing) = (Shape::one(0, 0), std::ptr::null());
    call("HcclBarrier", || submit((nothing, nothing), &shape, (Kind::Barrier, BYTES, 0, 0), group, stream))
}

/// Elements of each rank lie one behind the other: other displacements are not emulated.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn HcclAlltoAllV(
    from: *const c_void,
    sent: *const u64,
    sent_at: *const u64,
    of: i32,
    to: *const c_void,
    received: *const u64,
    received_at: *const u64,
    of_received: i32,
    group: *mut c_void,
    stream: *mut c_void,
) -> i32 {
    call("HcclAlltoAllV", || {
        let ranks = group_of(group)?.ranks as usize;
        // SAFETY: the caller gives a number for each rank.
        let read = |start: *const u64| unsafe { std::slice::from_raw_parts(start, ranks) }.to_vec();
        let (brought, taken) = (read(sent), read(received));
        for (counts, starts) in [(&brought, read(sent_at)), (&taken, read(received_at))] {
            let mut next = 0;
            for (count, start) in counts.iter().zip(&starts) {
                if *start != next {
                    return Err(fail_as("EI0003", PARAMETER, "displacements with gaps are not emulated"));
                }
                next += count;
            }
        }
        if of != of_received || from == to {
            return Err(fail_as("EI0003", PARAMETER, "both types are one, both places are two"));
        }
        submit((from, to), &Shape { brought, taken }, (Kind::AllToAll, of, 0, 0), group, stream)
    })
}

//! Tensors, scalars and arrays as the host makes them.

use crate::process::{self, INVALID, WRONG, fail, lock};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex};

pub const FLOAT: i32 = 0;
pub const FLOAT16: i32 = 1;
pub const INT8: i32 = 2;
pub const INT32: i32 = 3;
pub const UINT8: i32 = 4;
pub const INT64: i32 = 9;
pub const DOUBLE: i32 = 11;
pub const BOOL: i32 = 12;
pub const BF16: i32 = 27;

/// Bytes of an element; `None` for types that are not emulated.
pub fn bytes(of: i32) -> Option<usize> {
    Some(match of {
        INT8 | UINT8 | BOOL => 1,
        FLOAT16 | BF16 => 2,
        FLOAT | INT32 => 4,
        INT64 | DOUBLE => 8,
        _ => return None,
    })
}

#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    pub of: i32,
    pub shape: Vec<i64>,
    pub strides: Vec<i64>,
    /// Elements of the storage before the view.
    pub offset: i64,
    pub address: usize,
}

#[derive(Debug, Clone)]
pub enum Descriptor {
    Tensor(Tensor),
    List(Vec<Tensor>),
    /// A number and its type.
    Scalar(f64),
    Integers(Vec<i64>),
}

static ALIVE: Mutex<BTreeMap<usize, Arc<Descriptor>>> = Mutex::new(BTreeMap::new());

fn add(descriptor: Descriptor) -> *mut c_void {
    let descriptor = Arc::new(descriptor);
    let handle = Arc::as_ptr(&descriptor) as usize;
    lock(&ALIVE).insert(handle, descriptor);
    handle as *mut c_void
}

pub fn get(handle: *const c_void) -> Option<Arc<Descriptor>> {
    lock(&ALIVE).get(&(handle as usize)).cloned()
}

fn destroy(handle: *const c_void, kind: fn(&Descriptor) -> bool) -> i32 {
    let mut alive = lock(&ALIVE);
    match alive.get(&(handle as usize)) {
        Some(descriptor) if kind(descriptor) => {
            alive.remove(&(handle as usize));
            process::SUCCESS
        }
        _ => fail(INVALID, format!("{handle:p} is destroyed a second time, or is of another kind")),
    }
}

pub fn leaks() -> Vec<String> {
    lock(&ALIVE).values().map(|descriptor| format!("a descriptor: {descriptor:?}")).collect()
}

unsafe fn slice<'a, T>(start: *const T, length: u64) -> &'a [T] {
    match length {
        0 => &[],
        // SAFETY: the caller of the C function says that so many are there.
        length => unsafe { std::slice::from_raw_parts(start, length as usize) },
    }
}

#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn aclCreateTensor(
    dims: *const i64,
    count: u64,
    of: i32,
    stride: *const i64,
    offset: i64,
    format: i32,
    storage: *const i64,
    storage_count: u64,
    data: *mut c_void,
) -> *mut c_void {
    const ND: i32 = 2;
    // SAFETY: the caller keeps to the signature.
    let (shape, storage) = unsafe { (slice(dims, count).to_vec(), slice(storage, storage_count)) };
    let strides = match stride.is_null() {
        // SAFETY: as above.
        false => unsafe { slice(stride, count).to_vec() },
        true => (0..shape.len()).map(|at| shape[at + 1..].iter().product()).collect(),
    };
    let last: i64 = shape.iter().zip(&strides).map(|(count, stride)| (count - 1) * stride).sum();
    let empty = shape.contains(&0);
    let refusal = match () {
        () if bytes(of).is_none() => format!("elements of type {of} are not emulated"),
        () if format != ND => format!("format {format} is not emulated"),
        () if !(data as usize).is_multiple_of(32) => {
            format!("storage at {data:p} is not aligned to 32 bytes")
        }
        () if shape.iter().chain(&strides).any(|value| *value < 0) => {
            format!("shape {shape:?}, strides {strides:?}")
        }
        () if !empty && offset + last >= storage.iter().product() => {
            format!("shape {shape:?}, strides {strides:?} and offset {offset} leave a storage of {storage:?}")
        }
        () => return add(Descriptor::Tensor(Tensor { of, shape, strides, offset, address: data as usize })),
    };
    fail(WRONG, refusal);
    std::ptr::null_mut()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclCreateScalar(value: *const c_void, of: i32) -> *mut c_void {
    // SAFETY: the caller gives a value of the type that it names.
    let value = unsafe {
        match of {
            FLOAT => f64::from(value.cast::<f32>().read_unaligned()),
            DOUBLE => value.cast::<f64>().read_unaligned(),
            INT64 => value.cast::<i64>().read_unaligned() as f64,
            INT32 => f64::from(value.cast::<i32>().read_unaligned()),
            _ => {
                fail(WRONG, format!("scalars of type {of} are not emulated"));
                return std::ptr::null_mut();
            }
        }
    };
    add(Descriptor::Scalar(value))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclCreateIntArray(values: *const i64, count: u64) -> *mut c_void {
    // SAFETY: the caller keeps to the signature.
    add(Descriptor::Integers(unsafe { slice(values, count) }.to_vec()))
}

/// Takes its tensors over.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclCreateTensorList(tensors: *const *const c_void, count: u64) -> *mut c_void {
    // SAFETY: the caller keeps to the signature.
    let handles = unsafe { slice(tensors, count) };
    let mut members = Vec::new();
    for handle in handles {
        let found = lock(&ALIVE).remove(&(*handle as usize));
        match found.as_deref() {
            Some(Descriptor::Tensor(tensor)) => members.push(tensor.clone()),
            _ => {
                fail(INVALID, format!("{handle:p} in a list is no tensor that is alive"));
                return std::ptr::null_mut();
            }
        }
    }
    add(Descriptor::List(members))
}

#[unsafe(no_mangle)]
pub extern "C" fn aclDestroyTensor(handle: *const c_void) -> i32 {
    destroy(handle, |descriptor| matches!(descriptor, Descriptor::Tensor(_)))
}

#[unsafe(no_mangle)]
pub extern "C" fn aclDestroyTensorList(handle: *const c_void) -> i32 {
    destroy(handle, |descriptor| matches!(descriptor, Descriptor::List(_)))
}

#[unsafe(no_mangle)]
pub extern "C" fn aclDestroyScalar(handle: *const c_void) -> i32 {
    destroy(handle, |descriptor| matches!(descriptor, Descriptor::Scalar(_)))
}

#[unsafe(no_mangle)]
pub extern "C" fn aclDestroyIntArray(handle: *const c_void) -> i32 {
    destroy(handle, |descriptor| matches!(descriptor, Descriptor::Integers(_)))
}

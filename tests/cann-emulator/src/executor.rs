//! Operators in their two phases.

use crate::descriptor::{self, Descriptor, Tensor};
use crate::process::{self, IDLE, INVALID, NO_KERNEL, NULL, WRONG, fail, lock};
use crate::stream::{Fault, STREAMS};
use crate::{device, kernels, memory};
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// An argument as the first phase takes it: everything on the host is copied, of tensors only what describes them.
#[derive(Debug, Clone)]
pub enum Argument {
    Absent,
    Tensor(Tensor),
    List(Vec<Tensor>),
    Integers(Vec<i64>),
    Number(f64),
    Integer(i64),
    Text(String),
    /// A handle of nothing that is alive.
    Dead,
}

impl Argument {
    fn handle(handle: *const c_void) -> Argument {
        match descriptor::get(handle).as_deref() {
            _ if handle.is_null() => Argument::Absent,
            None => Argument::Dead,
            Some(Descriptor::Tensor(tensor)) => Argument::Tensor(tensor.clone()),
            Some(Descriptor::List(tensors)) => Argument::List(tensors.clone()),
            Some(Descriptor::Scalar(value)) => Argument::Number(*value),
            Some(Descriptor::Integers(values)) => Argument::Integers(values.clone()),
        }
    }

    pub fn tensor(handle: *const c_void) -> Argument {
        Argument::handle(handle)
    }

    pub fn list(handle: *const c_void) -> Argument {
        Argument::handle(handle)
    }

    pub fn scalar(handle: *const c_void) -> Argument {
        Argument::handle(handle)
    }

    pub fn integers(handle: *const c_void) -> Argument {
        Argument::handle(handle)
    }

    pub unsafe fn text(text: *const c_void) -> Argument {
        match text.is_null() {
            true => Argument::Absent,
            // SAFETY: the caller gives a text that ends with NUL.
            false => Argument::Text(
                unsafe { CStr::from_ptr(text.cast::<c_char>()) }.to_string_lossy().into_owned(),
            ),
        }
    }

    pub fn float(value: f64) -> Argument {
        Argument::Number(value)
    }

    pub fn float32(value: f32) -> Argument {
        Argument::Number(f64::from(value))
    }

    pub fn flag(value: bool) -> Argument {
        Argument::Integer(value.into())
    }

    pub fn tiny(value: i8) -> Argument {
        Argument::Integer(value.into())
    }

    pub fn small(value: i32) -> Argument {
        Argument::Integer(value.into())
    }

    pub fn integer(value: i64) -> Argument {
        Argument::Integer(value)
    }

    pub fn natural(value: u64) -> Argument {
        Argument::Integer(value as i64)
    }
}

/// Why the first phase refuses.
pub struct Refusal {
    pub code: i32,
    pub text: String,
}

impl Refusal {
    pub fn wrong(text: impl Into<String>) -> Refusal {
        Refusal { code: WRONG, text: text.into() }
    }
}

/// The arguments by their names in the headers.
#[derive(Debug)]
pub struct Arguments(pub Vec<(&'static str, Argument)>);

impl Arguments {
    fn get(&self, name: &str) -> &Argument {
        let found = self.0.iter().find(|(known, _)| *known == name);
        &found.unwrap_or_else(|| panic!("the table has no parameter `{name}`: {self:?}")).1
    }

    fn absent<T>(name: &str) -> Result<T, Refusal> {
        Err(Refusal { code: NULL, text: format!("`{name}` is null") })
    }

    pub fn tensor(&self, name: &str) -> Result<Tensor, Refusal> {
        self.optional(name)?.map_or_else(|| Arguments::absent(name), Ok)
    }

    pub fn optional(&self, name: &str) -> Result<Option<Tensor>, Refusal> {
        match self.get(name) {
            Argument::Absent => Ok(None),
            Argument::Tensor(tensor) => Ok(Some(tensor.clone())),
            other => Err(Refusal::wrong(format!("`{name}` is no tensor: {other:?}"))),
        }
    }

    /// The only tensor of a list.
    pub fn single(&self, name: &str) -> Result<Tensor, Refusal> {
        match self.get(name) {
            Argument::Absent => Arguments::absent(name),
            Argument::List(tensors) if tensors.len() == 1 => Ok(tensors[0].clone()),
            other => Err(Refusal::wrong(format!("`{name}` is no list of one tensor: {other:?}"))),
        }
    }

    pub fn list(&self, name: &str) -> Result<Vec<Tensor>, Refusal> {
        match self.get(name) {
            Argument::Absent => Arguments::absent(name),
            Argument::List(tensors) => Ok(tensors.clone()),
            other => Err(Refusal::wrong(format!("`{name}` is no list: {other:?}"))),
        }
    }

    pub fn must_be_null(&self, names: &[&str]) -> Result<(), Refusal> {
        match names.iter().find(|name| !matches!(self.get(name), Argument::Absent)) {
            None => Ok(()),
            Some(name) => Err(Refusal::wrong(format!("`{name}` is not emulated"))),
        }
    }

    pub fn number(&self, name: &str) -> Result<f64, Refusal> {
        match self.get(name) {
            Argument::Number(value) => Ok(*value),
            Argument::Absent => Arguments::absent(name),
            other => Err(Refusal::wrong(format!("`{name}` is no number: {other:?}"))),
        }
    }

    pub fn optional_number(&self, name: &str) -> Result<Option<f64>, Refusal> {
        match self.get(name) {
            Argument::Absent => Ok(None),
            _ => self.number(name).map(Some),
        }
    }

    pub fn integer(&self, name: &str) -> Result<i64, Refusal> {
        match self.get(name) {
            Argument::Integer(value) => Ok(*value),
            other => Err(Refusal::wrong(format!("`{name}` is no integer: {other:?}"))),
        }
    }

    pub fn integers(&self, name: &str) -> Result<Option<Vec<i64>>, Refusal> {
        match self.get(name) {
            Argument::Absent => Ok(None),
            Argument::Integers(values) => Ok(Some(values.clone())),
            other => Err(Refusal::wrong(format!("`{name}` is no array of integers: {other:?}"))),
        }
    }

    pub fn text(&self, name: &str) -> Result<String, Refusal> {
        match self.get(name) {
            Argument::Text(text) => Ok(text.clone()),
            other => Err(Refusal::wrong(format!("`{name}` is no text: {other:?}"))),
        }
    }
}

/// What the second phase submits.
pub type Run = Box<dyn FnOnce(&memory::Memory) -> Result<(), Fault> + Send>;

struct Executor {
    operator: &'static str,
    device: i32,
    workspace: u64,
    run: Run,
}

static PREPARED: Mutex<BTreeMap<usize, Executor>> = Mutex::new(BTreeMap::new());
static NEXT: AtomicU64 = AtomicU64::new(0xE000_0000);

/// What operators on matrix units take beside their arguments, whatever the shape.
const SYSTEM_WORKSPACE: u64 = 1 << 20;

pub unsafe fn prepare(
    operator: &'static str,
    arguments: impl FnOnce() -> Vec<(&'static str, Argument)>,
    workspace: *mut u64,
    executor: *mut *mut c_void,
) -> i32 {
    let prepared = || -> Result<Executor, i32> {
        process::call(operator)?;
        let device = device::current()?;
        if workspace.is_null() || executor.is_null() {
            return Err(fail(NULL, format!("{operator}: nowhere to put the workspace or the executor")));
        }
        let refuse = |refusal: Refusal| fail(refusal.code, format!("{operator}: {}", refusal.text));
        let arguments = Arguments(arguments());
        if let Some((name, Argument::Dead)) = arguments.0.iter().find(|(_, a)| matches!(a, Argument::Dead)) {
            return Err(fail(INVALID, format!("{operator}: `{name}` has been destroyed")));
        }
        let kernel =
            kernels::find(operator).ok_or_else(|| fail(NO_KERNEL, format!("{operator} is not emulated")))?;
        let run = kernel(&arguments).map_err(refuse)?;
        Ok(Executor { operator, device, workspace: SYSTEM_WORKSPACE, run })
    };
    match prepared() {
        Err(code) => code,
        Ok(prepared) => {
            let handle = NEXT.fetch_add(16, Ordering::Relaxed) as usize;
            // SAFETY: the caller keeps to the signature; null is refused above.
            unsafe {
                *workspace = prepared.workspace;
                *executor = handle as *mut c_void;
            }
            lock(&PREPARED).insert(handle, prepared);
            process::SUCCESS
        }
    }
}

pub unsafe fn submit(
    operator: &'static str,
    workspace: *mut c_void,
    bytes: u64,
    executor: *mut c_void,
    stream: *mut c_void,
) -> i32 {
    let submitted = || -> Result<(), i32> {
        let device = device::current()?;
        let prepared = lock(&PREPARED).remove(&(executor as usize)).ok_or_else(|| {
            fail(INVALID, format!("{operator}: the executor has been used, or never was one"))
        })?;
        if prepared.operator != operator {
            return Err(fail(INVALID, format!("{operator}: the executor is one of {}", prepared.operator)));
        }
        let stream =
            STREAMS.get(stream).filter(|stream| stream.device == device && device == prepared.device);
        let stream =
            stream.ok_or_else(|| fail(INVALID, format!("{operator}: no stream of device {device}")))?;
        let memory = memory::of(device).expect("a current device is one of those there are");
        if bytes < prepared.workspace
            || memory.find(workspace as usize, prepared.workspace as usize).is_none()
        {
            let text = format!(
                "{operator}: {bytes} bytes at {workspace:p} are no workspace of {}",
                prepared.workspace
            );
            return Err(fail(INVALID, text));
        }
        if !*IDLE {
            stream.submit(Box::new(move || (prepared.run)(memory)));
        }
        Ok(())
    };
    submitted().err().unwrap_or(process::SUCCESS)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclSetAclOpExecutorRepeatable(executor: *mut c_void) -> i32 {
    match lock(&PREPARED).contains_key(&(executor as usize)) {
        true => process::SUCCESS,
        false => fail(INVALID, "no executor that has not been used"),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn aclDestroyAclOpExecutor(executor: *mut c_void) -> i32 {
    match lock(&PREPARED).remove(&(executor as usize)) {
        Some(_) => process::SUCCESS,
        None => fail(INVALID, "an executor that has been used cannot be destroyed"),
    }
}

pub fn leaks() -> Vec<String> {
    lock(&PREPARED).values().map(|executor| format!("an executor of {}", executor.operator)).collect()
}

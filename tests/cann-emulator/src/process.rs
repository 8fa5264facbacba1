//! What there is once a process: settings, the message of the last failure, injected faults, the report.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CString, c_char};
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

pub const SUCCESS: i32 = 0;
pub const UNINITIALIZED: i32 = 100_001;
pub const REPEATED: i32 = 100_002;
pub const INVALID: i32 = 107_000;
pub const NO_DEVICE: i32 = 107_001;
pub const NO_CONTEXT: i32 = 107_002;
pub const NOT_SUPPORTED: i32 = 207_000;
pub const OUT_OF_MEMORY: i32 = 207_001;
pub const NULL: i32 = 161_001;
pub const WRONG: i32 = 161_002;
pub const NO_KERNEL: i32 = 561_003;
pub const CORE_EXCEPTION: i32 = 507_015;
pub const SYNC_TIMEOUT: i32 = 507_046;

/// A lock that a panic elsewhere does not take away.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Operators do nothing.
pub static IDLE: LazyLock<bool> = LazyLock::new(|| std::env::var_os("EMU_IDLE").is_some());
pub static INITIALIZED: AtomicBool = AtomicBool::new(false);
static CALLS: AtomicU64 = AtomicU64::new(0);
static REFUSED: Mutex<Vec<String>> = Mutex::new(Vec::new());

thread_local! {
    static MESSAGE: RefCell<Option<CString>> = const { RefCell::new(None) };
    /// The message handed out last, alive until the next one is.
    static HANDED: RefCell<Option<CString>> = const { RefCell::new(None) };
}

/// A failed call: sets the thread's message and gives the code.
pub fn fail(code: i32, text: impl AsRef<str>) -> i32 {
    let textual = match code {
        OUT_OF_MEMORY => "EL0004",
        NO_DEVICE => "EL0002",
        INVALID | NO_CONTEXT => "EE1001",
        WRONG | NULL => "EZ0001",
        SYNC_TIMEOUT => "EE1002",
        _ => "EE9999",
    };
    fail_as(textual, code, text)
}

/// The same with a textual code.
pub fn fail_as(textual: &str, code: i32, text: impl AsRef<str>) -> i32 {
    let message = format!("{textual}: [PID: {}] emulator: {}", std::process::id(), text.as_ref());
    lock(&REFUSED).push(format!("{code} {message}"));
    MESSAGE.set(CString::new(message.replace('\0', " ")).ok());
    code
}

/// Takes the message.
pub fn recent() -> *const c_char {
    HANDED.set(MESSAGE.take());
    HANDED.with_borrow(|message| message.as_ref().map_or(std::ptr::null(), |message| message.as_ptr()))
}

pub fn not_emulated(function: &'static str) -> i32 {
    fail(NOT_SUPPORTED, format!("`{function}` is not emulated"))
}

/// By function: which of its calls fail, and with what code.
type Faults = HashMap<String, Vec<(u64, i32)>>;
static FAULTS: LazyLock<Mutex<Faults>> = LazyLock::new(|| {
    let mut faults = Faults::new();
    for fault in std::env::var("EMU_FAIL").unwrap_or_default().split(',').filter(|fault| !fault.is_empty()) {
        let parts: Vec<_> = fault.split(':').collect();
        let [function, nth, code] = parts[..] else { panic!("EMU_FAIL is function:n:code, not {fault}") };
        let (nth, code) = (nth.parse().expect("n is a number"), code.parse().expect("a code is a number"));
        faults.entry(function.to_owned()).or_default().push((nth, code));
    }
    Mutex::new(faults)
});

/// Counts a call, which may be one that is to fail.
pub fn call(function: &'static str) -> Result<(), i32> {
    CALLS.fetch_add(1, Ordering::Relaxed);
    let mut faults = lock(&FAULTS);
    let Some(waiting) = faults.get_mut(function) else { return Ok(()) };
    let mut due = None;
    waiting.retain_mut(|(nth, code)| {
        *nth = nth.saturating_sub(1);
        due = due.or((*nth == 0).then_some(*code));
        *nth > 0
    });
    drop(faults);
    due.map_or(Ok(()), |code| Err(fail(code, format!("`{function}` fails because the test wants it to"))))
}

/// Adds a line to the report: a JSON object.
pub fn report(leaks: &[String]) {
    let Some(path) = std::env::var_os("EMU_REPORT") else { return };
    let list = |items: &[String]| items.iter().map(|item| format!("{item:?}")).collect::<Vec<_>>().join(", ");
    let line = format!(
        "{{\"pid\": {}, \"calls\": {}, \"refused\": [{}], \"leaks\": [{}]}}\n",
        std::process::id(),
        CALLS.load(Ordering::Relaxed),
        list(&lock(&REFUSED)),
        list(leaks)
    );
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the report can be written");
}

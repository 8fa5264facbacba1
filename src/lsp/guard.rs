//! A defect must not end the server: what panics becomes an error.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The result of `work`, or what it said when it panicked.
pub fn catch<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    // What is shared is behind locks that live on after a panic, and is only ever replaced as a whole.
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| message(&*panic))
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic").to_owned()
}

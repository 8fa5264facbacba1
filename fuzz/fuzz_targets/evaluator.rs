//! See `claims::evaluator`.

#![no_main]

#[allow(dead_code, reason = "each target calls one of the functions")]
mod claims;

libfuzzer_sys::fuzz_target!(|text: &str| claims::evaluator(text));

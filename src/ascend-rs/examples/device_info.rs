//! What is installed here, and which devices there are. Says what is missing where nothing is.
//!
//! Usage: `cargo run --example device_info`

use ascend_rs::{Device, Result, Runtime, sys};
use std::process::ExitCode;

fn main() -> ExitCode {
    match describe() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn describe() -> Result<()> {
    let runtime = Runtime::init()?;
    let [major, minor, patch] = runtime.interface()?;
    let release = runtime.version().unwrap_or_else(|_| "unknown".to_owned());
    println!("CANN {release}, ACL {major}.{minor}.{patch}, {}", runtime.soc_name()?);
    for id in 0..runtime.devices()?.cast_signed() {
        let memory = Device::open(&runtime, id)?.memory()?;
        let gib = |bytes: usize| bytes as f64 / f64::from(1 << 30);
        println!("device {id}: {:.1} of {:.1} GiB free", gib(memory.free), gib(memory.total));
    }
    let missing: Vec<_> = sys::missing();
    if !missing.is_empty() {
        println!("not in this release: {}", missing.join(", "));
    }
    Ok(())
}

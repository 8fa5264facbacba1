//! Where CANN is not installed everything can be called, and says so.

use ascend_rs::{Class, Runtime, sys};

fn installed() -> bool {
    sys::Library::Runtime.found() > 0
}

#[test]
fn a_call_names_what_is_missing() {
    if installed() {
        return eprintln!("skipped: CANN is installed");
    }
    let error = Runtime::init().expect_err("nothing is installed");
    assert_eq!((error.class, error.call, error.code), (Class::Unavailable, "aclInit", 0));
    assert!(
        error.message.contains("libascendcl.so") && error.message.contains("ASCEND_HOME_PATH"),
        "{error}"
    );
}

#[test]
fn every_function_of_the_table_is_looked_for() {
    if installed() {
        return eprintln!("skipped: CANN is installed");
    }
    assert_eq!(sys::missing().len(), sys::NAMES.len());
    assert_eq!(sys::NAMES.len(), 583);
}

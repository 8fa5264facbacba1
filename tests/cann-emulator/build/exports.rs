//! The text of exported functions.

use crate::table::Function;
use std::fmt::Write;

/// How an argument of an operator reaches its kernel: constructor of `Argument`, and the type that crosses the border.
fn argument(c: &str) -> (&'static str, &'static str) {
    match c.strip_prefix("const ").unwrap_or(c).trim() {
        "aclTensor *" => ("tensor", "*const c_void"),
        "aclTensorList *" => ("list", "*const c_void"),
        "aclScalar *" => ("scalar", "*const c_void"),
        "aclIntArray *" => ("integers", "*const c_void"),
        "char *" => ("text", "*const c_void"),
        "double" => ("float", "f64"),
        "float" => ("float32", "f32"),
        "bool" => ("flag", "bool"),
        "int8_t" => ("tiny", "i8"),
        "int" | "int32_t" | "aclDataType" => ("small", "i32"),
        "int64_t" => ("integer", "i64"),
        "uint64_t" => ("natural", "u64"),
        other => panic!("no argument is known as `{other}`"),
    }
}

/// What a parameter of a function that is not emulated occupies.
fn plain(c: &str) -> &'static str {
    match c.trim() {
        pointer if pointer.contains('*') => "*const c_void",
        "size_t" | "uint64_t" => "u64",
        "int64_t" => "i64",
        "uint32_t" => "u32",
        "aclrtStream"
        | "aclrtEvent"
        | "aclrtContext"
        | "HcclComm"
        | "aclrtDrvMemHandle"
        | "aclrtCallback"
        | "aclrtExceptionInfoCallback" => "*const c_void",
        _ => "i32",
    }
}

pub fn write(functions: &[Function], by_hand: &[String]) -> String {
    let mut text = String::new();
    for function in functions.iter().filter(|function| !by_hand.iter().any(|name| name == function.name)) {
        let name = function.name;
        let operator = name.strip_suffix("GetWorkspaceSize");
        let second = functions.iter().any(|other| other.name.strip_suffix("GetWorkspaceSize") == Some(name));
        match (operator, second) {
            (Some(operator), _) => {
                let arguments = &function.parameters[..function.parameters.len() - 2];
                let declared: String =
                    arguments.iter().enumerate().map(|(at, (c, _))| format!("a{at}: {}, ", argument(c).1)).collect();
                let passed: String = arguments
                    .iter()
                    .enumerate()
                    .map(|(at, (c, name))| format!("(\"{name}\", Argument::{}(a{at})), ", argument(c).0))
                    .collect();
                writeln!(
                    text,
                    "#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn {name}({declared}workspace: *mut u64, executor: *mut *mut c_void) -> i32 {{\n\
                     // SAFETY: the caller keeps to the signature.\n\
                     unsafe {{ executor::prepare(\"{operator}\", || vec![{passed}], workspace, executor) }}\n}}"
                )
            }
            (None, true) => writeln!(
                text,
                "#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn {name}(workspace: *mut c_void, bytes: u64, executor: *mut c_void, stream: *mut \
                 c_void) -> i32 {{\n// SAFETY: the caller keeps to the signature.\n\
                 unsafe {{ executor::submit(\"{name}\", workspace, bytes, executor, stream) }}\n}}"
            ),
            (None, false) => {
                let declared: Vec<_> =
                    function.parameters.iter().enumerate().map(|(at, (c, _))| format!("_a{at}: {}", plain(c))).collect();
                writeln!(
                    text,
                    "#[unsafe(no_mangle)]\npub extern \"C\" fn {name}({}) -> i32 {{ process::not_emulated(\"{name}\") }}",
                    declared.join(", ")
                )
            }
        }
        .expect("a string takes everything");
    }
    text
}

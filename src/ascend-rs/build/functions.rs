//! Every exported function as a static that finds its address when it is first called.

use crate::c;
use crate::table::Function;
use std::fmt::Write;

/// The libraries that may define a function, `sys::load::Library`.
fn library(function: &Function) -> &'static str {
    match function.library {
        l if l.starts_with("libascendcl") => "Runtime",
        l if l.starts_with("libhccl") => "Collectives",
        l if l.starts_with("libnnopbase") => "Operators",
        l if l.contains("libopapi") => "Operators",
        other => panic!("{}: no library is known as `{other}`", function.name),
    }
}

pub fn write(functions: &[Function]) -> String {
    let mut text = String::new();
    for function in functions {
        let named = |(kind, name): &(&str, &str)| format!("{}: {}", c::snake(name), c::rust(kind));
        let parameters: Vec<_> = function.parameters.iter().map(named).collect();
        let declared: Vec<_> =
            function.parameters.iter().map(|(kind, name)| format!("{kind} {name}")).collect();
        let Function { name, returns, header, note, .. } = function;
        let note = if note.is_empty() { String::new() } else { format!("\n///\n/// In the table: {note}.") };
        writeln!(
            text,
            "/// `{returns} {name}({})`, `{header}`.{note}\n\
             pub static {name}: Function<unsafe extern \"C\" fn({}) -> {}> = Function::new(c\"{name}\", Library::{});",
            declared.join(", ").replace("* ", "*"),
            parameters.join(", "),
            c::rust(returns),
            library(function),
        )
        .expect("a string takes everything");
    }
    let names: Vec<_> =
        functions.iter().map(|f| format!("(\"{}\", Library::{})", f.name, library(f))).collect();
    let count = names.len();
    writeln!(
        text,
        "/// Every function of the table and the libraries it is looked for in.\n\
         pub const NAMES: [(&str, Library); {count}] = [{}];",
        names.join(", ")
    )
    .expect("a string takes everything");
    text
}

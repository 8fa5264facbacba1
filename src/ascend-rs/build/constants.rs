//! Enums as numbers of their own name, macros as constants, and the names of codes.

use crate::c;
use crate::table::Constant;
use std::collections::BTreeSet;
use std::fmt::Write;

pub fn write(constants: &[Constant]) -> String {
    let mut text = String::new();
    let enums: BTreeSet<_> = constants.iter().filter(|c| c.kind == "enum").map(|c| c.of).collect();
    for name in enums {
        writeln!(text, "/// Four bytes: a C enum, whose values releases extend.\npub type {name} = i32;")
            .expect("a string takes everything");
    }
    let mut seen = BTreeSet::new();
    for constant in constants {
        let Constant { kind, of, name, .. } = constant;
        let Some(number) = constant.number().filter(|_| seen.insert(*name)) else { continue };
        let of = match *kind {
            "enum" => of,
            "define" if i32::try_from(number).is_ok() => "i32",
            "define" => "u32",
            _ => continue,
        };
        writeln!(text, "pub const {name}: {of} = {number};").expect("a string takes everything");
    }
    for (function, about, chosen) in [
        ("acl_error_name", "The name of an `aclError`.", errors as fn(&Constant) -> bool),
        ("hccl_result_name", "The name of an `HcclResult`.", results),
    ] {
        let mut known = BTreeSet::new();
        let arms: String = constants
            .iter()
            .filter(|constant| chosen(constant))
            .filter_map(|constant| Some((constant.number()?, constant.name)))
            .filter(|(number, _)| known.insert(*number))
            .map(|(number, name)| format!("        {number} => \"{name}\",\n"))
            .collect();
        writeln!(
            text,
            "/// {about}\npub fn {function}(code: i32) -> Option<&'static str> {{\n    Some(match code {{\n{arms}        \
             _ => return None,\n    }})\n}}"
        )
        .expect("a string takes everything");
    }
    let structs: BTreeSet<_> = constants.iter().filter(|c| c.kind == "struct").map(|c| c.of).collect();
    for of in structs {
        let sizes =
            constants.iter().filter(|c| c.kind == "struct" && c.of == of).filter_map(Constant::number);
        let (bytes, name) = (sizes.min().expect("a struct has a size"), c::snake(of).to_uppercase());
        writeln!(text, "/// Bytes of the C struct `{of}`, the least of all releases.\npub const {name}_BYTES: usize = {bytes};")
            .expect("a string takes everything");
    }
    text
}

fn errors(constant: &Constant) -> bool {
    constant.kind == "define" && constant.name.contains("ERROR")
}

fn results(constant: &Constant) -> bool {
    constant.of == "HcclResult"
}

//! A safe function for the first phase of every operator.

use crate::c;
use crate::table::Function;
use std::collections::HashSet;
use std::fmt::Write;

/// Arguments that may be null although their name does not say so.
const NULLABLE: [(&str, &str); 9] = [
    ("aclnnClamp", "clipValueMin"),
    ("aclnnClamp", "clipValueMax"),
    ("aclnnBincount", "weights"),
    ("aclnnFlashAttentionScoreGrad", "dpseOut"),
    ("aclnnFlashAttentionScoreGradV2", "dpseOut"),
    ("aclnnFlashAttentionUnpaddingScoreGrad", "dpseOut"),
    ("aclnnFlashAttentionUnpaddingScoreGradV2", "dpseOut"),
    ("aclnnForeachNonFiniteCheckAndUnscale", "invScale"),
    ("aclnnMoeTokenUnpermuteGrad", "probsGradOut"),
];

/// Type of an argument in Rust, and how it is handed over.
struct Argument {
    kind: String,
    passed: String,
}

fn argument(operator: &str, c_type: &str, name: &str) -> Argument {
    let rust_name = c::snake(name);
    let plain = c_type.strip_prefix("const ").unwrap_or(c_type).trim();
    let optional = name.contains("Optional") || NULLABLE.contains(&(operator, name));
    let described = |of: &str| match optional {
        true => Argument {
            kind: format!("Option<&'a {of}>"),
            passed: format!("crate::tensor::or_null({rust_name})"),
        },
        false => Argument { kind: format!("&'a {of}"), passed: format!("{rust_name}.raw()") },
    };
    match plain {
        "aclTensor *" => described("Tensor"),
        "aclTensorList *" => described("TensorList"),
        "aclScalar *" => described("Scalar"),
        "aclIntArray *" => described("IntArray"),
        "char *" => Argument { kind: "&'a CStr".into(), passed: format!("{rust_name}.as_ptr().cast_mut()") },
        "aclDataType" => Argument { kind: "DataType".into(), passed: format!("{rust_name} as i32") },
        number if !number.contains('*') => Argument { kind: c::rust(number), passed: rust_name },
        other => panic!("{operator}: no argument is known as `{other}`"),
    }
}

pub fn write(functions: &[Function]) -> String {
    let names: HashSet<_> = functions.iter().map(|function| function.name).collect();
    let mut text = String::new();
    for function in functions {
        let Some(operator) = function.name.strip_suffix("GetWorkspaceSize") else { continue };
        assert!(names.contains(operator), "{operator}: its second phase is in the table");
        let [arguments @ .., _, _] = &function.parameters[..] else {
            panic!("{operator}: too few parameters")
        };
        let made: Vec<_> =
            arguments.iter().map(|(kind, name)| (c::snake(name), argument(operator, kind, name))).collect();
        let declared: Vec<_> =
            made.iter().map(|(name, argument)| format!("{name}: {}", argument.kind)).collect();
        let passed: String = made.iter().map(|(_, argument)| format!("{}, ", argument.passed)).collect();
        let rust_name = c::snake(&operator["aclnn".len()..]);
        writeln!(
            text,
            "/// `{operator}` of `{}`.\n///\n/// # Errors\n/// If the installation lacks the operator or refuses the arguments.\n\
             pub fn {rust_name}<'a>({}) -> Result<Call<'a>> {{\n    \
             Call::prepare(\"{operator}\", &sys::{}, &sys::{operator}, |phase, workspace, executor| {{\n        \
             // SAFETY: the signature is the table's, and every descriptor lives for `'a`.\n        \
             unsafe {{ phase({passed}workspace, executor) }}\n    }})\n}}",
            function.header,
            declared.join(", "),
            function.name,
        )
        .expect("a string takes everything");
    }
    text
}

//! C spellings as Rust.

/// The Rust type of a C type.
pub fn rust(c: &str) -> String {
    let c = c.trim();
    if let Some(inner) = c.strip_suffix('*') {
        let inner = inner.trim();
        return match inner.strip_prefix("const ").filter(|pointee| !pointee.contains('*')) {
            Some(pointee) => format!("*const {}", rust(pointee)),
            None => match inner.strip_suffix("const") {
                Some(pointee) => format!("*const {}", rust(pointee)),
                None => format!("*mut {}", rust(inner)),
            },
        };
    }
    let c = c.strip_prefix("const ").unwrap_or(c);
    let rust = match c {
        "void" => "c_void",
        "char" => "c_char",
        "float" => "f32",
        "double" => "f64",
        "size_t" => "usize",
        "int" => "i32",
        "int8_t" => "i8",
        "int32_t" => "i32",
        "int64_t" => "i64",
        "uint32_t" => "u32",
        "uint64_t" => "u64",
        named => named,
    };
    rust.to_owned()
}

/// `selfRef` as `self_ref`, `aclnnRmsNorm` as `aclnn_rms_norm`; what is a word of Rust gets another name.
pub fn snake(name: &str) -> String {
    let characters: Vec<char> = name.chars().collect();
    let mut snake = String::new();
    for (at, c) in characters.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| characters[at]);
        let after = characters.get(at + 1);
        let starts = match before {
            None | Some('_') => false,
            Some(before) if before.is_uppercase() => after.is_some_and(|after| after.is_lowercase()),
            Some(_) => true,
        };
        if c.is_uppercase() && starts {
            snake.push('_');
        }
        snake.extend(c.to_lowercase());
    }
    match snake.as_str() {
        "self" => "input".to_owned(),
        "type" | "fn" | "in" | "unsafe" => snake + "_",
        _ => snake,
    }
}

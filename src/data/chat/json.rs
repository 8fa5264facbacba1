//! JSON as Python's `json.dumps(value, ensure_ascii=False)` writes it: templates print tools and arguments with it.

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, Value};

/// The filter `tojson`, with `indent`.
pub fn tojson(value: &Value, options: Kwargs) -> Result<String, Error> {
    let indent = options.get::<Option<usize>>("indent")?;
    // Accepted and without effect: these are the settings in use.
    for name in ["ensure_ascii", "sort_keys", "separators"] {
        options.get::<Option<Value>>(name)?;
    }
    options.assert_all_used()?;
    let mut out = String::new();
    write(value, indent, 0, &mut out)?;
    Ok(out)
}

fn write(value: &Value, indent: Option<usize>, depth: usize, out: &mut String) -> Result<(), Error> {
    match value.kind() {
        ValueKind::Undefined | ValueKind::None => out.push_str("null"),
        ValueKind::String => out.push_str(&quoted(value.as_str().unwrap_or_default())),
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Vec<Value> = value.try_iter()?.collect();
            list(('[', ']'), items.len(), indent, depth, out, |at, out| {
                write(&items[at], indent, depth + 1, out)
            })?;
        }
        ValueKind::Map => {
            let keys: Vec<Value> = value.try_iter()?.collect();
            list(('{', '}'), keys.len(), indent, depth, out, |at, out| {
                let key = &keys[at];
                out.push_str(&quoted(&key.as_str().map_or_else(|| key.to_string(), str::to_owned)));
                out.push_str(": ");
                write(&value.get_item(key)?, indent, depth + 1, out)
            })?;
        }
        _ => out.push_str(&value.to_string()),
    }
    Ok(())
}

/// Items between brackets, on lines of their own where there is an indent.
fn list(
    (open, close): (char, char),
    count: usize,
    indent: Option<usize>,
    depth: usize,
    out: &mut String,
    mut item: impl FnMut(usize, &mut String) -> Result<(), Error>,
) -> Result<(), Error> {
    let line = |depth: usize, out: &mut String| {
        if let Some(indent) = indent.filter(|_| count > 0) {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent * depth));
        }
    };
    out.push(open);
    for at in 0..count {
        if at > 0 {
            out.push_str(if indent.is_some() { "," } else { ", " });
        }
        line(depth + 1, out);
        item(at, out)?;
    }
    line(depth, out);
    out.push(close);
    Ok(())
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

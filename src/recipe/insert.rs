//! Text that is added to a recipe's file by the program: nothing that is there changes.

use std::fmt::Write;

/// The text of a file with a profile before the closing brace of a recipe. `end` is the byte behind that brace; `head` is
/// what stands before the profile's braces (`profile fast : base`), `note` a comment above it, `lines` its body.
///
/// The profile is indented by two spaces against the brace, and ends its lines as the file does. `None` where there is no
/// brace before `end`.
pub fn with_profile(text: &str, end: usize, note: &str, head: &str, lines: &[String]) -> Option<String> {
    let brace = end.checked_sub(1).filter(|&at| text.as_bytes().get(at) == Some(&b'}'))?;
    let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let line = text[..brace].rfind('\n').map_or(0, |at| at + 1);
    let before = &text[line..brace];
    // Where the brace has a line of its own the profile goes above that line, otherwise between text and brace.
    let alone = before.trim().is_empty();
    let indent = if alone { before } else { &before[..before.len() - before.trim_start().len()] };
    let mut profile = String::new();
    let _ = write!(profile, "{newline}{indent}  // {note}{newline}{indent}  {head} {{{newline}");
    for body in lines {
        let _ = write!(profile, "{indent}    {body}{newline}");
    }
    let _ = write!(profile, "{indent}  }}{newline}");
    let at = if alone { line } else { brace };
    let (head, tail) = text.split_at(at);
    Some(if alone {
        format!("{head}{profile}{tail}")
    } else {
        format!("{head}{newline}{profile}{indent}{tail}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inserted(text: &str) -> String {
        let end = text.rfind('}').unwrap() + 1;
        with_profile(text, end, "note", "profile p", &["train { micro_batch = 2 }".into()]).unwrap()
    }

    #[test]
    fn above_the_line_of_the_brace() {
        let text = "recipe r {\n  a = 1 // why\n}\n// end\n";
        let wanted = "recipe r {\n  a = 1 // why\n\n  // note\n  profile p {\n    train { micro_batch = 2 }\n  }\n}\n// end\n";
        assert_eq!(inserted(text), wanted);
        let crlf = inserted(&text.replace('\n', "\r\n"));
        assert_eq!(crlf, wanted.replace('\n', "\r\n"));
    }

    #[test]
    fn between_text_and_brace_on_one_line() {
        let text = "recipe r { a = 1 }";
        assert_eq!(
            inserted(text),
            "recipe r { a = 1 \n\n  // note\n  profile p {\n    train { micro_batch = 2 }\n  }\n}"
        );
        assert_eq!(with_profile("recipe r {", 10, "", "", &[]), None);
    }
}

//! Pages in Markdown on a terminal: bold headings, coloured code, paragraphs as wide as fits. What `stepc explain` prints.
//!
//! Knows what the pages use: headings, paragraphs, lists, `code` and fenced blocks.

use super::style::Style;
use crate::diag::catalogue::{AREAS, Area, Page};
use std::fmt::Write;

/// Columns that code stands further right.
const INDENT: &str = "    ";

/// One page, its code above it.
pub fn explain_page(page: &Page, style: Style, width: usize) -> String {
    format!("{}\n{}", style.dim(page.code), markdown(page.text, style, width))
}

/// Every code with its title, by area.
pub fn explain_all(style: Style) -> String {
    let mut out = String::new();
    for area in AREAS {
        out += &explain_area(area, style);
        out.push('\n');
    }
    out + "`stepc explain CODE` prints the page of one; the end of a code is enough where only one ends so.\n"
}

/// The codes of one area with their titles.
pub fn explain_area(area: &Area, style: Style) -> String {
    let longest = area.pages.iter().map(|page| page.code.len()).max().unwrap_or_default();
    let mut out = format!("{}  {}\n", style.bold(area.name), style.dim(&plain(area.about)));
    for page in area.pages {
        let _ =
            writeln!(out, "  {}  {}", style.code(&format!("{:<longest$}", page.code)), plain(page.title()));
    }
    out
}

fn plain(text: &str) -> String {
    text.replace('`', "")
}

fn markdown(text: &str, style: Style, width: usize) -> String {
    let mut out = String::new();
    let mut paragraph = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let info = line.strip_prefix("```");
        let heading = line.strip_prefix("# ").or_else(|| line.strip_prefix("## "));
        if info.is_none() && heading.is_none() && !line.trim().is_empty() {
            let _ = write!(paragraph, "{}{line}", if paragraph.is_empty() { "" } else { " " });
            continue;
        }
        flush(&mut out, &mut paragraph, style, width);
        match (heading, info) {
            (Some(heading), _) => out += &format!("{}\n", style.bold(heading)),
            (_, Some(info)) => {
                out += &format!("{}\n", caption(info, style));
                for line in lines.by_ref().take_while(|line| !line.starts_with("```")) {
                    out += &format!("{}\n", code(line, style));
                }
            }
            _ => out.push('\n'),
        }
    }
    flush(&mut out, &mut paragraph, style, width);
    out
}

/// What a block of code shows, from the words behind its fence.
fn caption(info: &str, style: Style) -> String {
    let words: Vec<&str> = info.split_whitespace().collect();
    let option = |key: &str| words.iter().find_map(|word| word.strip_prefix(key));
    let mut caption = if words.contains(&"fails") {
        style.bad("Fails")
    } else if words.contains(&"works") {
        style.good("Works")
    } else {
        style.bold("Beside it")
    };
    if let Some(name) = option("file=") {
        caption += &format!(", `{name}`");
    }
    if let Some(set) = option("set=") {
        caption += &format!(" with `--set {set}`");
    }
    if let Some(profile) = option("profile=") {
        caption += &format!(" with `--profile {profile}`");
    }
    caption + ":"
}

fn code(line: &str, style: Style) -> String {
    if line.is_empty() {
        return String::new();
    }
    match line.find("//") {
        Some(at) => format!("{INDENT}{}{}", style.code(&line[..at]), style.dim(&line[at..])),
        None => format!("{INDENT}{}", style.code(line)),
    }
}

/// Sets a paragraph in lines; back quotes become colour where there is any.
fn flush(out: &mut String, paragraph: &mut String, style: Style, width: usize) {
    let mut column = 0;
    let mut in_code = false;
    for word in paragraph.split_whitespace() {
        let marks = if style.color { word.matches('`').count() } else { 0 };
        let length = word.chars().count() - marks;
        if column > 0 && column + 1 + length > width {
            out.push('\n');
            column = 0;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        column += length;
        if !style.color {
            out.push_str(word);
            continue;
        }
        for part in word.split_inclusive('`') {
            let text = part.trim_end_matches('`');
            out.push_str(&if in_code && !text.is_empty() { style.code(text) } else { text.to_owned() });
            in_code ^= part.ends_with('`');
        }
    }
    if !paragraph.is_empty() {
        out.push('\n');
        paragraph.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_set_and_code_is_marked() {
        let text = "# A title\n\nSome words and\n`a b` more.\n\n```step fails set=a.b=1\nx = 1 // one\n```\n";
        let plain = markdown(text, Style { color: false }, 20);
        assert_eq!(
            plain,
            "A title\n\nSome words and `a b`\nmore.\n\nFails with `--set a.b=1`:\n    x = 1 // one\n"
        );
        let colored = markdown(text, Style { color: true }, 20);
        assert!(colored.contains("\x1b[36ma\x1b[0m \x1b[36mb\x1b[0m\nmore."), "{colored:?}");
    }
}

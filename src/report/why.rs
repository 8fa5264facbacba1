//! Where values come from, as `stepc check --why` shows it.

use super::style::Style;
use crate::base::SourceMap;
use crate::recipe::{Setting, Via, Written};
use std::fmt::Write;

/// Each setting with its value and, below it, every place that set it, the one that holds first.
pub fn why_page(settings: &[Setting], sources: &SourceMap, profile: Option<&str>, style: Style) -> String {
    let mut out = String::new();
    for setting in settings {
        let _ = match &setting.value {
            Some(value) => writeln!(out, "{} = {value}", style.bold(&setting.path)),
            None => writeln!(out, "{}", style.bold(&setting.path)),
        };
        places(&mut out, setting, sources, profile, style);
    }
    out
}

fn places(out: &mut String, setting: &Setting, sources: &SourceMap, profile: Option<&str>, style: Style) {
    let rows: Vec<[String; 3]> =
        setting.places.iter().map(|written| row(written, sources, profile)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let (text, place) = (width(0), width(1));
    for (index, row) in rows.iter().enumerate() {
        let line = format!("{:<text$}  {:<place$}  {}", row[0], row[1], row[2]);
        // A block is the sum of its places; of a field only the first one holds.
        let over = index > 0 && !setting.block;
        let _ = if over {
            writeln!(out, "  {}", style.dim(&format!("{line}, overridden")))
        } else {
            writeln!(out, "  {line}")
        };
    }
    if let Some(default) = setting.default {
        let line = match (setting.derived, rows.is_empty()) {
            (true, _) => format!("{default} (derived)"),
            (false, true) => format!("default {default} (declared)"),
            (false, false) => style.dim(&format!("default {default} (declared), overridden")),
        };
        let _ = writeln!(out, "  {line}");
    } else if rows.is_empty() {
        let _ = writeln!(out, "  {}", style.dim("not written"));
    }
}

/// What is written, where, and by what way it came into the recipe.
fn row(written: &Written, sources: &SourceMap, profile: Option<&str>) -> [String; 3] {
    let Written { origin, item } = written;
    let text = sources.slice(origin.span).split_whitespace().collect::<Vec<_>>().join(" ");
    let (line, column) = sources.line_col(origin.span);
    let via = match origin.via {
        Via::Item | Via::Recipe => item.clone().unwrap_or_default(),
        Via::Profile => format!("profile {}", profile.unwrap_or_default()),
        Via::Set => "--set".to_owned(),
    };
    [text, format!("{}:{line}:{column}", sources.path(origin.span.file)), via]
}

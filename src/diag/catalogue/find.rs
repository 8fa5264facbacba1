//! From what the user types to a page: a whole code, its end, or an area.

use super::{AREAS, Area, Page, pages};
use crate::diag::Diagnostic;
use crate::diag::suggest::nearest;

/// What a name stands for.
#[derive(Debug, Clone, Copy)]
pub enum Found {
    Page(&'static Page),
    /// The name is that of an area.
    Area(&'static Area),
}

/// The page of `name`: `step::parallel::ep_experts`, `parallel::ep_experts`, `ep_experts`; or the area `parallel`.
///
/// # Errors
/// A diagnostic where there is no such code, or several end like this.
pub fn find(name: &str) -> Result<Found, Diagnostic> {
    let ends_so = |page: &&Page| {
        page.code == name || page.code.strip_suffix(name).is_some_and(|front| front.ends_with("::"))
    };
    let found: Vec<_> = pages().filter(ends_so).collect();
    match found.as_slice() {
        [page] => return Ok(Found::Page(page)),
        [] => {}
        several => {
            let codes: Vec<_> = several.iter().map(|page| format!("`{}`", page.code)).collect();
            let message = format!("several codes end in `{name}`");
            return Err(Diagnostic::error("step::explain::ambiguous", message)
                .help(format!("choose one of {}", codes.join(", "))));
        }
    }
    let bare = name.strip_prefix("step::").unwrap_or(name).trim_end_matches("::");
    if let Some(area) = AREAS.iter().find(|area| area.name == bare) {
        return Ok(Found::Area(area));
    }
    let problem = Diagnostic::error("step::explain::unknown", format!("there is no code `{name}`"));
    let near = if name.contains("::") {
        nearest(name, pages().map(|page| page.code))
    } else {
        nearest(name, pages().map(Page::name).chain(AREAS.iter().map(|area| area.name)))
    };
    Err(match near {
        Some(near) => problem.help(format!("did you mean `{near}`?")),
        None => problem.help("`stepc explain` lists all codes"),
    })
}

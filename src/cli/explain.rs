//! `stepc explain`

use super::args::ExplainArgs;
use super::exit::Failure;
use super::session::Session;
use crate::diag::catalogue::{Found, find};
use crate::report::{explain_all, explain_area, explain_page};

/// Prints the page of a code, the codes of an area, or all of them.
pub fn explain(session: &Session, args: &ExplainArgs) -> Result<(), Failure> {
    let style = session.style();
    let text = match args.code.as_deref().map(find).transpose()? {
        Some(Found::Page(page)) => explain_page(page, style, session.width()),
        Some(Found::Area(area)) => explain_area(area, style),
        None => explain_all(style),
    };
    session.print(&text);
    Ok(())
}

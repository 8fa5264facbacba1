//! A plan as one HTML file that needs nothing else: style, script and data are inside.

mod data;

use crate::plan::Plan;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("page.js");

/// The page.
pub fn html_page(plan: &Plan) -> String {
    // Inside of a script element, `</` would end it.
    let data = data::of(plan).to_string().replace("</", "<\\/");
    let parts = [("{{style}}", STYLE), ("{{script}}", SCRIPT), ("{{data}}", data.as_str())];
    let mut page = PAGE.replace("{{title}}", &escape(&plan.recipe));
    for (place, text) in parts {
        page = page.replacen(place, text, 1);
    }
    page
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

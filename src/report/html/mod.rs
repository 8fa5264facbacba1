//! A plan, compiled or estimated, as one HTML file that needs nothing else: style, script and data are inside.

mod data;

use crate::plan::{Forecast, Plan, Savings};
use serde_json::Value;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("page.js");

/// What belongs to one kind of plan: the chart on top, what follows the figures, and the script for both.
struct Kind {
    chart: &'static str,
    parts: &'static str,
    script: &'static str,
}

const PROGRAM: Kind = Kind {
    chart: include_str!("step.html"),
    parts: include_str!("parts.html"),
    script: include_str!("program.js"),
};
const ESTIMATE: Kind =
    Kind { chart: include_str!("moments.html"), parts: "", script: include_str!("moments.js") };

/// The page of a compiled plan.
pub fn html_page(plan: &Plan, savings: Option<&Savings>) -> String {
    page(&plan.recipe, &PROGRAM, &data::of(plan, savings))
}

/// The page of an estimate: memory by moment instead of a step over time.
pub fn forecast_html(forecast: &Forecast, savings: Option<&Savings>) -> String {
    page(&forecast.recipe, &ESTIMATE, &data::of_forecast(forecast, savings))
}

fn page(title: &str, kind: &Kind, data: &Value) -> String {
    // Inside of a script element, `</` would end it.
    let data = data.to_string().replace("</", "<\\/");
    let script = format!("{SCRIPT}\n{}", kind.script);
    let parts = [
        ("{{style}}", STYLE),
        ("{{chart}}", kind.chart),
        ("{{parts}}", kind.parts),
        ("{{script}}", script.as_str()),
        ("{{data}}", data.as_str()),
    ];
    let mut page = PAGE.replace("{{title}}", &escape(title));
    for (place, text) in parts {
        page = page.replacen(place, text, 1);
    }
    page
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

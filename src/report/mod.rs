//! What people and other programs get to see: a plan as text, HTML, JSON and against another, a run as a line a step,
//! metrics as JSON lines, the manual.

mod diff;
mod figures;
mod forecast;
mod html;
mod json_schema;
mod metrics;
mod page;
mod plan;
mod progress;
mod quantity;
mod reference;
mod savings;
mod sheet;
mod shown;
mod style;
mod summary;
mod tune;
mod why;

pub use diff::diff_page;
pub use figures::Figures;
pub use forecast::forecast_page;
pub use html::{forecast_html, html_page};
pub use json_schema::json_schema;
pub use metrics::Metrics;
pub use page::{explain_all, explain_area, explain_page};
pub use plan::{headline, plan_page};
pub use progress::{Progress, checkpoint_line};
pub use quantity::{bytes, count, duration, percent, seconds};
pub use reference::reference;
pub use savings::savings_section;
pub use shown::Shown;
pub use style::Style;
pub use summary::{forecast_summary, summary};
pub use tune::{tune_json, tune_page};
pub use why::why_page;

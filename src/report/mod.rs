//! What people and other programs get to see: a plan as a page of text, as HTML, as JSON and against another, a run as a line a step, metrics as JSON lines.

mod diff;
mod html;
mod metrics;
mod plan;
mod progress;
mod quantity;
mod style;
mod summary;

pub use diff::diff_page;
pub use html::html_page;
pub use metrics::Metrics;
pub use plan::{headline, plan_page, savings_section};
pub use progress::Progress;
pub use quantity::{bytes, count, duration, percent, seconds};
pub use style::Style;
pub use summary::summary;

//! What people and other programs get to see: a plan as a page, a run as a line a step, metrics as JSON lines, the manual.

mod json_schema;
mod metrics;
mod page;
mod plan;
mod progress;
mod quantity;
mod reference;
mod style;
mod tune;
mod why;

pub use json_schema::json_schema;
pub use metrics::Metrics;
pub use page::{explain_all, explain_area, explain_page};
pub use plan::{headline, plan_page};
pub use progress::Progress;
pub use quantity::{bytes, count, duration};
pub use reference::reference;
pub use style::Style;
pub use tune::{tune_json, tune_page};
pub use why::why_page;

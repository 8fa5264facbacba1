//! What people and other programs get to see: a plan as a page, a run as a line a step, metrics as JSON lines.

mod metrics;
mod page;
mod plan;
mod progress;
mod quantity;
mod style;

pub use metrics::Metrics;
pub use page::{explain_all, explain_area, explain_page};
pub use plan::{headline, plan_page};
pub use progress::Progress;
pub use quantity::{bytes, count, duration};
pub use style::Style;

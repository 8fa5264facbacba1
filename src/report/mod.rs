//! What people and other programs get to see: a plan as a page, a run as a line a step, metrics as JSON lines.

mod metrics;
mod plan;
mod progress;
mod quantity;
mod style;
mod tune;

pub use metrics::Metrics;
pub use plan::{headline, plan_page};
pub use progress::Progress;
pub use quantity::{bytes, count, duration};
pub use style::Style;
pub use tune::{tune_json, tune_page};

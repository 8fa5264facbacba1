//! What there is to show of a recipe: its program's plan, or where there is no such program, an estimate.

use super::Style;
use crate::plan::estimate::Engine;
use crate::plan::rules::Need;
use crate::plan::{self, Basis, Forecast, Plan, Savings, Task};
use crate::recipe::Resolved;
use crate::report;
use serde_json::Value;

/// A plan, or what stands for one.
pub enum Shown {
    Program(Box<Plan>),
    Estimate(Box<Forecast>),
}

impl Shown {
    /// What says how a resolved recipe does on `engine`.
    pub fn of(resolved: &Resolved, engine: Engine) -> Shown {
        let (recipe, profile) = (&resolved.recipe, resolved.profile.as_deref());
        match Basis::of(recipe, engine) {
            Basis::Program => Shown::Program(Box::new(plan::compile(recipe, profile, Task::Train))),
            Basis::Estimate(engine) => Shown::Estimate(Box::new(Forecast::of(recipe, profile, engine))),
        }
    }

    /// The native program all the same: of an estimate, without what that program does not do.
    pub fn into_plan(self, resolved: &Resolved) -> Plan {
        match self {
            Shown::Program(plan) => *plan,
            Shown::Estimate(_) => plan::compile(&resolved.recipe, resolved.profile.as_deref(), Task::Train),
        }
    }

    /// What it needs of a device's memory.
    pub fn need(&self) -> Need {
        match self {
            Shown::Program(plan) => Need::from(&**plan),
            Shown::Estimate(forecast) => Need::from(&**forecast),
        }
    }

    /// What expert parallelism and the meta device save.
    pub fn savings(&self, resolved: &Resolved) -> Savings {
        match self {
            Shown::Program(plan) => Savings::of(&resolved.recipe, plan),
            Shown::Estimate(forecast) => Savings::estimated(&resolved.recipe, forecast),
        }
    }

    /// For a terminal.
    pub fn page(&self, style: Style) -> String {
        match self {
            Shown::Program(plan) => report::plan_page(plan, style),
            Shown::Estimate(forecast) => report::forecast_page(forecast, style),
        }
    }

    /// The figures as JSON, by the same names for both.
    pub fn summary(&self, savings: Option<&Savings>) -> Value {
        match self {
            Shown::Program(plan) => report::summary(plan, savings),
            Shown::Estimate(forecast) => report::forecast_summary(forecast, savings),
        }
    }

    /// For a browser.
    pub fn html(&self, savings: Option<&Savings>) -> String {
        match self {
            Shown::Program(plan) => report::html_page(plan, savings),
            Shown::Estimate(forecast) => report::forecast_html(forecast, savings),
        }
    }
}

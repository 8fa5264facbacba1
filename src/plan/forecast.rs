//! A recipe that no program of ours stands for, in the terms of a plan: what the estimate says of it.

use super::demands::{self, Demand};
use super::estimate::{Engine, Estimate, Job, Question};
use super::fit::{Basis, Remedy, remedies};
use crate::model::{Counts, Model};
use crate::recipe::{Cluster, MtpUsage, Parallel, Recipe, Train};
use serde::Serialize;

/// What an engine needs for a recipe, estimated. Memory is in bytes of the fullest device, time in seconds of a step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Forecast {
    /// The name of the recipe, and of the profile that was laid over it.
    pub recipe: String,
    pub profile: Option<String>,
    pub engine: Engine,
    /// What the native engine does not run of it, where that is the engine.
    pub demands: Vec<Demand>,
    pub cluster: Cluster,
    pub parallel: Parallel,
    pub train: Train,
    pub sequence: u64,
    pub counts: Counts,
    /// What becomes of the layers of multi-token prediction, where there are some.
    pub mtp: Option<MtpUsage>,
    pub job: Job,
    pub estimate: Estimate,
    /// Where it does not fit: the smallest change with which it would, or what comes nearest.
    pub remedy: Option<Remedy>,
}

impl Forecast {
    /// Estimates a recipe whose rules have been checked.
    pub fn of(recipe: &Recipe, profile: Option<&str>, engine: Engine) -> Forecast {
        let model = Model::build(&recipe.model, recipe.parallel.precision.params);
        let question = Question::new(recipe, &model, engine);
        let job = question.own();
        let mut forecast = Forecast {
            recipe: recipe.name.clone(),
            profile: profile.map(str::to_owned),
            engine,
            demands: if engine == Engine::Native { demands::of(recipe) } else { Vec::new() },
            cluster: recipe.cluster.clone(),
            parallel: recipe.parallel.clone(),
            train: recipe.train.clone(),
            sequence: recipe.data.sequence,
            counts: model.counts(),
            mtp: recipe.model.mtp.as_ref().map(|mtp| mtp.usage),
            job,
            estimate: question.estimate(&job),
            remedy: None,
        };
        if !forecast.fits() {
            let all = remedies(recipe, Basis::Estimate(engine), forecast.needed());
            let fitting = all.iter().find(|remedy| remedy.peak <= forecast.cluster.device.memory);
            forecast.remedy = fitting.or(all.iter().min_by_key(|remedy| remedy.peak)).cloned();
        }
        forecast
    }

    /// Bytes that the fullest device must have.
    pub fn needed(&self) -> u64 {
        self.estimate.memory.needed() as u64
    }

    /// Whether a device has that.
    pub fn fits(&self) -> bool {
        self.needed() <= self.cluster.device.memory
    }
}

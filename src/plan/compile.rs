//! From a recipe and its model to a plan.

use super::arena;
use super::demands::{self, Demand};
use super::lower::lower;
use super::memory::{Memory, tell_workspace};
use super::mesh::Mesh;
use super::placement::Placement;
use super::program::Program;
use super::time::{Schedule, Time};
use super::traffic::Traffic;
use super::workspace;
use crate::model::{Aside, Counts, Model, Parameter};
use crate::recipe::{self, Checkpoint, Cluster, Data, DeviceKind, Parallel, Recipe, Train, Weights};
use serde::{Deserialize, Serialize};

/// The version of the plan's form; a file of another version is refused.
pub(super) const VERSION: u32 = 4;

/// What a program is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Forward, backward and update.
    Train,
    /// Forward only, ending with the logits of all tokens.
    Forward,
}

impl Task {
    pub(super) fn trains(self) -> bool {
        self == Task::Train
    }
}

/// Everything that a run needs, as plain data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub version: u32,
    /// The name of the recipe, and of the profile that was laid over it.
    pub recipe: String,
    pub profile: Option<String>,
    pub cluster: Cluster,
    pub parallel: Parallel,
    pub mesh: Mesh,
    /// What the native engine cannot run of it.
    pub demands: Vec<Demand>,
    /// The architecture as the recipe describes it.
    pub model: recipe::Model,
    pub vocab: u64,
    pub counts: Counts,
    pub memory: Memory,
    pub traffic: Traffic,
    pub time: Time,
    pub data: Data,
    pub train: Train,
    pub checkpoint: Option<Checkpoint>,
    pub weights: Weights,
    /// What a checkpoint may hold beside the parameters.
    pub aside: Aside,
    pub params: Vec<Parameter>,
    pub placement: Placement,
    pub program: Program,
}

/// Compiles a recipe whose rules have been checked.
pub fn compile(recipe: &Recipe, profile: Option<&str>, task: Task) -> Plan {
    let model = Model::build(&recipe.model, recipe.parallel.precision.params);
    let mesh = Mesh::new(&recipe.parallel, recipe.cluster.devices());
    let placement = Placement::new(&model, &mesh);
    let mut program = lower(recipe, &model, &mesh, &placement, task);
    tell_workspace(&mut program);
    if recipe.cluster.device.kind == DeviceKind::Cpu {
        workspace::add(&mut program);
    }
    arena::assign(&mut program);
    let (counts, cluster) = (model.counts(), &recipe.cluster);
    let schedule = Schedule::of(&program, &mesh, cluster, recipe.data.sequence);
    let work = (&program, &schedule);
    let time = Time::of(work, (&model, &counts), (&mesh, cluster), (&recipe.train, &recipe.data));
    let mut plan = Plan {
        version: VERSION,
        recipe: recipe.name.clone(),
        profile: profile.map(str::to_owned),
        cluster: recipe.cluster.clone(),
        parallel: recipe.parallel.clone(),
        mesh,
        demands: demands::of(recipe),
        model: recipe.model.clone(),
        vocab: model.vocab,
        counts,
        memory: Memory::of(&program),
        traffic: Traffic::of(&program, &mesh),
        time,
        data: recipe.data.clone(),
        train: recipe.train.clone(),
        checkpoint: recipe.checkpoint.clone(),
        weights: recipe.model.weights.clone(),
        aside: model.aside,
        params: model.params,
        placement,
        program,
    };
    if task.trains() {
        plan.memory.stage(plan.staging(), plan.cluster.device.kind == DeviceKind::Cpu);
    }
    plan
}

impl Plan {
    /// Peak in bytes and seconds of a step if the busiest rank of every expert group got `imbalance` times the balanced
    /// rows and memory were set aside for just these.
    pub fn imbalanced(&self, imbalance: f64) -> (u64, f64) {
        let mut program = self.program.clone();
        program.routed = program.routed.into_iter().map(|routed| routed.imbalanced(imbalance)).collect();
        arena::assign(&mut program);
        let schedule = Schedule::of(&program, &self.mesh, &self.cluster, self.data.sequence);
        (program.persistent + program.arena, schedule.step(program.accumulation))
    }

    /// When each instruction of the program runs.
    pub fn schedule(&self) -> Schedule {
        Schedule::of(&self.program, &self.mesh, &self.cluster, self.data.sequence)
    }
}

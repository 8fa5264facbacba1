//! The recipe: everything about one training run.

use crate::recipe::forms::{Name, Profiles};
use crate::recipe::schema::Title;
use crate::recipe::schema::data::Data;
use crate::recipe::schema::machine::Cluster;
use crate::recipe::schema::model::Model;
use crate::recipe::schema::parallel::Parallel;
use crate::recipe::schema::train::{Checkpoint, Train};

block! {
    /// One training run.
    pub struct Recipe("recipe", Title::Name) {
        /// The name behind `recipe`.
        name: String as Name,
        /// What is trained. With the name of a top-level `model`, a copy of it with parts overridden.
        model: Model,
        /// What it runs on. With the name of a top-level `cluster`, a copy of it with parts overridden.
        cluster: Cluster,
        /// How the work is divided over the devices.
        parallel: Parallel,
        /// What is trained on.
        data: Data,
        /// How it is trained.
        train: Train,
        /// What is written to disk while training.
        checkpoint: Option<Checkpoint>,
    }
    also {
        /// Changes to the recipe, chosen with `--profile NAME` or by the device at hand.
        profile: Profiles,
    }
}

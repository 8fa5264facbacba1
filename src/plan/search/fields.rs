//! The fields of a recipe that the search may change, and the values that the rules allow them.
//!
//! A field that is added to [`FIELDS`] (and to [`Candidate`]) takes part in everything: enumeration, the recipe that is
//! compiled, the table, the profile.

use crate::model::{FfnModule, Model};
use crate::plan::demands;
use crate::plan::estimate::{Engine, Job, Memory, Question, Time};
use crate::recipe::{Parallel, Recipe, Recompute, divisors};
use std::fmt::Write;

/// One layout: a value for each of [`FIELDS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Candidate {
    pub fsdp: u64,
    pub ep: u64,
    pub ep_fsdp: u64,
    pub micro_batch: u64,
    pub recompute: Recompute,
    pub prefetch: u64,
}

/// What the values are chosen from.
#[derive(Debug, Clone)]
pub struct Space {
    /// Devices of a pipeline stage, and of those the ones that hold a dense parameter: `tp` taken out.
    stage: u64,
    dense: u64,
    /// Experts of the layers that have some; `ep` divides each.
    experts: Vec<u64>,
    /// Sequences that a rank of data takes in a step.
    sequences: u64,
    /// What the engine can compute again.
    recompute: Vec<Recompute>,
    /// The recipe's own layout: its values are among those tried.
    pub own: Candidate,
}

/// A field that the search may change.
pub struct Field {
    pub block: &'static str,
    pub key: &'static str,
    /// The value of a candidate, as a recipe writes it.
    pub value: fn(&Candidate) -> String,
    /// Writes the value into a recipe.
    pub set: fn(&Candidate, &mut Recipe),
    /// Every legal value, given those of the fields before it.
    choices: fn(&Space, Candidate, &mut Vec<Candidate>),
}

/// All of them; a field's values may depend on those above it.
pub const FIELDS: &[Field] = &[
    Field {
        block: "parallel",
        key: "fsdp",
        value: |c| c.fsdp.to_string(),
        set: |c, r| r.parallel.fsdp = c.fsdp,
        choices: |s, c, out| out.extend(divisors(s.dense).into_iter().map(|fsdp| Candidate { fsdp, ..c })),
    },
    Field {
        block: "parallel",
        key: "ep",
        value: |c| c.ep.to_string(),
        set: |c, r| r.parallel.ep = c.ep,
        choices: |s, c, out| out.extend(s.groups().map(|ep| Candidate { ep, ..c })),
    },
    Field {
        block: "parallel",
        key: "ep_fsdp",
        value: |c| c.ep_fsdp.to_string(),
        set: |c, r| r.parallel.ep_fsdp = c.ep_fsdp,
        choices: |s, c, out| match c.ep {
            // Undivided experts are sharded like every other parameter.
            1 => out.push(Candidate { ep_fsdp: c.fsdp, ..c }),
            ep => out.extend(divisors(s.stage / ep).into_iter().map(|ep_fsdp| Candidate { ep_fsdp, ..c })),
        },
    },
    Field {
        block: "train",
        key: "micro_batch",
        value: |c| c.micro_batch.to_string(),
        set: |c, r| r.train.micro_batch = c.micro_batch,
        choices: |s, c, out| {
            out.extend(divisors(s.sequences).into_iter().map(|micro_batch| Candidate { micro_batch, ..c }));
        },
    },
    Field {
        block: "parallel",
        key: "recompute",
        value: |c| c.recompute.word().to_owned(),
        set: |c, r| r.parallel.recompute = c.recompute,
        choices: |s, c, out| out.extend(s.recompute.iter().map(|&recompute| Candidate { recompute, ..c })),
    },
    Field {
        block: "parallel",
        key: "prefetch",
        value: |c| c.prefetch.to_string(),
        set: |c, r| r.parallel.prefetch = c.prefetch,
        choices: |s, c, out| {
            // Further ahead than one unit costs memory and hides nothing more.
            out.extend([0, 1].map(|prefetch| Candidate { prefetch, ..c }));
            if s.own.prefetch > 1 {
                out.push(Candidate { prefetch: s.own.prefetch, ..c });
            }
        },
    },
];

impl Candidate {
    /// The layout of a recipe.
    pub fn of(recipe: &Recipe) -> Candidate {
        let p = &recipe.parallel;
        Candidate {
            fsdp: p.fsdp,
            ep: p.ep,
            ep_fsdp: p.ep_fsdp,
            micro_batch: recipe.train.micro_batch,
            recompute: p.recompute,
            prefetch: p.prefetch,
        }
    }

    /// The job that `question` is about with this layout.
    pub fn job(&self, question: &Question) -> Job {
        let Candidate { fsdp, ep, ep_fsdp, micro_batch, recompute, prefetch } = *self;
        let own = question.parallel.clone();
        question.job(&Parallel { fsdp, ep, ep_fsdp, recompute, prefetch, ..own }, micro_batch)
    }

    /// The estimate of memory with this layout.
    pub fn memory(&self, question: &Question) -> Memory {
        Memory::of(&question.shape, &self.job(question))
    }

    /// The estimate of a step with this layout.
    pub fn time(&self, question: &Question) -> Time {
        Time::of(&question.shape, &self.job(question), &question.machine)
    }

    /// The recipe with this layout.
    pub fn applied(&self, recipe: &Recipe) -> Recipe {
        let mut recipe = recipe.clone();
        FIELDS.iter().for_each(|field| (field.set)(self, &mut recipe));
        recipe
    }

    /// As arguments of `--set`.
    pub fn overrides(&self) -> Vec<String> {
        FIELDS.iter().map(|f| format!("{}.{}={}", f.block, f.key, (f.value)(self))).collect()
    }

    /// As the body of a recipe's profile: a line a block.
    pub fn blocks(&self) -> Vec<String> {
        let mut blocks: Vec<(&str, String)> = Vec::new();
        for field in FIELDS {
            let at = blocks.iter().position(|(block, _)| *block == field.block).unwrap_or(blocks.len());
            if at == blocks.len() {
                blocks.push((field.block, String::new()));
            }
            let text = &mut blocks[at].1;
            let comma = if text.is_empty() { "" } else { ", " };
            let _ = write!(text, "{comma}{} = {}", field.key, (field.value)(self));
        }
        blocks.into_iter().map(|(block, text)| format!("{block} {{ {text} }}")).collect()
    }
}

impl Space {
    /// What the rules leave to choose from in `recipe`, and what `engine` can do of it. Tensor, context and pipeline
    /// parallelism stay as the recipe has them.
    pub fn new(recipe: &Recipe, model: &Model, engine: Engine) -> Space {
        let (parallel, cluster) = (&recipe.parallel, &recipe.cluster);
        let stage = parallel.stage_ranks(cluster);
        let experts = model.layers.iter().filter_map(|layer| match &layer.ffn {
            FfnModule::Moe(moe) => Some(moe.config.experts),
            FfnModule::Dense(_) => None,
        });
        let words = Recompute::WORDS.iter().filter_map(|known| Recompute::from_word(known.word));
        let own = Candidate::of(recipe);
        Space {
            stage,
            dense: stage / parallel.tp,
            experts: experts.collect(),
            sequences: recipe.train.global_batch / parallel.data_ranks(cluster),
            recompute: words.filter(|&word| runs(engine, recipe, word)).collect(),
            own,
        }
    }

    /// Sizes that `ep` can have.
    fn groups(&self) -> impl Iterator<Item = u64> {
        let fits = |ep: u64| match self.experts.is_empty() {
            true => ep == 1,
            false => self.experts.iter().all(|experts| experts.is_multiple_of(ep)),
        };
        divisors(self.stage).into_iter().filter(move |&ep| fits(ep))
    }

    /// Every legal layout, the recipe's own among them where the engine runs it, in a fixed order.
    pub fn legal(&self) -> Vec<Candidate> {
        let mut all = vec![self.own];
        for field in FIELDS {
            let mut next = Vec::with_capacity(all.len() * 4);
            all.iter().for_each(|&candidate| (field.choices)(self, candidate, &mut next));
            all = next;
        }
        // A layout of its own making may lie outside of what is tried, but never of what runs.
        if !all.contains(&self.own) && self.recompute.contains(&self.own.recompute) {
            all.push(self.own);
        }
        all
    }

    /// Layouts there are when each field takes each of its values, whether the rules allow them together or not.
    pub fn combinations(&self) -> u64 {
        let sizes = |ranks| divisors(ranks).len() as u64;
        let prefetch = if self.own.prefetch > 1 { 3 } else { 2 };
        let micro = divisors(self.sequences).len() as u64;
        sizes(self.dense) * sizes(self.stage).pow(2) * micro * self.recompute.len() as u64 * prefetch
    }
}

/// Whether `engine` can recompute so: the estimate knows every way, the native program those that ask for nothing more.
fn runs(engine: Engine, recipe: &Recipe, recompute: Recompute) -> bool {
    let asks =
        |recipe: &Recipe| demands::of(recipe).iter().any(|demand| demand.field == "parallel.recompute");
    let with = Candidate { recompute, ..Candidate::of(recipe) };
    engine != Engine::Native || !asks(&with.applied(recipe))
}

//! The fields of a recipe that the search may change, and the values that the rules allow them.
//!
//! A field that is added to [`FIELDS`] (and to [`Candidate`]) takes part in everything: enumeration, the recipe that is
//! compiled, the table, the profile.

use super::engines::Choices;
use crate::model::{FfnModule, Model};
use crate::plan::estimate::{Engine, Job, Loss, Memory, Question, Time};
use crate::recipe::{Parallel, Recipe, Recompute, divides, divisors};
use std::fmt::Write;

/// Rows of logits at a time that are tried beside all of them.
const LOSS_ROWS: u64 = 1024;

/// One layout: a value for each of [`FIELDS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Candidate {
    pub pp: u64,
    pub cp: u64,
    pub tp: u64,
    pub fsdp: u64,
    pub ep: u64,
    pub ep_fsdp: u64,
    pub micro_batch: u64,
    pub recompute: Recompute,
    pub prefetch: u64,
    pub reshard: bool,
    pub loss_chunk: Option<u64>,
}

/// What the values are chosen from.
#[derive(Debug, Clone)]
pub struct Space<'a> {
    recipe: &'a Recipe,
    choices: Choices,
    devices: u64,
    /// Experts of the layers that have some; `ep` divides each.
    experts: Vec<u64>,
    /// What is cheap to leave as the recipe has it is left so.
    narrow: bool,
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
    /// Whether an engine leaves it to choose.
    free: fn(&Choices) -> bool,
    /// Every legal value, given those of the fields before it.
    choices: fn(&Space, Candidate, &mut Vec<Candidate>),
}

/// All of them; a field's values may depend on those above it.
pub const FIELDS: &[Field] = &[
    Field {
        block: "parallel",
        key: "pp",
        value: |c| c.pp.to_string(),
        set: |c, r| r.parallel.pp = c.pp,
        free: |choices| choices.pipeline,
        choices: |s, c, out| out.extend(divisors(s.devices).into_iter().map(|pp| Candidate { pp, ..c })),
    },
    Field {
        block: "parallel",
        key: "cp",
        value: |c| c.cp.to_string(),
        set: |c, r| r.parallel.cp = c.cp,
        free: |choices| choices.context,
        choices: |s, c, out| {
            let asked = !s.choices.some_models || s.own.cp > 1;
            let all = divisors(s.devices / c.pp).into_iter().filter(|cp| asked || *cp == 1);
            out.extend(all.map(|cp| Candidate { cp, ..c }));
        },
    },
    Field {
        block: "parallel",
        key: "tp",
        value: |c| c.tp.to_string(),
        set: |c, r| r.parallel.tp = c.tp,
        free: |choices| choices.tensor,
        choices: |s, c, out| {
            let ranks = s.devices / (c.pp * c.cp);
            // Every matrix product waits for it: beyond the links of a node it is never worth its while.
            let near = |tp: &u64| *tp <= s.recipe.cluster.devices_per_node;
            out.extend(divisors(ranks).into_iter().filter(near).map(|tp| Candidate { tp, ..c }));
        },
    },
    Field {
        block: "parallel",
        key: "fsdp",
        value: |c| c.fsdp.to_string(),
        set: |c, r| r.parallel.fsdp = c.fsdp,
        free: |_| true,
        choices: |s, c, out| {
            // Where the axes above do not divide what they must, nothing else is asked.
            let whole = divides(&c.applied(s.recipe));
            let dense = s.devices / (c.pp * c.tp);
            let all = if whole { divisors(dense) } else { Vec::new() };
            let free = |fsdp: &u64| s.choices.hybrid || *fsdp == dense;
            out.extend(all.into_iter().filter(free).map(|fsdp| Candidate { fsdp, ..c }));
        },
    },
    Field {
        block: "parallel",
        key: "ep",
        value: |c| c.ep.to_string(),
        set: |c, r| r.parallel.ep = c.ep,
        free: |_| true,
        choices: |s, c, out| {
            let ranks = if s.choices.expert_copies { s.devices / c.pp } else { c.fsdp * c.tp };
            out.extend(
                divisors(ranks).into_iter().filter(|&ep| s.spread(ep)).map(|ep| Candidate { ep, ..c }),
            );
        },
    },
    Field {
        block: "parallel",
        key: "ep_fsdp",
        value: |c| c.ep_fsdp.to_string(),
        set: |c, r| r.parallel.ep_fsdp = c.ep_fsdp,
        free: |_| true,
        choices: |s, c, out| match c.ep {
            ep if ep > 1 && s.choices.expert_copies => {
                let all = divisors(s.devices / (c.pp * ep));
                out.extend(all.into_iter().map(|ep_fsdp| Candidate { ep_fsdp, ..c }));
            }
            // Undivided experts are sharded like every other parameter.
            ep => out.push(Candidate { ep_fsdp: c.fsdp * c.tp / ep, ..c }),
        },
    },
    Field {
        block: "train",
        key: "micro_batch",
        value: |c| c.micro_batch.to_string(),
        set: |c, r| r.train.micro_batch = c.micro_batch,
        free: |_| true,
        choices: |s, c, out| {
            let (batch, ranks) = (s.recipe.train.global_batch, s.devices / (c.pp * c.cp * c.tp));
            // Sequences that a rank of data takes in a step.
            let sequences = if batch.is_multiple_of(ranks) { divisors(batch / ranks) } else { Vec::new() };
            out.extend(sequences.into_iter().map(|micro_batch| Candidate { micro_batch, ..c }));
        },
    },
    Field {
        block: "parallel",
        key: "recompute",
        value: |c| c.recompute.word().to_owned(),
        set: |c, r| r.parallel.recompute = c.recompute,
        free: |_| true,
        choices: |s, c, out| {
            let words = Recompute::WORDS.iter().filter_map(|known| Recompute::from_word(known.word));
            let known = words.filter(|&word| s.choices.recompute(word));
            out.extend(known.map(|recompute| Candidate { recompute, ..c }));
        },
    },
    Field {
        block: "parallel",
        key: "prefetch",
        value: |c| c.prefetch.to_string(),
        set: |c, r| r.parallel.prefetch = c.prefetch,
        free: |choices| choices.prefetch,
        // Further ahead than one unit costs memory and hides nothing more.
        choices: |s, c, out| s.few([0, 1], s.own.prefetch, |prefetch| out.push(Candidate { prefetch, ..c })),
    },
    Field {
        block: "parallel",
        key: "reshard_after_forward",
        value: |c| c.reshard.to_string(),
        set: |c, r| r.parallel.reshard_after_forward = c.reshard,
        free: |choices| choices.reshard,
        choices: |s, c, out| {
            s.few([true, false], s.own.reshard, |reshard| out.push(Candidate { reshard, ..c }))
        },
    },
    Field {
        block: "train",
        key: "loss_chunk",
        value: |c| c.loss_chunk.map_or("none".to_owned(), |rows| rows.to_string()),
        set: |c, r| r.train.loss_chunk = c.loss_chunk,
        free: |choices| choices.loss_chunk,
        choices: |s, c, out| {
            let tokens = c.micro_batch * s.recipe.data.sequence / c.cp;
            let chunk = Some(LOSS_ROWS).filter(|rows| *rows < tokens);
            s.few([None, chunk], s.own.loss_chunk, |loss_chunk| out.push(Candidate { loss_chunk, ..c }));
        },
    },
];

/// The fields that `engine` leaves to choose.
pub fn fields(engine: Engine) -> impl Iterator<Item = &'static Field> {
    let choices = Choices::of(engine);
    FIELDS.iter().filter(move |field| (field.free)(&choices))
}

impl Candidate {
    /// The layout of a recipe.
    pub fn of(recipe: &Recipe) -> Candidate {
        let p = &recipe.parallel;
        Candidate {
            pp: p.pp,
            cp: p.cp,
            tp: p.tp,
            fsdp: p.fsdp,
            ep: p.ep,
            ep_fsdp: p.ep_fsdp,
            micro_batch: recipe.train.micro_batch,
            recompute: p.recompute,
            prefetch: p.prefetch,
            reshard: p.reshard_after_forward,
            loss_chunk: recipe.train.loss_chunk,
        }
    }

    /// The job that `question` is about with this layout.
    pub fn job(&self, question: &Question) -> Job {
        let Candidate { pp, cp, tp, fsdp, ep, ep_fsdp, micro_batch, recompute, prefetch, .. } = *self;
        let parallel = Parallel {
            pp,
            cp,
            tp,
            fsdp,
            ep,
            ep_fsdp,
            recompute,
            prefetch,
            reshard_after_forward: self.reshard,
            ..question.parallel.clone()
        };
        let job = question.job(&parallel, micro_batch);
        match question.engine {
            // The native program chooses for itself.
            Engine::Native => job,
            _ => Job { loss: Loss::of(self.loss_chunk, micro_batch * job.sequence / cp), ..job },
        }
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

    /// The fields to write for it into a recipe laid out as `own`: what `engine` leaves to choose, and what it does not and
    /// has to be otherwise.
    pub fn written(&self, engine: Engine, own: &Candidate) -> impl Iterator<Item = &'static Field> {
        let choices = Choices::of(engine);
        FIELDS.iter().filter(move |field| (field.free)(&choices) || (field.value)(self) != (field.value)(own))
    }

    /// Those as arguments of `--set`.
    pub fn overrides(&self, engine: Engine, own: &Candidate) -> Vec<String> {
        self.written(engine, own).map(|f| format!("{}.{}={}", f.block, f.key, (f.value)(self))).collect()
    }

    /// The same as the body of a recipe's profile: a line a block.
    pub fn blocks(&self, engine: Engine, own: &Candidate) -> Vec<String> {
        let mut blocks: Vec<(&str, String)> = Vec::new();
        for field in self.written(engine, own) {
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

impl<'a> Space<'a> {
    /// What the rules leave to choose from in `recipe`, and what `engine` can do of it. What an engine does not leave to
    /// choose stays as the recipe has it.
    pub fn new(recipe: &'a Recipe, model: &Model, engine: Engine) -> Space<'a> {
        let experts = model.layers.iter().filter_map(|layer| match &layer.ffn {
            FfnModule::Moe(moe) => Some(moe.config.experts),
            FfnModule::Dense(_) => None,
        });
        Space {
            recipe,
            choices: Choices::of(engine),
            devices: recipe.cluster.devices(),
            experts: experts.collect(),
            narrow: false,
            own: Candidate::of(recipe),
        }
    }

    /// The same with the recipe's own value of every field of which a few are tried, but for recomputation.
    pub fn narrowed(self) -> Space<'a> {
        Space { narrow: true, ..self }
    }

    /// Whether experts can be spread over `ep` ranks.
    fn spread(&self, ep: u64) -> bool {
        let whole = |&experts: &u64| {
            experts.is_multiple_of(ep) && (self.choices.lone_experts || ep == 1 || ep < experts)
        };
        if self.experts.is_empty() { ep == 1 } else { self.experts.iter().all(whole) }
    }

    /// Each of `tried` and the recipe's own value, once.
    fn few<T: Copy + PartialEq>(&self, tried: [T; 2], own: T, mut each: impl FnMut(T)) {
        let tried = tried.iter().take_while(|_| !self.narrow);
        let others: Vec<T> = tried.copied().filter(|value| *value != own).collect();
        each(own);
        (0..others.len()).filter(|&i| !others[..i].contains(&others[i])).for_each(|i| each(others[i]));
    }

    /// Whether the engine runs the recipe's own layout.
    pub fn runs_own(&self) -> bool {
        self.choices.run(&self.own, self.devices, self.experts.iter().copied().min().unwrap_or(0))
    }

    /// Every legal layout, the recipe's own among them where the engine runs it, in a fixed order; `None` if there are
    /// more than `most`.
    pub fn legal(&self, most: usize) -> Option<Vec<Candidate>> {
        // Where an engine has no use for an axis, the recipe may still have one.
        let fixed = |own: u64, free: bool| if free { own } else { 1 };
        let mut all = vec![Candidate {
            pp: fixed(self.own.pp, self.choices.pipeline),
            cp: fixed(self.own.cp, self.choices.context),
            tp: fixed(self.own.tp, self.choices.tensor),
            ..self.own
        }];
        for field in FIELDS.iter().filter(|field| (field.free)(&self.choices)) {
            let mut next = Vec::with_capacity(all.len() * 4);
            for &candidate in &all {
                (field.choices)(self, candidate, &mut next);
                if next.len() > most {
                    return None;
                }
            }
            all = next;
        }
        // A layout of its own making may lie outside of what is tried, but never of what runs.
        if self.runs_own() && !all.contains(&self.own) {
            all.push(self.own);
        }
        Some(all)
    }

    /// Layouts there are when each field takes each of its values, whether the rules allow them together or not.
    pub fn combinations(&self) -> u64 {
        let (axes, batches) = (divisors(self.devices).len() as u64, divisors(self.recipe.train.global_batch));
        let few = |field: &Field| match field.key {
            "micro_batch" => batches.len() as u64,
            "recompute" => Recompute::WORDS.len() as u64 - u64::from(!self.choices.selective),
            "prefetch" | "reshard_after_forward" | "loss_chunk" => 2,
            _ => axes,
        };
        FIELDS.iter().filter(|field| (field.free)(&self.choices)).map(few).product()
    }
}

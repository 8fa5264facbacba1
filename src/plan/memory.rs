//! Memory over the course of a step, by what it is for.

use super::arena::{lifetimes, resident};
use super::ops::Op;
use super::program::{BufferId, Program};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a buffer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Category {
    /// Parameter shards as the optimizer sees them.
    Parameters,
    /// Master weights beside the parameters.
    Master,
    /// Gradient shards.
    Gradients,
    /// Moments.
    Optimizer,
    /// Frozen parameters, position tables, inputs.
    Constants,
    /// Units while they are gathered.
    Gathered,
    /// Whole gradients of a unit before they are reduced.
    GatheredGradients,
    /// What the forward pass keeps for the backward pass.
    Activations,
    /// Rows of routed tokens and what the experts make of them.
    Dispatch,
    /// Logits of the head, and what the loss makes of them.
    Logits,
    /// What collectives send from and receive into, and what their library takes.
    Buffers,
    /// Temporaries of one layer and of the optimizer, operands widened for one instruction.
    Workspace,
    /// Copies of the state, from which checkpoints are written while training goes on.
    Staging,
    /// What the allocator holds and cannot use.
    Slack,
}

impl Category {
    /// All of them, in the order of the enum.
    pub const ALL: [Category; 14] = [
        Category::Parameters,
        Category::Master,
        Category::Gradients,
        Category::Optimizer,
        Category::Constants,
        Category::Gathered,
        Category::GatheredGradients,
        Category::Activations,
        Category::Dispatch,
        Category::Logits,
        Category::Buffers,
        Category::Workspace,
        Category::Staging,
        Category::Slack,
    ];

    /// The word for it in plans.
    pub fn word(self) -> &'static str {
        match self {
            Category::Parameters => "parameters",
            Category::Master => "master copy",
            Category::Gradients => "gradients",
            Category::Optimizer => "optimizer state",
            Category::Constants => "constants, inputs",
            Category::Gathered => "gathered units",
            Category::GatheredGradients => "gathered gradients",
            Category::Activations => "saved activations",
            Category::Dispatch => "expert dispatch",
            Category::Logits => "logits and loss",
            Category::Buffers => "communication buffers",
            Category::Workspace => "workspace",
            Category::Staging => "checkpoint staging",
            Category::Slack => "allocator slack",
        }
    }
}

/// Bytes a rank needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Persistent region, arena and, on a host, the staging of checkpoints: what is allocated before the first step, and all
    /// that ever is.
    pub peak: u64,
    /// Live bytes by category at the instruction where they are most, persistent ones included.
    pub at_peak: BTreeMap<Category, u64>,
    /// Index of that instruction.
    pub peak_instr: usize,
    /// Arena bytes that no live buffer uses at the peak.
    pub slack: u64,
    /// Bytes that a rank sets aside in the memory of its host, where that is another than the device's, to write
    /// checkpoints from while training goes on.
    pub host: u64,
}

/// Live bytes of the arena after each instruction, by category.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeline {
    pub live: Vec<BTreeMap<Category, u64>>,
}

/// Tells what the forward pass keeps from what lives only for a while: activations that are not there when the loss is
/// computed are workspace.
pub(super) fn tell_workspace(program: &mut Program) {
    let loss = program.instrs.iter().position(|op| matches!(op, Op::CrossEntropy { .. }));
    let lifetimes = lifetimes(program);
    for (index, buffer) in program.buffers.iter_mut().enumerate() {
        let life = lifetimes.get(&BufferId(index as u32));
        let kept = life.zip(loss).is_some_and(|(life, loss)| life.contains(&loss));
        if buffer.category == Category::Activations && !kept {
            buffer.category = Category::Workspace;
        }
    }
}

impl Memory {
    /// Measures a program whose buffers have been placed.
    pub fn of(program: &Program) -> Memory {
        let lifetimes = lifetimes(program);
        let mut steps: Vec<i64> = vec![0; program.instrs.len() + 1];
        for (id, life) in &lifetimes {
            steps[life.start] += resident(program, *id) as i64;
            steps[life.end] -= resident(program, *id) as i64;
        }
        let (mut live, mut most, mut peak_instr) = (0, 0, 0);
        for (i, step) in steps.iter().enumerate() {
            live += step;
            if live > most {
                (most, peak_instr) = (live, i);
            }
        }
        let mut at_peak = BTreeMap::new();
        for (index, buffer) in program.buffers.iter().enumerate() {
            let id = BufferId(index as u32);
            let alive = buffer.persistent || lifetimes.get(&id).is_some_and(|l| l.contains(&peak_instr));
            if alive {
                *at_peak.entry(buffer.category).or_insert(0) += resident(program, id);
            }
        }
        let used: u64 = at_peak.values().sum();
        let peak = program.persistent + program.arena;
        Memory { peak, peak_instr, slack: peak - used, at_peak, host: 0 }
    }

    /// Adds what a rank sets aside to write checkpoints from; `on_host`: its device computes in the host's memory.
    pub fn stage(&mut self, bytes: u64, on_host: bool) {
        if !on_host {
            self.host = bytes;
        } else if bytes > 0 {
            self.at_peak.insert(Category::Staging, bytes);
            self.peak += bytes;
        }
    }
}

/// Buffers of the same use in different layers, taken together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// The name without its layer: `received`, `experts.gate`.
    pub name: String,
    pub category: Category,
    pub buffers: u64,
    pub bytes: u64,
}

/// What is alive at the peak, the largest first.
pub fn terms(program: &Program, memory: &Memory) -> Vec<Term> {
    let lifetimes = lifetimes(program);
    let mut terms: BTreeMap<(&str, Category), Term> = BTreeMap::new();
    for (index, buffer) in program.buffers.iter().enumerate() {
        let id = BufferId(index as u32);
        let alive = lifetimes.get(&id).is_some_and(|life| life.contains(&memory.peak_instr));
        if !alive && !buffer.persistent {
            continue;
        }
        let name = kind(&buffer.name);
        let empty = || Term { name: name.to_owned(), category: buffer.category, buffers: 0, bytes: 0 };
        let term = terms.entry((name, buffer.category)).or_insert_with(empty);
        term.buffers += 1;
        term.bytes += resident(program, id);
    }
    let mut terms: Vec<Term> = terms.into_values().collect();
    terms.sort_by_key(|term| std::cmp::Reverse(term.bytes));
    terms
}

/// A buffer's name without the layer it belongs to.
fn kind(name: &str) -> &str {
    let Some(rest) = name.strip_prefix("layer").or(name.strip_prefix("mtp")) else { return name };
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    rest.strip_prefix(".back").unwrap_or(rest).trim_start_matches('.')
}

impl Memory {
    /// All bytes at the peak by category, what the arena cannot use among them: they add up to the peak.
    pub fn categories(&self) -> impl Iterator<Item = (Category, u64)> {
        let slack = (Category::Slack, self.slack);
        self.at_peak
            .iter()
            .map(|(category, bytes)| (*category, *bytes))
            .chain((self.slack > 0).then_some(slack))
    }

    /// The category with the most bytes at the peak.
    pub fn dominating(&self) -> Option<(Category, u64)> {
        let most = self.at_peak.iter().max_by_key(|(_, bytes)| **bytes);
        most.map(|(category, bytes)| (*category, *bytes))
    }
}

impl Timeline {
    /// Live bytes of the arena while each instruction runs.
    pub fn of(program: &Program) -> Timeline {
        let mut live = vec![BTreeMap::new(); program.instrs.len()];
        for (id, life) in lifetimes(program) {
            let category = program.buffer(id).category;
            for at in &mut live[life] {
                *at.entry(category).or_insert(0) += resident(program, id);
            }
        }
        Timeline { live }
    }
}

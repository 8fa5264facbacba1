//! The step as a whole: its length, what it waits for, and how much of the devices it uses.

use super::cost::Bound;
use super::schedule::{Schedule, Span};
use super::work::keys;
use crate::model::{Counts, Model};
use crate::plan::mesh::Mesh;
use crate::plan::ops::Stream;
use crate::plan::program::Program;
use crate::recipe::{Cluster, Data, Train};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;

/// What a step costs in time, estimated from the figures of the cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Time {
    /// Seconds of a step.
    pub step: f64,
    /// Tokens a second and device.
    pub tokens: f64,
    /// Model FLOPs of a step, all devices: `6 · (active parameters + heads · (head_dim + value_dim) · keys)` a token, `keys` being what
    /// a token of a causal sequence attends to on average, summed over the layers, trained ones of multi-token prediction among
    /// them. Recomputation is not counted.
    pub flops: f64,
    /// Those FLOPs of what the devices could do at their bf16 peak.
    pub mfu: f64,
    /// Seconds that collectives take, and how many of them no computation hides.
    pub communication: f64,
    pub exposed: f64,
    /// The step divided up by what it spends its time on: what bounds the computation that runs, or where none does, the
    /// collective that is waited for, and the host where nothing runs.
    pub spent: BTreeMap<Bound, f64>,
}

impl Time {
    /// Sums up the schedule of a program.
    pub fn of(
        (program, schedule): (&Program, &Schedule),
        (model, counts): (&Model, &Counts),
        (mesh, cluster): (&Mesh, &Cluster),
        (train, data): (&Train, &Data),
    ) -> Time {
        let step = schedule.step(program.accumulation);
        let tokens = (train.global_batch * data.sequence) as f64;
        let attention = |layer: &crate::model::LayerModule| {
            let a = &layer.attention.config;
            6.0 * (a.heads * (a.head_dim + a.value_dim)) as f64 * keys(data.sequence, a.window)
        };
        let layers = model.layers.iter().chain(model.trained_mtp().iter().map(|mtp| &mtp.layer));
        let attention: f64 = layers.map(attention).sum();
        let flops = (6.0 * (counts.active + model.active_mtp()) as f64 + attention) * tokens;
        let devices = mesh.devices as f64;
        let mut spent: BTreeMap<Bound, f64> = Bound::ALL.map(|bound| (bound, 0.0)).into();
        let once = |range: Range<usize>| (range, 1.0);
        let micro = (program.micro.clone(), program.accumulation as f64);
        let (mut communication, mut exposed) = (0.0, 0.0);
        for (range, times) in [once(program.begin.clone()), micro, once(program.update.clone())] {
            let phase = Phase::of(program, schedule, range);
            for (bound, seconds) in phase.spent {
                *spent.entry(bound).or_insert(0.0) += seconds * times;
            }
            communication += phase.communication * times;
            exposed += phase.exposed * times;
        }
        // Streams wait for one another alone; where both have nothing to do, the host is late.
        let late = step - spent.values().sum::<f64>();
        spent.insert(Bound::Host, if late > step * 1e-6 { late } else { 0.0 });
        Time {
            step,
            tokens: ratio(tokens, step * devices),
            flops,
            mfu: ratio(flops, step * devices * cluster.device.flops_bf16),
            communication,
            exposed,
            spent,
        }
    }

    /// What the step spends most of its time on.
    pub fn bound(&self) -> Bound {
        let most = self.spent.iter().max_by(|a, b| a.1.total_cmp(b.1));
        most.map_or(Bound::Compute, |(bound, _)| *bound)
    }
}

fn ratio(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

#[derive(Default)]
struct Phase {
    spent: BTreeMap<Bound, f64>,
    communication: f64,
    exposed: f64,
}

impl Phase {
    /// Sweeps both streams of one range of the program, which are each in order.
    fn of(program: &Program, schedule: &Schedule, range: Range<usize>) -> Phase {
        let of = |stream: Stream| -> Vec<Span> {
            let ours = range.clone().filter(|at| program.instrs[*at].stream() == stream);
            ours.map(|at| schedule.spans[at]).filter(|span| span.end > span.start).collect()
        };
        let (compute, comm) = (of(Stream::Compute), of(Stream::Comm));
        let mut phase = Phase::default();
        for span in &compute {
            phase.add(span.bound, span.end - span.start);
        }
        let mut next = 0;
        for span in &comm {
            phase.communication += span.end - span.start;
            while next < compute.len() && compute[next].end <= span.start {
                next += 1;
            }
            let mut hidden = 0.0;
            for over in compute[next..].iter().take_while(|over| over.start < span.end) {
                hidden += over.end.min(span.end) - over.start.max(span.start);
            }
            let exposed = (span.end - span.start - hidden).max(0.0);
            phase.exposed += exposed;
            phase.add(span.bound, exposed);
        }
        phase
    }

    fn add(&mut self, bound: Bound, seconds: f64) {
        *self.spent.entry(bound).or_insert(0.0) += seconds;
    }
}

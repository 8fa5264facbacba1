//! When each instruction runs: two streams, each in the order of the program, what the buffers make them wait for, and the
//! host, which starts one instruction after the other.

use super::cost::{Bound, Cost};
use crate::plan::arena::{lifetimes, resident};
use crate::plan::mesh::Mesh;
use crate::plan::ops::{Access, Op, Stream};
use crate::plan::program::{BufferId, Program};
use crate::recipe::Cluster;
use std::collections::BTreeMap;
use std::ops::Range;

/// When an instruction runs, in seconds from the start of the step, and what bounds it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    pub start: f64,
    pub end: f64,
    pub bound: Bound,
}

/// A step: every instruction once, the repeated micro batches behind the first one left out.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    pub spans: Vec<Span>,
    /// Seconds that each further micro batch adds.
    pub again: f64,
}

impl Schedule {
    /// Walks the program; `sequence` is the number of tokens that attend to one another.
    pub fn of(program: &Program, mesh: &Mesh, cluster: &Cluster, sequence: u64) -> Schedule {
        let cost = |op| Cost::of(program, mesh, cluster, op, sequence);
        let costs: Vec<Cost> = program.instrs.iter().map(cost).collect();
        let mut walk = Walk::new(program, &costs, cluster.device.launch);
        walk.run(program.begin.clone());
        walk.run(program.micro.clone());
        let again = if program.accumulation > 1 {
            // The second micro batch is as long as any later one; only its length is kept.
            let (first, mut second) = (walk.now(), walk.clone());
            second.run(program.micro.clone());
            second.now() - first
        } else {
            0.0
        };
        walk.run(program.update.clone());
        Schedule { spans: walk.spans, again }
    }

    /// Seconds of a step with `accumulation` micro batches.
    pub fn step(&self, accumulation: u64) -> f64 {
        let once = self.spans.iter().map(|span| span.end).fold(0.0, f64::max);
        once + self.again * accumulation.saturating_sub(1) as f64
    }
}

/// When a buffer was last written and when everybody is done with it.
#[derive(Clone, Copy, Default)]
struct Touched {
    written: f64,
    free: f64,
}

#[derive(Clone)]
struct Walk<'a> {
    program: &'a Program,
    costs: &'a [Cost],
    lifetimes: Vec<Range<usize>>,
    spans: Vec<Span>,
    touched: Vec<Touched>,
    /// When the streams are free: compute, communication.
    streams: [f64; 2],
    /// Seconds that the host takes to start an instruction, and when it has started the last one.
    launch: f64,
    host: f64,
    /// By start: end, and when the last buffer that lay there was done with.
    places: BTreeMap<u64, (u64, f64)>,
}

impl<'a> Walk<'a> {
    fn new(program: &'a Program, costs: &'a [Cost], launch: f64) -> Walk<'a> {
        let mut lives = vec![0..0; program.buffers.len()];
        for (id, life) in lifetimes(program) {
            lives[id.0 as usize] = life;
        }
        Walk {
            program,
            costs,
            lifetimes: lives,
            spans: vec![Span { start: 0.0, end: 0.0, bound: Bound::Compute }; program.instrs.len()],
            touched: vec![Touched::default(); program.buffers.len()],
            streams: [0.0; 2],
            launch,
            host: 0.0,
            places: BTreeMap::new(),
        }
    }

    fn now(&self) -> f64 {
        self.streams[0].max(self.streams[1])
    }

    fn run(&mut self, range: Range<usize>) {
        let mut operands: Vec<(Access, BufferId)> = Vec::new();
        for at in range {
            let (program, cost) = (self.program, self.costs[at]);
            let op = &program.instrs[at];
            operands.clear();
            op.operands(|access, view| operands.push((access, view.buffer)));
            let stream = match op.stream() {
                Stream::Compute => 0,
                Stream::Comm => 1,
            };
            // To free a buffer starts nothing on the device.
            self.host += if matches!(op, Op::Free { .. }) { 0.0 } else { self.launch };
            let mut start = self.streams[stream].max(self.host);
            for &(access, id) in &operands {
                if self.transient(id) && self.lifetimes[id.0 as usize].start == at {
                    self.touched[id.0 as usize] = Touched { written: 0.0, free: self.vacant(id) };
                }
                let touched = self.touched[id.0 as usize];
                start = start.max(if access == Access::Read { touched.written } else { touched.free });
            }
            let end = start + cost.seconds;
            self.spans[at] = Span { start, end, bound: cost.bound };
            self.streams[stream] = end;
            for &(access, id) in &operands {
                let touched = &mut self.touched[id.0 as usize];
                touched.free = touched.free.max(end);
                if access != Access::Read {
                    touched.written = end;
                }
            }
            for &(_, id) in &operands {
                if self.transient(id) && self.lifetimes[id.0 as usize].end == at + 1 {
                    self.leave(id);
                }
            }
        }
    }

    fn transient(&self, id: BufferId) -> bool {
        !self.program.buffer(id).persistent
    }

    fn place(&self, id: BufferId) -> Range<u64> {
        let offset = self.program.buffer(id).offset;
        offset..offset + resident(self.program, id)
    }

    /// When all that lay in a buffer's place before is done with.
    fn vacant(&self, id: BufferId) -> f64 {
        let place = self.place(id);
        let below = self.places.range(..place.end).rev();
        below.take_while(|(_, (end, _))| *end > place.start).fold(0.0, |latest, (_, (_, t))| latest.max(*t))
    }

    /// Leaves a buffer's place to the next one.
    fn leave(&mut self, id: BufferId) {
        let place = self.place(id);
        let overlapping = self.places.range(..place.end).rev().take_while(|(_, (end, _))| *end > place.start);
        let starts: Vec<u64> = overlapping.map(|(start, _)| *start).collect();
        for start in starts {
            let Some((end, time)) = self.places.remove(&start) else { continue };
            if start < place.start {
                self.places.insert(start, (place.start, time));
            }
            if end > place.end {
                self.places.insert(place.end, (end, time));
            }
        }
        if !place.is_empty() {
            self.places.insert(place.start, (place.end, self.touched[id.0 as usize].free));
        }
    }
}

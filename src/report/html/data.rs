//! What the page is drawn from, as compact JSON: columns instead of objects, differences instead of values.

use crate::plan::{Axis, Bound, Category, Forecast, Op, Plan, Savings, Stream, Timeline};
use crate::report::{forecast_summary, summary};
use indexmap::IndexSet;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Memory is counted in the alignment of buffers, time in tenths of a microsecond.
const MEMORY_UNIT: u64 = 64;
const TIME_UNIT: f64 = 1e-7;

pub(super) fn of(plan: &Plan, savings: Option<&Savings>) -> Value {
    let p = &plan.parallel.precision;
    json!({
        "summary": summary(plan, savings),
        "categories": Category::ALL.map(Category::word),
        "bounds": Bound::ALL.map(Bound::word),
        // Of an element that a rank holds: its gradient, the parameter itself and two moments.
        "bytes": p.reduce.size() + 3 * p.optimizer.size(),
        "units": units(plan),
        "axes": axes(plan),
        "tensors": tensors(plan),
        "program": program(plan),
        "memory": memory(plan),
    })
}

/// An estimate is drawn from its figures alone.
pub(super) fn of_forecast(forecast: &Forecast, savings: Option<&Savings>) -> Value {
    json!({
        "summary": forecast_summary(forecast, savings),
        "categories": Category::ALL.map(Category::word),
        "bounds": forecast.estimate.time.spent().map(|(bound, _)| bound.word()),
    })
}

/// Size and stride on the ranks.
fn axes(plan: &Plan) -> Value {
    let axes =
        Axis::ALL.iter().map(|axis| json!([axis.word(), plan.mesh.size(*axis), plan.mesh.stride(*axis)]));
    Value::Array(axes.collect())
}

/// Name, axis, elements and elements of a shard.
fn units(plan: &Plan) -> Value {
    let units = plan.placement.units.iter();
    let units = units.map(|unit| json!([unit.name, axis(unit.axis), unit.elements, unit.shard]));
    Value::Array(units.collect())
}

fn axis(axis: Axis) -> usize {
    Axis::ALL.iter().position(|known| *known == axis).unwrap_or(0)
}

/// Name, shape, type, unit, elements before it in the unit and elements of it in the unit.
fn tensors(plan: &Plan) -> Value {
    let units = plan.placement.units.iter().enumerate();
    let placed = units.flat_map(|(at, unit)| unit.params.iter().map(move |placed| (at, placed)));
    let trained = placed.map(|(unit, placed)| {
        let p = &plan.params[placed.param.0 as usize];
        json!([p.name, p.shape, p.dtype.word(), unit, placed.offset, placed.elements])
    });
    let frozen = plan.placement.frozen.iter().map(|id| {
        let p = &plan.params[id.0 as usize];
        json!([p.name, p.shape, p.dtype.word(), -1, 0, p.elements()])
    });
    Value::Array(trained.chain(frozen).collect())
}

/// The instructions in columns.
fn program(plan: &Plan) -> Value {
    let (program, schedule) = (&plan.program, plan.schedule());
    let mut names: IndexSet<&str> = IndexSet::new();
    let mut near: IndexSet<&str> = IndexSet::new();
    let (mut op, mut at, mut stream, mut start, mut length, mut bound) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let ticks = |seconds: f64| (seconds / TIME_UNIT).round() as i64;
    let mut before = [0, 0];
    for (instruction, span) in program.instrs.iter().zip(&schedule.spans) {
        op.push(names.insert_full(instruction.name()).0);
        at.push(near.insert_full(subject(plan, instruction)).0);
        let queue = usize::from(instruction.stream() == Stream::Comm);
        stream.push(queue);
        let (from, to) = (ticks(span.start), ticks(span.end));
        start.push(from - before[queue]);
        length.push(to - from);
        before[queue] = to;
        bound.push(Bound::ALL.iter().position(|known| *known == span.bound).unwrap_or(0));
    }
    json!({
        "unit": TIME_UNIT,
        "names": names,
        "near": near,
        "op": op,
        "at": at,
        "stream": stream,
        "gap": start,
        "length": length,
        "bound": bound,
        "again": schedule.again,
        "phases": [program.begin.end, program.micro.end],
    })
}

/// The buffer that tells where in the model an instruction belongs: what it writes, or else what it reads.
fn subject<'a>(plan: &'a Plan, op: &Op) -> &'a str {
    let (mut first, mut written) = (None, None);
    op.operands(|access, view| {
        first = first.or(Some(view.buffer));
        if access != crate::plan::Access::Read {
            written = written.or(Some(view.buffer));
        }
    });
    written.or(first).map_or("", |id| plan.program.buffer(id).name.as_str())
}

/// By category: what is always there, and the change from one instruction to the next.
fn memory(plan: &Plan) -> Value {
    let program = &plan.program;
    let mut always: BTreeMap<Category, u64> = BTreeMap::new();
    for buffer in program.buffers.iter().filter(|buffer| buffer.persistent) {
        let bytes = program.rows(buffer.rows) * buffer.cols * buffer.dtype.size();
        *always.entry(buffer.category).or_insert(0) += bytes.div_ceil(MEMORY_UNIT);
    }
    if let Some(staging) = plan.memory.at_peak.get(&Category::Staging) {
        always.insert(Category::Staging, staging.div_ceil(MEMORY_UNIT));
    }
    let live = Timeline::of(program).live;
    let mut known: Vec<Category> = live.iter().flat_map(|at| at.keys().copied()).collect();
    known.extend(always.keys());
    known.sort_unstable();
    known.dedup();
    let categories = known.into_iter().map(|category| {
        let mut before = 0;
        let changes = live.iter().map(|at| {
            let now = at.get(&category).copied().unwrap_or(0) / MEMORY_UNIT;
            let change = now as i64 - before as i64;
            before = now;
            change
        });
        let changes: Vec<i64> = changes.collect();
        json!({ "word": category.word(), "always": always.get(&category).unwrap_or(&0), "changes": changes })
    });
    json!({ "unit": MEMORY_UNIT, "categories": categories.collect::<Vec<_>>() })
}

//! An estimate as a page of text.

use super::quantity::{bytes, percent, seconds};
use super::sheet::Sheet;
use super::style::Style;
use crate::plan::Forecast;
use crate::plan::estimate::{Context, Engine, MEASURED, Moment};

/// What is estimated and why, then the figures of a plan in the same order.
pub fn forecast_page(forecast: &Forecast, style: Style) -> String {
    let mut page = Sheet::new(&forecast.recipe, forecast.profile.as_deref(), &forecast.cluster, style);
    page.line("estimated", &style.warn(&why(forecast)));
    page.line("", &style.dim(&held_against(forecast)));
    page.gap();
    page.parameters(&forecast.counts, forecast.mtp, forecast.estimate.memory.held);
    mesh(forecast, &mut page);
    let (train, job) = (&forecast.train, &forecast.job);
    page.batch([train.global_batch, forecast.sequence, job.micro_batch, job.accumulate]);
    memory(forecast, &mut page);
    time(forecast, &mut page);
    page.text
}

/// What the figures stand for: another engine, or fields that the native one does not run yet.
pub(super) fn why(forecast: &Forecast) -> String {
    if forecast.engine != Engine::Native {
        return format!("for {}", forecast.engine.title());
    }
    let asked = forecast.demands.iter().map(|demand| {
        let key = demand.field.strip_prefix("parallel.").or(demand.field.strip_prefix("train."));
        format!("`{}` = {}", key.unwrap_or(&demand.field), demand.value)
    });
    format!("the native engine does not run {} yet", asked.collect::<Vec<_>>().join(", "))
}

/// How far an estimate can be trusted.
pub(super) fn held_against(forecast: &Forecast) -> String {
    let of = if forecast.engine == Engine::Native { " of other engines" } else { "" };
    format!("held against {MEASURED} published measurements{of}: docs/accuracy.md")
}

fn mesh(forecast: &Forecast, page: &mut Sheet) {
    let l = &forecast.job.layout;
    let context = match l.context {
        Context::Ring => "cp (ring)",
        Context::Ulysses => "cp (ulysses)",
    };
    // Ranks of a sequence are among those that shard.
    let axes = [(l.fsdp, "fsdp"), (l.replicate, "replicate"), (l.tp, "tp"), (l.pp, "pp")];
    let named = |(n, word): &(u64, &str)| (*n > 1 || *word == "fsdp").then(|| format!("{n} {word}"));
    let mut dense = axes.iter().filter_map(named).collect::<Vec<_>>().join(" × ");
    if l.cp > 1 {
        dense += &format!(", sequences over {} {context}", l.cp);
    }
    page.line("mesh", &format!("dense    {dense}"));
    if l.ep > 1 {
        page.line("", &format!("experts  {} ep × {} ep_fsdp", l.ep, l.ep_fsdp));
    }
}

fn memory(forecast: &Forecast, page: &mut Sheet) {
    let m = &forecast.estimate.memory;
    let (moment, at) = m.peak();
    let categories = m.categories(at).into_iter().map(|(category, bytes)| (category, bytes as u64));
    page.memory(forecast.needed(), forecast.cluster.device.memory, categories);
    let of = match forecast.job.layout.pp {
        1 => String::new(),
        pp => format!(", stage {} of {pp}", m.stage + 1),
    };
    let (dominating, most) = m.dominating();
    let share = percent(most / m.needed());
    page.line("", &format!("most memory at {}{of}: {share} are {}", moment.word(), dominating.word()));
    let moments = Moment::ALL.iter().zip(&m.moments).filter(|(other, _)| **other != moment);
    let others = moments.map(|(other, at)| format!("{} {}", other.word(), bytes(at.total() as u64)));
    page.line("", &format!("allocated at {}", others.collect::<Vec<_>>().join(", ")));
    if let Some(remedy) = &forecast.remedy {
        let fits = remedy.peak <= forecast.cluster.device.memory;
        let factor = remedy.step / remedy.before;
        let what = format!("{} needs {}, {factor:.2} times the step", remedy.change, bytes(remedy.peak));
        let text = if fits { what } else { format!("no one change is enough: {what}") };
        page.line("to fit", &page.style.warn(&text));
    }
}

fn time(forecast: &Forecast, page: &mut Sheet) {
    let t = &forecast.estimate.time;
    let spent = t.spent().into_iter().filter(|(_, seconds)| *seconds > 0.0);
    page.time([t.step, t.throughput(), t.mfu()], spent.map(|(bound, seconds)| (bound.word(), seconds)));
    page.waits(t.bound().word(), t.communication, t.exposed);
    if forecast.job.layout.pp > 1 {
        let share = percent(t.bubble / t.step);
        let text = format!("stages wait {} for each other (1F1B), {share} of the step", seconds(t.bubble));
        page.line("", &text);
    }
}

//! The outcome of a search for a layout: as a table, and as JSON.

use super::quantity::{bytes, count};
use super::style::Style;
use crate::plan::estimate::Engine;
use crate::plan::search::{FIELDS, Found, Ranked, reason};
use crate::recipe::Recipe;
use serde_json::{Value, json};
use std::fmt::Write;

const HEADS: [&str; 8] =
    ["", "step", "tokens/s/device", "peak", "free", "layout", "bound by", "against the recipe's own"];

/// Columns of figures stand to the right.
const RIGHT: [bool; 8] = [true, true, true, true, true, false, false, false];

/// What was searched, the best layouts in order, and the recipe's own among or below them.
pub fn tune_page(recipe: &Recipe, found: &Found, style: Style) -> String {
    let mut page = format!("{}: {}\n\n", style.bold(&recipe.name), searched(recipe, found));
    let keys: Vec<&str> = FIELDS.iter().map(|field| field.key).collect();
    let mut rows = vec![HEADS.map(str::to_owned)];
    rows[0][5] = keys.join(" · ");
    rows.extend(shown(found).map(|layout| row(layout, found)));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..HEADS.len()).map(width).collect();
    for (index, row) in rows.iter().enumerate() {
        let mut line = String::new();
        for ((cell, &width), right) in row.iter().zip(&widths).zip(RIGHT) {
            let _ = if right { write!(line, "{cell:>width$}  ") } else { write!(line, "{cell:<width$}  ") };
        }
        let line = line.trim_end();
        let own = index > 0 && shown(found).nth(index - 1).is_some_and(|layout| layout.own);
        let line = if index == 0 || own { style.bold(line) } else { line.to_owned() };
        let _ = writeln!(page, "{line}");
    }
    page.push_str(&format!("\n{}\n", style.dim(&foot(found))));
    page
}

/// The best layouts, and the recipe's own where it is none of them.
fn shown(found: &Found) -> impl Iterator<Item = &Ranked> {
    let listed = found.best.iter().any(|layout| layout.own);
    found.best.iter().chain((!listed).then_some(&found.own))
}

fn searched(recipe: &Recipe, found: &Found) -> String {
    let devices = count(recipe.cluster.devices() as f64);
    let [all, legal, fit] =
        [found.combinations, found.legal as u64, found.fitting as u64].map(|n| count(n as f64));
    format!(
        "{all} combinations on {devices} {}, {legal} legal, {fit} fit into {} ({:.0}% of {} kept free)",
        recipe.cluster.device.name,
        bytes(found.budget),
        found.options.headroom * 100.0,
        bytes(found.memory),
    )
}

fn foot(found: &Found) -> String {
    let mut text = match found.exhaustive {
        true => "every legal layout was measured; time is an estimate".to_owned(),
        false => format!(
            "not exhaustive: stopped after {} layouts were compiled; time is an estimate",
            found.confirmed
        ),
    };
    text.push_str(match found.options.engine {
        Engine::Native => ", peak that of the compiled program",
        _ => ", and so is the peak of an engine of its own",
    });
    if found.refused > 0 {
        let _ = write!(text, "; {} broke a rule of the recipe", found.refused);
    }
    text
}

fn row(layout: &Ranked, found: &Found) -> [String; 8] {
    let values: Vec<String> = FIELDS.iter().map(|field| (field.value)(&layout.candidate)).collect();
    let mark = if layout.own { "▸ " } else { "" };
    let rank = layout.rank.map_or("–".to_owned(), |rank| rank.to_string());
    let why = match layout.rank {
        None if layout.held.peak <= found.budget => "the engine does not run it".to_owned(),
        None => format!("does not fit: {} of {}", layout.held.dominating.0, bytes(layout.held.dominating.1)),
        Some(_) => reason(layout, &found.own),
    };
    let free = 1.0 - layout.held.peak as f64 / found.memory as f64;
    [
        format!("{mark}{rank}"),
        seconds(layout.time.step),
        count(layout.time.throughput().round()),
        bytes(layout.held.peak),
        format!("{:.0}%", free * 100.0),
        values.join(" · "),
        layout.time.bound().word().to_owned(),
        why,
    ]
}

fn seconds(seconds: f64) -> String {
    if seconds < 1.0 { format!("{:.1} ms", seconds * 1e3) } else { format!("{seconds:.2} s") }
}

/// The same as one JSON object; sizes in bytes, times in seconds.
pub fn tune_json(recipe: &Recipe, profile: Option<&str>, found: &Found) -> Value {
    let layouts: Vec<Value> = shown(found).map(|layout| layout_json(layout, found)).collect();
    json!({
        "recipe": recipe.name,
        "profile": profile,
        "devices": recipe.cluster.devices(),
        "engine": found.options.engine.word(),
        "memory": found.memory,
        "headroom": found.options.headroom,
        "budget": found.budget,
        "combinations": found.combinations,
        "legal": found.legal,
        "fitting": found.fitting,
        "confirmed": found.confirmed,
        "refused": found.refused,
        "exhaustive": found.exhaustive,
        "layouts": layouts,
    })
}

fn layout_json(layout: &Ranked, found: &Found) -> Value {
    let fields = FIELDS.iter().map(|field| {
        let value = (field.value)(&layout.candidate);
        let value = value.parse::<u64>().map_or(Value::from(value), Value::from);
        (format!("{}.{}", field.block, field.key), value)
    });
    let fields: serde_json::Map<String, Value> = fields.collect();
    json!({
        "rank": layout.rank,
        "own": layout.own,
        "fields": fields,
        "step_seconds": layout.time.step,
        "tokens_per_second": layout.time.throughput(),
        "mfu": layout.time.mfu(),
        "exposed_seconds": layout.time.exposed,
        "peak": layout.held.peak,
        "peak_is_exact": found.options.engine == Engine::Native,
        "bound": layout.time.bound().word(),
        "reason": reason(layout, &found.own),
    })
}

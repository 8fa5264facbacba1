//! What expert parallelism and meta initialisation save on a rank, each beside doing without.

use super::quantity::{bytes, percent};
use super::sheet::Sheet;
use super::style::Style;
use crate::plan::Savings;
use serde_json::{Value, json};

/// One thing that saves memory.
struct Row {
    by: String,
    from: u64,
    to: u64,
    of: &'static str,
}

fn rows(savings: &Savings) -> Vec<Row> {
    let meta = |from, to, of| Row { by: "init = meta".to_owned(), from, to, of };
    let ep = savings.without_ep.map(|without| Row {
        by: format!("ep = {}", savings.ep),
        from: without.peak,
        to: savings.peak,
        of: "peak of a device",
    });
    let built = [
        meta(savings.whole_f32, savings.read, "host of a rank, built in f32 first"),
        meta(savings.whole, savings.read, "host of a rank, built in the type of the weights"),
        meta(savings.whole, savings.shard, "device, built there and sharded afterwards"),
    ];
    ep.into_iter().chain(built).collect()
}

/// As a section of a page of text.
pub fn savings_section(savings: &Savings, style: Style) -> String {
    let mut page = Sheet { text: "\n".into(), style };
    for (index, Row { by, from, to, of }) in rows(savings).into_iter().enumerate() {
        let change = format!("{:+.0}%", (to as f64 / from as f64 - 1.0) * 100.0);
        let text = format!("{by:<16} {:>9} → {:<9} {change:>5}   {of}", bytes(from), bytes(to));
        page.line(if index == 0 { "saved by" } else { "" }, &text);
    }
    let (peak, memory) = (savings.peak, savings.memory);
    if peak <= memory {
        let left = memory - peak;
        let part = percent(left as f64 / memory as f64);
        page.line("", &format!("headroom left    {:>9} {part:>17}   of {}", bytes(left), bytes(memory)));
    }
    page.text
}

/// The same as JSON, in bytes.
pub(super) fn savings_json(savings: &Savings) -> Value {
    let rows = rows(savings);
    let rows = rows.iter().map(|row| json!({ "by": row.by, "from": row.from, "to": row.to, "of": row.of }));
    Value::Array(rows.collect())
}

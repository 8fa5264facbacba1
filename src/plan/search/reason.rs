//! Why a layout is faster or slower than another.

use super::rank::Ranked;
use crate::plan::estimate::Time;

/// Times closer than this share are the same: the estimate is not that good.
const SAME: f64 = 0.001;

/// What a step is made of, in the words of the table.
fn parts(time: &Time) -> [(&'static str, f64); 6] {
    [
        ("matrix products", time.matmul),
        ("memory-bound kernels", time.memory),
        ("waiting for the host", time.launch + time.host_link),
        ("waiting for links", time.exposed),
        ("pipeline bubble", time.bubble),
        ("optimizer", time.optimizer),
    ]
}

/// The part of the step that makes most of the difference between `layout` and `own`, in a few words; the memory, where
/// there is none.
pub fn reason(layout: &Ranked, own: &Ranked) -> String {
    if layout.candidate == own.candidate {
        return "as the recipe has it".to_owned();
    }
    let net = layout.time.step - own.time.step;
    if net.abs() <= own.time.step * SAME {
        return memory(layout, own);
    }
    let differences = parts(&layout.time).into_iter().zip(parts(&own.time));
    let differences = differences.map(|((what, new), (_, old))| (what, (new - old) * net.signum()));
    let Some((what, by)) = differences.max_by(|a, b| a.1.total_cmp(&b.1)) else { return String::new() };
    let (share, sign) = (by / own.time.step * 100.0, if net < 0.0 { "less" } else { "more" });
    let fits = if own.rank.is_none() { "fits; " } else { "" };
    format!("{fits}{share:.1}% {sign} {what}")
}

fn memory(layout: &Ranked, own: &Ranked) -> String {
    let (new, old) = (layout.held.peak as f64, own.held.peak as f64);
    let share = (new - old) / old * 100.0;
    match share {
        share if share.abs() < 0.5 => "as fast, as large".to_owned(),
        share if share < 0.0 => format!("as fast, {:.0}% less memory", -share),
        share => format!("as fast, {share:.0}% more memory"),
    }
}

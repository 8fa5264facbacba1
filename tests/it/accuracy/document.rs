//! `docs/accuracy.md`: what the estimates are worth, row by row.

use super::rows::{Fields, Metric, Outcome};
use super::{Checked, Errors, GIB, Half};
use std::fmt::Write;

const INTRODUCTION: &str = "\
# Accuracy of the estimates

Peak memory and step time that `stepc` estimates for other engines, against published measurements. This file is written
by a test (`STEPC_UPDATE_DOCS=1 cargo test accuracy`) from `tests/measurements`, and a test fails when it is stale.

## How to read it

- **Split.** A row belongs to the half that the hash of its id gives (FNV-1a of the id, its halves combined by XOR, lowest
  bit; an id with an `r` at its end is the reserved peak of the same run and stays with it). Coefficients were chosen on the fit
  half alone (`tests/measurements/fit.sh`); they stand in `src/plan/estimate/coefficients.rs`. Two of them are about memory:
  unused parts of cached blocks, and how little the blocks of logits and of a layer's backward pass serve each other.
- **What the split does not protect.** The rules themselves (what an engine keeps, gathers and reduces) were written by people
  who had seen all rows. After the first look at the test half these were corrected from the engines' sources or the text of
  the rows: the precision of one engine's loss (E rows), layers recomputed a stage instead of a chunk, gradients held twice while
  they are reduced late, a single device having no communication stream, idle blocks left out of the verdict on memory, the
  pipeline's wait summed over unequal stages, experts worked on one by one. B01 was moved to the rows apart after that look
  (its state at rest is already 15 % off); with it 44 of 49 rows of the test half would be within 12 %. After these
  corrections coefficients of time were fitted again, on the fit half.
- **Memory** is what the source reports: `allocated` or `reserved` of the caching allocator, for the fullest device. Megatron
  rows report the peak of the first step, whose forward and backward pass know no moments yet; the estimate is for the same.
- **Time** on Ascend is within the unknowns of the rows: which bin of the 910B ran is not published. Its reached shares (55 % of matrix
  peak, 40 % of memory bandwidth, 50 µs of host time a kernel) were fitted on the fit half.
- **Out of memory** is predicted when what is allocated at the peak, unused parts of blocks and the buffers of communicators
  exceed what a process can allocate. Idle cached blocks do not count: the allocator gives them back before it fails.
";

/// The whole document.
pub fn render(rows: &[Checked], apart: &[Fields]) -> String {
    let mut out = INTRODUCTION.to_owned();
    summary(&mut out, rows);
    out += "\n## Peak memory\n\nGiB. `+` is too much, `-` too little.\n\n";
    out +=
        "| row | half | engine | model | devices | metric | predicted | measured | error | dominated by |\n";
    out += "| --- | --- | --- | --- | --: | --- | --: | --: | --: | --- |\n";
    for r in rows {
        let (Some((metric, gib)), Some(error)) = (r.row.memory, r.memory_error()) else { continue };
        let metric = match metric {
            Metric::Allocated if r.row.first_step => "allocated, first step",
            Metric::Allocated => "allocated",
            Metric::Reserved => "reserved",
        };
        line(
            &mut out,
            r,
            &format!("{metric} | {:.2} | {gib:.2} | {} | {}", r.memory / GIB, percent(error), r.dominating()),
        );
    }
    out += "\n## Out of memory\n\nGiB needed at the peak, and what a process can allocate.\n\n";
    out += "| row | half | engine | model | devices | predicted | limit | verdict |\n| --- | --- | --- | --- | --: | --: | --: | --- |\n";
    for r in rows.iter().filter(|r| r.row.outcome == Outcome::Oom) {
        let (needed, limit) = (r.estimate.memory.needed() / GIB, r.row.machine.memory / GIB);
        let verdict = if needed > limit { "out of memory, as published" } else { "missed" };
        line(&mut out, r, &format!("{needed:.1} | {limit:.1} | {verdict}"));
    }
    out += "\n## Step time\n\nSeconds.\n\n";
    out += "| row | half | engine | model | devices | device | predicted | measured | error | bound by |\n";
    out += "| --- | --- | --- | --- | --: | --- | --: | --: | --: | --- |\n";
    for r in rows {
        let (Some(step), Some(error)) = (r.row.step, r.time_error()) else { continue };
        let time = &r.estimate.time;
        line(
            &mut out,
            r,
            &format!(
                "{} | {:.3} | {step} | {} | {:?}",
                r.row.device,
                time.step,
                percent(error),
                time.bound()
            ),
        );
    }
    sources(&mut out, rows);
    out += "\n## Rows apart\n\nNot compared, with the reason.\n\n| row | model | reason | source |\n| --- | --- | --- | --- |\n";
    for f in apart {
        let _ = writeln!(out, "| {} | {} | {} | {} |", f["id"], f["model"], f["reason"], f["source"]);
    }
    out
}

fn line(out: &mut String, r: &Checked, rest: &str) {
    let half = match r.half {
        Half::Fit => "fit",
        Half::Test => "test",
    };
    let (row, devices) = (&r.row, r.row.job.layout.devices());
    let _ =
        writeln!(out, "| {} | {half} | {:?} | {} | {devices} | {rest} |", row.id, row.job.engine, row.model);
}

fn summary(out: &mut String, rows: &[Checked]) {
    *out += "\n## Summary\n\n| | half | rows | median error | within 12 % | within 20 % |\n| --- | --- | --: | --: | --: | --: |\n";
    type Error = fn(&Checked) -> Option<f64>;
    let kinds: [(&str, Error); 3] = [
        ("peak memory", Checked::memory_error),
        ("step time, Ascend", |r| r.time_error().filter(|_| r.row.ascend)),
        ("step time, GPU", |r| r.time_error().filter(|_| !r.row.ascend)),
    ];
    for (name, error) in kinds {
        for (half, text) in [(Half::Fit, "fit"), (Half::Test, "test")] {
            let e = Errors::of(rows, half, error);
            let share = |bound| 100.0 * e.within(bound);
            let (n, median) = (e.0.len(), 100.0 * e.median());
            let _ = writeln!(
                out,
                "| {name} | {text} | {n} | {median:.1} % | {:.0} % | {:.0} % |",
                share(0.12),
                share(0.20)
            );
        }
    }
}

fn sources(out: &mut String, rows: &[Checked]) {
    *out += "\n## Sources\n\nWhat was read into a configuration beside what its source says stands under assumed.\n\n";
    *out += "| row | layout | assumed | source |\n| --- | --- | --- | --- |\n";
    for Checked { row, .. } in rows {
        let (j, l) = (&row.job, &row.job.layout);
        let axes = [
            ("replicate", l.replicate),
            ("fsdp", l.fsdp),
            ("ep", l.ep),
            ("ep_fsdp", l.ep_fsdp),
            ("tp", l.tp),
            ("cp", l.cp),
            ("pp", l.pp),
            ("micro-batch", j.micro_batch),
            ("accumulate", j.accumulate),
        ];
        let axes = axes.iter().filter(|(_, n)| *n > 1).map(|(name, n)| format!("{name} {n}"));
        let axes: Vec<String> =
            axes.chain([format!("{} tokens, recompute {:?}", j.sequence, j.recompute)]).collect();
        let _ = writeln!(out, "| {} | {} | {} | {} |", row.id, axes.join(", "), row.note, row.source);
    }
}

impl Checked {
    fn dominating(&self) -> &'static str {
        self.estimate.memory.dominating().0.word()
    }
}

fn percent(error: f64) -> String {
    format!("{:+.1} %", 100.0 * error)
}

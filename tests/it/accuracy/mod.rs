//! The estimates against published measurements.
//!
//! Coefficients are fitted on one half of the rows and judged on the other. `docs/accuracy.md` shows every row;
//! `STEPC_UPDATE_DOCS=1 cargo test accuracy` writes it.

mod document;
mod rows;

use rows::{Metric, Outcome, Row};
use stepc::plan::estimate::{Estimate, Machine, Memory, Shape, Time};

/// A row with what is predicted for it.
struct Checked {
    row: Row,
    half: Half,
    estimate: Estimate,
    /// Predicted bytes of what was measured.
    memory: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Half {
    Fit,
    Test,
}

impl Half {
    /// The half of a row: the lowest bit of the FNV-1a hash of its id, folded to 32 bits.
    ///
    /// Ids that end in `r` are the reserved peak of the row without it, and belong to the same half.
    fn of(id: &str) -> Half {
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        let hash = id.trim_end_matches('r').bytes().fold(0xcbf2_9ce4_8422_2325, step);
        if (hash ^ (hash >> 32)) & 1 == 0 { Half::Fit } else { Half::Test }
    }
}

const GIB: f64 = (1u64 << 30) as f64;

fn check(row: Row) -> Checked {
    let estimate = Estimate::of(&row.shape, &row.job, &row.machine);
    let memory = match row.memory {
        Some((Metric::Allocated, _)) if row.first_step => estimate.memory.allocated_in_first_step(),
        Some((Metric::Allocated, _)) => estimate.memory.allocated(),
        _ => estimate.memory.reserved(),
    };
    Checked { half: Half::of(&row.id), estimate, memory, row }
}

impl Checked {
    /// Relative error of the peak, with its sign.
    fn memory_error(&self) -> Option<f64> {
        self.row.memory.map(|(_, gib)| self.memory / GIB / gib - 1.0)
    }

    /// Relative error of the time of a step; not where communication was faked.
    fn time_error(&self) -> Option<f64> {
        self.row.step.filter(|_| !self.row.no_communication).map(|step| self.estimate.time.step / step - 1.0)
    }
}

/// Errors without their sign, the smallest first.
struct Errors(Vec<f64>);

impl Errors {
    fn of(rows: &[Checked], half: Half, error: impl Fn(&Checked) -> Option<f64>) -> Errors {
        let mut errors: Vec<f64> =
            rows.iter().filter(|r| r.half == half).filter_map(error).map(f64::abs).collect();
        errors.sort_by(f64::total_cmp);
        Errors(errors)
    }

    fn median(&self) -> f64 {
        let n = self.0.len();
        (self.0[(n - 1) / 2] + self.0[n / 2]) / 2.0
    }

    /// The share of rows whose error is at most `bound`.
    fn within(&self, bound: f64) -> f64 {
        self.0.iter().filter(|&&e| e <= bound).count() as f64 / self.0.len() as f64
    }

    /// What is minimised: the mean, with each error cut so that one odd row does not decide.
    fn score(&self, cut: f64) -> f64 {
        self.0.iter().map(|e| e.min(cut)).sum::<f64>() / self.0.len() as f64
    }
}

fn checked() -> Vec<Checked> {
    rows::rows().into_iter().map(check).collect()
}

#[test]
fn peak_memory_of_the_test_half() {
    let errors = Errors::of(&checked(), Half::Test, Checked::memory_error);
    assert!(errors.0.len() >= 45, "{} rows", errors.0.len());
    assert!(errors.median() <= 0.05, "median error {:.3}", errors.median());
    assert!(errors.within(0.12) >= 0.9, "{:.3} of the rows within 12 %", errors.within(0.12));
}

#[test]
fn what_ran_fits_and_what_did_not_does_not() {
    let rows = checked();
    assert!(rows.iter().filter(|r| r.row.outcome == Outcome::Oom).count() >= 10);
    for r in &rows {
        let (fits, needed) = (r.estimate.memory.fits(&r.row.machine, 0.0), r.estimate.memory.needed() / GIB);
        let room = r.row.machine.memory / GIB;
        assert_eq!(fits, r.row.outcome == Outcome::Ran, "{}: {needed:.1} of {room:.1} GiB", r.row.id);
    }
}

#[test]
fn step_time_of_ascend_rows_in_the_test_half() {
    let errors = Errors::of(&checked(), Half::Test, |r| r.time_error().filter(|_| r.row.ascend));
    assert!(errors.0.len() >= 20, "{} rows", errors.0.len());
    assert!(errors.median() <= 0.20, "median error {:.3}", errors.median());
}

/// What `tests/measurements/fit.sh` reads: how well the fit half is met. The test half takes no part.
#[test]
fn fit() {
    let rows = checked();
    let memory = Errors::of(&rows, Half::Fit, Checked::memory_error);
    let npu = Errors::of(&rows, Half::Fit, |r| r.time_error().filter(|_| r.row.ascend));
    let gpu = Errors::of(&rows, Half::Fit, |r| r.time_error().filter(|_| !r.row.ascend));
    for (name, errors, cut) in [("memory", memory, 0.2), ("time npu", npu, 1.0), ("time gpu", gpu, 1.0)] {
        println!("{name}: score {:.4} median {:.4}", errors.score(cut), errors.median());
        assert!(errors.median() < 0.15, "{name}");
    }
}

/// What a plan says of the estimate it shows.
#[test]
fn the_number_of_measurements_is_the_one_that_is_told() {
    assert_eq!(rows::rows().len(), stepc::plan::estimate::MEASURED);
}

#[test]
fn the_document_is_current() {
    let text = document::render(&checked(), &rows::table("apart.csv"));
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/accuracy.md");
    if std::env::var_os("STEPC_UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &text).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(stored == text, "docs/accuracy.md is stale: STEPC_UPDATE_DOCS=1 cargo test accuracy writes it");
}

#[test]
fn the_shape_of_a_recipe_has_its_parameters() {
    let recipe = crate::support::resolve("recipes/step35_flash.step", None, &[]).recipe;
    let model = stepc::model::Model::build(&recipe.model, stepc::base::DType::Bf16);
    let (shape, counted) = (Shape::of(&model), model.counts().total as f64);
    // Norms of queries and keys and the routers' biases are not in a shape.
    assert!((shape.params() / counted - 1.0).abs() < 1e-4, "{} of {counted}", shape.params());
    assert_eq!(shape.layers(), recipe.model.layers);
    assert!(Machine::of(&recipe.cluster).flops > 1e14);
}

#[test]
fn an_estimate_does_not_depend_on_the_number_of_devices() {
    let row = rows::rows().into_iter().find(|r| r.id == "D27a").unwrap();
    let mut job = row.job;
    let few = Memory::of(&row.shape, &job);
    job.layout.replicate = 1 << 20;
    let many = Memory::of(&row.shape, &job);
    assert_eq!(few.moments, many.moments, "copies change nothing on a device");
    assert!(Time::of(&row.shape, &job, &row.machine).communication > 0.0);
}

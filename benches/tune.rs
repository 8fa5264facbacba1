//! The search for a layout: `cargo bench --bench tune`; `-- --test` runs each once.
//!
//! `flagship` is everything that `stepc tune` does behind reading its arguments: all layouts over 192 devices measured, the
//! best ones resolved from the recipe's text and compiled.

use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use std::path::Path;
use stepc::base::SourceMap;
use stepc::base::host::OsHost;
use stepc::diag::Sink;
use stepc::model::Model;
use stepc::plan::estimate::{Engine, Question};
use stepc::plan::search::{Candidate, Options, Skeletons, search};
use stepc::recipe::{Recipe, Request, load};

fn recipe(set: Vec<String>) -> Option<Recipe> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("recipes/step35_flash.step");
    let request = Request { path, recipe: None, profile: None, set };
    let (mut sources, mut sink) = (SourceMap::default(), Sink::default());
    let loaded = load(&OsHost, &request, &mut sources, &mut sink)?;
    loaded.resolve(None, &mut sink).map(|resolved| resolved.recipe)
}

fn flagship(c: &mut Criterion) {
    let mut group = c.benchmark_group("tune");
    group.sample_size(10);
    let own = recipe(Vec::new()).expect("the shipped recipe is valid");
    for (name, engine) in [("native", Engine::Native), ("mindspeed", Engine::MindspeedFsdp2)] {
        let options = Options { engine, headroom: 0.1, top: 20 };
        group.bench_function(format!("step35_flash on 192 devices, {name}"), |b| {
            b.iter(|| search(&own, options, &mut |c| recipe(c.overrides()), &mut |_, _| {}))
        });
    }
}

fn one_layout(c: &mut Criterion) {
    let mut group = c.benchmark_group("one layout");
    let recipe = recipe(Vec::new()).expect("the shipped recipe is valid");
    let model = Model::build(&recipe.model, recipe.parallel.precision.params);
    let candidate = Candidate::of(&recipe);
    let mut skeletons = Skeletons::new(&recipe, &model);
    skeletons.live(&candidate);
    group.bench_function("memory", |b| b.iter(|| skeletons.live(black_box(&candidate))));
    let question = Question::new(&recipe, &model, Engine::Native);
    group.bench_function("time", |b| b.iter(|| black_box(&candidate).time(&question)));
}

criterion_group!(benches, flagship, one_layout);
criterion_main!(benches);

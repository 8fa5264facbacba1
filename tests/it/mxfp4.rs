//! Experts of 4-bit floats (`tests/golden/make_mxfp4.py`): read as transformers dequantises them, each rank its own bytes, and
//! written back as bf16.

use crate::support::{Fixed, difference, sequence};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use stepc::base::host::{MemoryHost, OsHost};
use stepc::base::{DType, Line, SourceMap};
use stepc::diag::Sink;
use stepc::plan::{Plan, Task, compile};
use stepc::recipe::{Request, load};
use stepc::runtime::{self, forward};
use stepc::weights::{Encoding, Folder};

const EXPERTS: [&str; 4] = [
    "model.layers.0.mlp.experts.down_proj",
    "model.layers.0.mlp.experts.gate_up_proj",
    "model.layers.1.mlp.experts.down_proj",
    "model.layers.1.mlp.experts.gate_up_proj",
];

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/mxfp4")
}

fn open(path: PathBuf) -> Folder {
    Folder::open(&path).unwrap_or_else(|problem| panic!("{problem:?}"))
}

fn values(folder: &Folder, name: &str) -> Vec<f32> {
    let elements = folder.tensor(name).unwrap().shape.iter().product::<u64>();
    let mut values = vec![0.0; elements as usize];
    folder.read_elements(name, 0..elements, &mut values).unwrap();
    values
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

fn plan(ranks: u64, ep: u64, task: Task) -> Arc<Plan> {
    let imported =
        stepc::import::hf(&OsHost, &golden(), "tiny").unwrap_or_else(|problems| panic!("{problems:#?}"));
    let text = format!(
        "{}\nrecipe golden {{
           model tiny {{}}
           cluster cpu {{ devices = {ranks} }}
           parallel {{ prefetch = 0, fsdp = {ranks}, ep = {ep}, ep_fsdp = {}, precision {{ params = f32 }} }}
           data {{ source none {{ path = \"none.txt\" }}, tokenizer = \"none.json\", sequence = 16 }}
           train {{ steps = 1, global_batch = {ranks}, micro_batch = 1, optimizer adamw {{ lr = 1e-3 }} }}
         }}",
        imported.item,
        ranks / ep
    );
    let host = MemoryHost::new().with("golden.step", text.as_str());
    let request = Request { path: "golden.step".into(), ..Request::default() };
    let (mut sources, mut sink) = (SourceMap::default(), Sink::default());
    let resolved = load(&host, &request, &mut sources, &mut sink).and_then(|l| l.resolve(None, &mut sink));
    let resolved = resolved.unwrap_or_else(|| panic!("{:#?}\n{text}", sink.finish()));
    Arc::new(compile(&resolved.recipe, None, task))
}

#[test]
fn elements_are_those_of_transformers() {
    let (packed, wide) = (open(golden()), open(golden().join("wide.safetensors")));
    for name in EXPERTS {
        let (own, wanted) = (packed.tensor(name).unwrap(), wide.tensor(name).unwrap());
        assert_eq!((own.encoding, &own.shape), (Encoding::Mxfp4, &wanted.shape), "{name}");
        assert_eq!(packed.dtype(name), Some(DType::Bf16));
        assert_eq!(bits(&values(&packed, name)), bits(&values(&wide, name)), "{name}");
    }
    assert_eq!(bits(&values(&wide, "every")), bits(&values(&wide, "every_wide")));
}

#[test]
fn parts_are_parts_of_the_whole() {
    let (packed, wide) = (open(golden()), open(golden().join("wide.safetensors")));
    let name = EXPERTS[1];
    let [a, b] = [&packed, &wide].map(|folder| {
        |lines: &[Line]| {
            let mut out = vec![0.0; 4000];
            let bytes = folder.reader(name).unwrap().read(lines, 5, &mut out).unwrap();
            (bits(&out), bytes)
        }
    });
    let line = |count, at, step, first, stride| Line { count, at, step, first, stride };
    let lines: [Vec<Line>; 6] = [
        vec![line(700, 33, 1, 5, 1)],
        vec![line(100, 4090, 1, 8, 7)],
        vec![line(30, 1, 64, 5, 1)],
        vec![line(9, 63, 129, 5, 3)],
        (0..64).map(|k| line(20, 8192 + k * 64 + 3, 2, 5 + k, 64)).collect(),
        (0..47).map(|k| line(20, 4096 + (k + 17) * 64, 2, 5 + k, 60)).collect(),
    ];
    for lines in &lines {
        assert_eq!(a(lines).0, b(lines).0, "{:?}", lines[0]);
    }
    // Twenty rows of 64 elements are as many times 32 bytes and two scales.
    assert_eq!(a(&lines[4]).1, 20 * 34);
}

#[test]
fn a_model_of_four_bits_computes_what_transformers_does() {
    let (packed, wide) = (open(golden()), open(golden().join("wide.safetensors")));
    let tokens: Vec<u32> = values(&wide, "tokens").iter().map(|x| *x as u32).collect();
    let wanted = values(&wide, "logits");
    for (ranks, ep) in [(1, 1), (2, 2), (4, 2), (4, 1)] {
        let feed = Fixed(vec![sequence(tokens.clone()); ranks as usize]);
        for logits in forward(plan(ranks, ep, Task::Forward), &feed, Some(&packed)).unwrap() {
            let (error, _) = difference(&logits, &wanted);
            assert!(error < 1e-4, "{ranks} ranks, ep {ep}: logits are off by {error}");
        }
        let loaded = runtime::load(plan(ranks, ep, Task::Forward), &packed).unwrap();
        let bytes: u64 = loaded.iter().map(|loaded| loaded.bytes).sum();
        assert!(
            bytes.abs_diff(packed.bytes()) < 256,
            "{ranks} ranks, ep {ep}: {bytes} of {}",
            packed.bytes()
        );
    }
}

#[test]
fn blocks_without_their_scales_are_told() {
    let desk = tempfile::tempdir().unwrap();
    let path = desk.path().join("model.safetensors");
    let mut bytes = fs::read(golden().join("model.safetensors")).unwrap();
    let name = format!("{}_scales", EXPERTS[0]);
    let at = bytes.windows(name.len()).position(|part| part == name.as_bytes()).unwrap();
    bytes[at + name.len() - 1] = b'z';
    fs::write(&path, bytes).unwrap();
    let problem = runtime::load(plan(1, 1, Task::Forward), &open(path)).unwrap_err();
    assert_eq!(problem.code, "step::weights::missing");
    assert!(problem.help.as_deref().unwrap_or_default().contains("MXFP4"), "{problem:?}");
}

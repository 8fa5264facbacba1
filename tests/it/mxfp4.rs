//! Experts of 4-bit floats (`tests/golden/make_mxfp4.py`): read as transformers dequantises them, each rank its own bytes, and
//! written back as bf16.

use crate::support::{Fixed, difference, sequence};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use stepc::base::host::{MemoryHost, OsHost};
use stepc::base::{DType, Line, SourceMap};
use stepc::checkpoint::{Elements, Export, Target};
use stepc::diag::{Diagnostic, Sink};
use stepc::model::{ParamId, Parameter};
use stepc::plan::{Plan, Task, compile};
use stepc::recipe::{Request, load};
use stepc::runtime::{self, forward};
use stepc::weights::{Encoding, Folder, Needs};

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
    let lines: [Vec<Line>; 7] = [
        vec![line(700, 33, 1, 5, 1)],
        vec![line(100, 4090, 1, 8, 7)],
        vec![line(30, 1, 64, 5, 1)],
        vec![line(9, 63, 129, 5, 3)],
        (0..64).map(|k| line(20, 8192 + k * 64 + 3, 2, 5 + k, 64)).collect(),
        (0..64).map(|k| line(20, 8192 + k * 64 + 3, 1, 5 + k, 64)).collect(),
        (0..47).map(|k| line(20, 4096 + (k + 17) * 64, 2, 5 + k, 60)).collect(),
    ];
    for lines in &lines {
        assert_eq!(a(lines).0, b(lines).0, "{:?}", lines[0]);
    }
    // A row of 64 elements is 32 bytes and two scales; rows between two that are read together are read.
    assert_eq!(a(&lines[4]).1, 39 * 34);
    assert_eq!(a(&lines[5]).1, 20 * 34);
}

#[test]
fn a_model_of_four_bits_computes_what_transformers_does() {
    let (packed, wide) = (open(golden()), open(golden().join("wide.safetensors")));
    let tokens: Vec<u32> = values(&wide, "tokens").iter().map(|x| *x as u32).collect();
    let wanted = values(&wide, "logits");
    // Gate and up projection lie in turns and are read for each other.
    let elements = |name: &str| packed.tensor(name).unwrap().shape.iter().product::<u64>();
    let bytes = |name: &&str| elements(name) * 17 / 32 + elements(&format!("{name}_bias")) * 2;
    let interleaved: u64 = [EXPERTS[1], EXPERTS[3]].iter().map(bytes).sum();
    for (ranks, ep) in [(1, 1), (2, 2), (4, 2), (4, 1)] {
        let feed = Fixed(vec![sequence(tokens.clone()); ranks as usize]);
        for logits in forward(plan(ranks, ep, Task::Forward), &feed, Some(&packed)).unwrap() {
            let (error, _) = difference(&logits, &wanted);
            assert!(error < 1e-4, "{ranks} ranks, ep {ep}: logits are off by {error}");
        }
        let loaded = runtime::load(plan(ranks, ep, Task::Forward), &packed).unwrap();
        let bytes: u64 = loaded.iter().map(|loaded| loaded.bytes).sum();
        let most = packed.bytes() + interleaved + ranks * 256;
        assert!((packed.bytes()..most).contains(&bytes), "{ranks} ranks, ep {ep}: {bytes} of {most}");
    }
}

/// Parameters as they are in a folder.
struct Loaded<'a>(&'a Plan, &'a Folder);

impl Elements for Loaded<'_> {
    fn holds(&self, _: ParamId) -> bool {
        true
    }

    fn elements(&self, param: ParamId, elements: Range<u64>, out: &mut [f32]) -> Result<(), Diagnostic> {
        let Loaded(plan, folder) = self;
        let parameter = &plan.params[param.0 as usize];
        parameter.lines(elements.clone()).try_for_each(|(tensor, line)| {
            folder.reader(&parameter.tensor_name(tensor))?.read(&[line], elements.start, out).map(|_| ())
        })
    }
}

#[test]
fn exported_tensors_are_bf16_under_their_own_names() {
    let (packed, wide) = (open(golden()), open(golden().join("wide.safetensors")));
    let plan = plan(1, 1, Task::Train);
    let desk = tempfile::tempdir().unwrap();
    let target = desk.path().join("exported");
    let export = Export {
        params: &plan.params,
        copies: &plan.aside.copies,
        elements: &Loaded(&plan, &packed),
        source: Some(&golden()),
        tokenizer: None,
        dtype: None,
        shard: 5_000_000_000,
    };
    let exported = stepc::checkpoint::export(&export, Target::New(&target)).unwrap();
    assert_eq!((exported.widened, exported.kept), (EXPERTS.len(), 0));
    let written = open(target.clone());
    assert_eq!(written.names().collect::<Vec<_>>(), packed.names().collect::<Vec<_>>());
    for name in EXPERTS {
        assert_eq!(written.tensor(name).unwrap().encoding, Encoding::Known(DType::Bf16));
        assert_eq!(bits(&values(&written, name)), bits(&values(&wide, name)), "{name}");
    }
    let config = fs::read_to_string(target.join("config.json")).unwrap();
    assert!(!config.contains("quantization_config"));
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
    let plan = plan(1, 1, Task::Forward);
    let tensors = plan.params.iter().flat_map(Parameter::tensors);
    let needs = Needs { tensors: tensors.map(|t| (t.name, t.shape, false)).collect(), ..Needs::default() };
    open(golden()).audit(&needs).unwrap();
    let problem = open(path).audit(&needs).unwrap_err();
    assert_eq!(problem.code, "step::weights::missing");
    assert!(problem.help.as_deref().unwrap_or_default().contains("MXFP4"), "{problem:?}");
}

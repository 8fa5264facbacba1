//! The same model stored in every layout and element type: the same parameters are loaded and the same update comes out, for
//! any number of ranks and any expert parallelism.

use crate::reshard::stored;
use crate::support::{Fixed, Tensors, Trained, plan, sequence, train};
use half::{bf16, f16};
use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use stepc::checkpoint::{Elements, Export, Target, export};
use stepc::diag::Diagnostic;
use stepc::model::ParamId;
use stepc::plan::{Plan, Task};
use stepc::weights::{Folder, float8};

const QWEN: &str = "tests/golden/qwen3_moe.step";
const STEP35: &str = "tests/golden/step35.step";
/// All values are multiples of it that 8-bit floats have.
const UNIT: f32 = 1.0 / 1024.0;

/// Experts that share a tensor, by the word for their rows.
fn joined(layout: &str, rows: &str) -> Vec<String> {
    let expert = if layout == "per_expert" { "{e}." } else { "" };
    let name = format!("\"mlp.experts.{expert}gate_up_proj\"");
    vec![
        format!("model.names.moe.layout={layout}"),
        format!("model.names.moe.gate={name}"),
        format!("model.names.moe.up={name}"),
        format!("model.names.moe.down=\"mlp.experts.{expert}down_proj\""),
        format!("model.names.moe.gate_up={rows}"),
    ]
}

fn apart(layout: &str) -> Vec<String> {
    let name = |part: &str| format!("model.names.moe.{part}=\"mlp.experts.{part}_proj\"");
    [vec![format!("model.names.moe.layout={layout}")], ["gate", "up", "down"].map(name).to_vec()].concat()
}

fn qkv() -> Vec<String> {
    ["q", "k", "v"].map(|part| format!("model.names.attention.{part}=\"self_attn.qkv_proj.weight\"")).to_vec()
}

fn compile(recipe: &str, set: &[String]) -> Arc<Plan> {
    let common = ["train.steps=1", "train.global_batch=4", "train.micro_batch=1"].map(str::to_owned);
    let set = [&common, set].concat();
    plan(recipe, None, &set.iter().map(String::as_str).collect::<Vec<_>>(), Task::Train)
}

/// The values of every parameter, out of tensors in the layout of its plan.
fn parameters(plan: &Plan, tensors: &Tensors) -> Vec<Vec<f32>> {
    let of = |p: &stepc::model::Parameter| {
        let mut values = vec![f32::NAN; p.elements() as usize];
        for (tensor, line) in p.lines(0..p.elements()) {
            let Some((_, from)) = tensors.get(&p.tensor_name(tensor)) else { continue };
            line.pairs().for_each(|(at, first)| values[first] = from[at]);
        }
        values
    };
    plan.params.iter().map(of).collect()
}

/// The tensors that hold parameters, in the layout of a plan: every element of every tensor once.
fn tensors(plan: &Plan, values: &[Vec<f32>]) -> Tensors {
    let mut tensors = Tensors::new();
    for (p, values) in plan.params.iter().zip(values) {
        for tensor in p.tensors() {
            let elements = tensor.shape.iter().product::<u64>() as usize;
            tensors.entry(tensor.name).or_insert_with(|| (tensor.shape, vec![f32::NAN; elements]));
        }
        for (tensor, line) in p.lines(0..p.elements()) {
            let (_, out) = tensors.get_mut(&p.tensor_name(tensor)).unwrap();
            for (at, first) in line.pairs() {
                assert!(out[at].is_nan(), "{} is written twice", p.name);
                out[at] = values[first];
            }
        }
    }
    let gap = tensors.iter().find(|(_, (_, values))| values.iter().any(|x| x.is_nan()));
    assert!(gap.is_none(), "{gap:?} is not written");
    tensors
}

/// Tensors as a safetensors file; vectors have no blocks and stay f32 where matrices are 8-bit floats.
fn save(path: &Path, tensors: &Tensors, encoding: &str) {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    let mut add = |name: &str, shape: &[u64], encoding: &str, bytes: &[u8]| {
        let begin = data.len();
        data.extend_from_slice(bytes);
        let entry =
            serde_json::json!({ "dtype": encoding, "shape": shape, "data_offsets": [begin, data.len()] });
        header.insert(name.to_owned(), entry);
    };
    for (name, (shape, values)) in tensors {
        match (encoding, float8::scale_shape(shape)) {
            ("BF16", _) => {
                let halves: Vec<u8> = values.iter().flat_map(|x| bf16::from_f32(*x).to_le_bytes()).collect();
                add(name, shape, encoding, &halves);
            }
            ("F16", _) => {
                let halves: Vec<u8> = values.iter().flat_map(|x| f16::from_f32(*x).to_le_bytes()).collect();
                add(name, shape, encoding, &halves);
            }
            ("F8_E4M3", Some(blocks)) => {
                let bytes: Vec<u8> = values.iter().map(|x| float8::encode(x / UNIT)).collect();
                let scales: Vec<u8> = vec![UNIT; blocks.iter().product::<u64>() as usize]
                    .into_iter()
                    .flat_map(f32::to_le_bytes)
                    .collect();
                add(name, shape, encoding, &bytes);
                add(&float8::scale_name(name), &blocks, "F32", &scales);
            }
            _ => {
                let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
                add(name, shape, "F32", &bytes);
            }
        }
    }
    let text = serde_json::to_vec(&header).unwrap();
    fs::write(path, [&(text.len() as u64).to_le_bytes()[..], &text, &data].concat()).unwrap();
}

/// The golden model with values that every element type has, by parameter.
fn model(recipe: &str, folder: &str) -> Vec<Vec<f32>> {
    let plan = compile(recipe, &[]);
    let read = Folder::open(Path::new(folder)).unwrap();
    let all = plan.params.iter().flat_map(|p| p.tensors()).map(|tensor| {
        let elements = tensor.shape.iter().product();
        let mut values = vec![0.0; elements as usize];
        read.read_elements(&tensor.name, 0..elements, &mut values).unwrap();
        let exact = |x: &f32| float8::decode(float8::encode((x / UNIT).clamp(-448.0, 448.0))) * UNIT;
        (tensor.name, (tensor.shape, values.iter().map(exact).collect()))
    });
    parameters(&plan, &all.collect())
}

fn mesh(devices: u64, ep: u64) -> Vec<String> {
    let ep_fsdp = devices / ep;
    [
        ("cluster.devices", devices),
        ("parallel.fsdp", devices),
        ("parallel.ep", ep),
        ("parallel.ep_fsdp", ep_fsdp),
    ]
    .map(|(key, value)| format!("{key}={value}"))
    .to_vec()
}

const MESHES: [(u64, u64); 6] = [(1, 1), (2, 1), (2, 2), (4, 1), (4, 2), (4, 4)];

/// One step from a file, and the parameters behind it.
fn step(recipe: &str, set: &[String], (devices, ep): (u64, u64), file: &Path) -> (Trained, Vec<Vec<f32>>) {
    let plan = compile(recipe, &[set, &mesh(devices, ep)].concat());
    let folder = Folder::open(file).unwrap();
    let text = (0..4).map(|i| sequence((0..48).map(|t| (t * 37 + i * 101) % 512).collect())).collect();
    let trained = train(&plan, &Fixed(text), Some(&folder), devices as usize);
    let parameters = parameters(&plan, &trained.parameters);
    (trained, parameters)
}

/// Every layout and element type gives the very same update as the golden file's layout in f32 on the same mesh, and all
/// meshes agree to rounding.
fn same_update(recipe: &str, folder: &str, layouts: &[Vec<String>]) {
    let values = model(recipe, folder);
    let scratch = tempfile::tempdir().unwrap();
    let file = |set: &[String], encoding: &str| {
        let path = scratch.path().join("model.safetensors");
        save(&path, &tensors(&compile(recipe, set), &values), encoding);
        path
    };
    let mut references = BTreeMap::new();
    for mesh in MESHES {
        let (trained, parameters) = step(recipe, &[], mesh, &file(&[], "F32"));
        let first: &(f64, f64) = references.entry(MESHES[0]).or_insert_with(|| losses(&trained));
        let (loss, norm) = losses(&trained);
        assert!(
            (loss / first.0 - 1.0).abs() < 1e-5 && (norm / first.1 - 1.0).abs() < 1e-5,
            "{mesh:?}: {loss} {norm}"
        );
        for (at, set) in layouts.iter().enumerate() {
            let encoding =
                ["BF16", "F8_E4M3", "F16", "F32"][(at + mesh.0 as usize / 2 + mesh.1 as usize) % 4];
            let (other, moved) = step(recipe, set, mesh, &file(set, encoding));
            assert_eq!(losses(&other), (loss, norm), "{mesh:?} {encoding} {set:?}");
            for ((p, a), b) in compile(recipe, set).params.iter().zip(&parameters).zip(&moved) {
                let equal = a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(equal, "{mesh:?} {encoding} {set:?}: {}", p.label());
            }
        }
    }
}

fn losses(trained: &Trained) -> (f64, f64) {
    (trained.reports[0].loss, trained.reports[0].grad_norm)
}

#[test]
fn experts_in_every_layout() {
    let layouts = [
        vec![],
        apart("stacked"),
        apart("transposed"),
        joined("per_expert", "gate_first"),
        joined("stacked", "up_first"),
        [joined("stacked", "interleaved"), qkv()].concat(),
        joined("transposed", "gate_first"),
        [joined("transposed", "interleaved"), qkv()].concat(),
    ];
    same_update(QWEN, "tests/golden/qwen3_moe", &layouts);
}

#[test]
fn dense_layers_and_a_shared_expert() {
    let share = |part: &str| format!("model.names.moe.shared_{part}=\"share_expert.gate_up_proj.weight\"");
    let dense = |part: &str| format!("model.names.mlp.{part}=\"mlp.gate_up_proj.weight\"");
    let both = [["gate", "up"].map(share), ["gate", "up"].map(dense)].concat();
    let layouts = [
        [both.clone(), vec!["model.names.mlp.gate_up=interleaved".to_owned()]].concat(),
        [both, qkv()].concat(),
    ];
    same_update(STEP35, "tests/golden/step35", &layouts);
}

#[test]
fn a_rank_reads_its_own_bytes() {
    let values = model(QWEN, "tests/golden/qwen3_moe");
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("model.safetensors");
    for (set, times) in [
        (apart("stacked"), 1.0),
        (joined("transposed", "gate_first"), 1.0),
        (joined("transposed", "interleaved"), 1.7),
    ] {
        save(&path, &tensors(&compile(QWEN, &set), &values), "BF16");
        let folder = Folder::open(&path).unwrap();
        for (devices, ep) in MESHES {
            let plan = compile(QWEN, &[&set[..], &mesh(devices, ep)].concat());
            let loaded = stepc::runtime::load(plan, &folder).unwrap();
            let bytes: Vec<u64> = loaded.iter().map(|loaded| loaded.bytes).collect();
            // Each byte of the file is read by one rank; rows that take turns in a column are read for both projections.
            let (sum, all) = (bytes.iter().sum::<u64>() as f64, folder.bytes() as f64);
            assert!(sum >= all && sum <= all * times, "{set:?}: {bytes:?} of {all}");
            let even = sum / devices as f64;
            let off = bytes.iter().map(|n| (*n as f64 / even - 1.0).abs()).fold(0.0, f64::max);
            assert!(off < 0.05 || times > 1.0, "{set:?}: {bytes:?}");
        }
    }
}

#[test]
fn a_bias_that_is_no_number_ends_the_loading() {
    let mut values = model(STEP35, "tests/golden/step35");
    let plan = compile(STEP35, &mesh(2, 2));
    let at = plan.params.iter().position(|p| p.name.ends_with("router_bias")).unwrap();
    values[at][5] = f32::INFINITY;
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("model.safetensors");
    save(&path, &tensors(&plan, &values), "BF16");
    let problem = stepc::runtime::load(Arc::clone(&plan), &Folder::open(&path).unwrap()).unwrap_err();
    assert_eq!(problem.code, "step::weights::nan");
    assert_eq!(problem.message, format!("element 5 of `{}` is inf in the checkpoint", plan.params[at].name));
}

/// Parameters by their number.
struct Whole<'a>(&'a [Vec<f32>]);

impl Elements for Whole<'_> {
    fn holds(&self, _: ParamId) -> bool {
        true
    }

    fn elements(&self, param: ParamId, elements: Range<u64>, out: &mut [f32]) -> Result<(), Diagnostic> {
        out.copy_from_slice(&self.0[param.0 as usize][elements.start as usize..elements.end as usize]);
        Ok(())
    }
}

/// What is exported lies as in the folder that training began from, byte by byte; where that holds 8-bit floats, tensors are
/// bf16, have no scales, and `config.json` no longer tells of a quantization.
#[test]
fn exported_in_every_layout() {
    let values = model(QWEN, "tests/golden/qwen3_moe");
    for set in [
        vec![],
        apart("stacked"),
        apart("transposed"),
        joined("per_expert", "gate_first"),
        [joined("stacked", "interleaved"), qkv()].concat(),
        joined("transposed", "up_first"),
        vec!["model.tie_embeddings=true".to_owned()],
    ] {
        let plan = compile(QWEN, &set);
        let copies = &plan.aside.copies;
        let values = if !copies.is_empty() { &values[..plan.params.len()] } else { &values[..] };
        let mut all = tensors(&plan, values);
        for copied in copies {
            all.insert(copied.name.clone(), all[&copied.of].clone());
        }
        let desk = tempfile::tempdir().unwrap();
        let folder = |name: &str| {
            let path = desk.path().join(name);
            fs::create_dir(&path).unwrap();
            let config = r#"{"dtype":"bfloat16","quantization_config":{"quant_method":"fp8"}}"#;
            fs::write(path.join("config.json"), config).unwrap();
            path
        };
        let (plain, small) = (folder("plain"), folder("small"));
        save(&plain.join("model.safetensors"), &all, "BF16");
        save(&small.join("model.safetensors"), &all, "F8_E4M3");
        for source in [&plain, &small] {
            let target = source.with_extension("exported");
            let written = export(
                &Export {
                    params: &plan.params,
                    copies,
                    elements: &Whole(values),
                    source: Some(source),
                    tokenizer: None,
                    dtype: None,
                    shard: 100_000,
                },
                Target::New(&target),
            );
            assert_eq!(written.unwrap().widened > 0, source == &small);
            let (before, mut after) = (stored(&plain), stored(&target));
            if source == &small {
                // Vectors are f32 beside 8-bit floats.
                after.retain(|_, (_, shape, _)| shape.contains(','));
            }
            assert!(after.iter().all(|(name, tensor)| before[name] == *tensor), "{set:?}");
            assert_eq!(after.len() == before.len(), source == &plain, "{set:?}");
            let config = fs::read_to_string(target.join("config.json")).unwrap();
            assert_eq!(config.contains("quantization_config"), source == &plain);
            assert!(config.contains("bfloat16"));
        }
    }
}

//! Loads a checkpoint with several ranks, from the page cache; prints one JSON line that `peers/load.sh` compares.
//!
//! `cargo bench --bench weights -- [--gib N] [--ranks N] [--dtype f32|bf16|f16] [--folder PATH] [--times N]`. The checkpoint,
//! of Llama in shards of 1 GiB, is made in the folder if it is not there; `--test` makes a small one and loads it once. Ranks
//! that end first give their memory back: the peak beyond the shards is that of `--ranks 1`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use std::{array, env, fs};
use stepc::base::host::OsHost;
use stepc::base::{DType, SourceMap};
use stepc::diag::Sink;
use stepc::model::CheckpointTensor;
use stepc::plan::{Plan, Task, compile};
use stepc::recipe::{Request, load};
use stepc::runtime;
use stepc::weights::{Folder, Output, write};

const SHARD: u64 = 1 << 30;

struct Arguments {
    gib: f64,
    ranks: u64,
    dtype: DType,
    folder: PathBuf,
    times: u64,
    smoke: bool,
}

impl Arguments {
    fn parse() -> Arguments {
        let given: Vec<String> = env::args().collect();
        let value = |name: &str| given.iter().position(|a| a == name).and_then(|at| given.get(at + 1));
        let number = |name: &str, or: f64| value(name).and_then(|v| v.parse().ok()).unwrap_or(or);
        let smoke = given.iter().any(|a| a == "--test");
        let gib = number("--gib", if smoke { 0.0 } else { 4.0 });
        let dtype = match value("--dtype").map(String::as_str) {
            Some("f32") => DType::F32,
            Some("f16") => DType::F16,
            _ => DType::Bf16,
        };
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("weights-{gib}-{dtype}"));
        Arguments {
            gib,
            ranks: number("--ranks", 4.0) as u64,
            dtype,
            folder: value("--folder").map_or(target, PathBuf::from),
            times: number("--times", if smoke { 1.0 } else { 5.0 }) as u64,
            smoke,
        }
    }

    fn plan(&self) -> Arc<Plan> {
        if self.smoke {
            return plan(&[
                "model.hidden=64",
                "model.vocab=1000",
                &format!("cluster.devices={}", self.ranks),
            ]);
        }
        let elements = |layers: u64| {
            let plan = plan(&[&format!("model.layers={layers}")]);
            plan.params.iter().map(|p| p.elements()).sum::<u64>()
        };
        let (one, two) = (elements(1), elements(2));
        let layer = ((two - one) * self.dtype.size()) as f64;
        let layers = 1.0 + (self.gib * (1u64 << 30) as f64 - (one * self.dtype.size()) as f64) / layer;
        let layers = layers.round().max(1.0);
        plan(&[&format!("model.layers={layers}"), &format!("cluster.devices={}", self.ranks)])
    }
}

fn plan(set: &[&str]) -> Arc<Plan> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/weights.step");
    let set = set.iter().map(|set| set.to_string()).collect();
    let request = Request { path, recipe: None, profile: None, set };
    let (mut sources, mut sink) = (SourceMap::default(), Sink::default());
    let loaded = load(&OsHost, &request, &mut sources, &mut sink);
    let resolved = loaded.and_then(|loaded| loaded.resolve(None, &mut sink));
    let resolved = resolved.unwrap_or_else(|| panic!("{:#?}", sink.finish()));
    Arc::new(compile(&resolved.recipe, None, Task::Forward))
}

/// Writes shards, their index and what transformers wants to know of the model.
fn generate(plan: &Plan, arguments: &Arguments) -> std::io::Result<()> {
    fs::create_dir_all(&arguments.folder)?;
    let mut shards: Vec<Vec<Output>> = vec![Vec::new()];
    let mut bytes = 0;
    for CheckpointTensor { name, shape, .. } in plan.params.iter().flat_map(|p| p.tensors()) {
        let output = Output { name, dtype: arguments.dtype, shape };
        let size = output.elements() * output.dtype.size();
        if bytes + size > SHARD {
            shards.push(Vec::new());
            bytes = 0;
        }
        bytes += size;
        shards.last_mut().unwrap().push(output);
    }
    let noise: [f32; 8192] = array::from_fn(|i| ((i * 7919 % 8191) as f32 - 4095.0) * 1e-5);
    let mut map = serde_json::Map::new();
    for (at, shard) in shards.iter().enumerate() {
        let file = format!("model-{:05}-of-{:05}.safetensors", at + 1, shards.len());
        map.extend(shard.iter().map(|tensor| (tensor.name.clone(), file.clone().into())));
        let written = write(&arguments.folder.join(file), shard, |tensor, writer| {
            let mut left = tensor.elements() as usize;
            while left > 0 {
                let part = left.min(noise.len());
                writer.write(&noise[..part])?;
                left -= part;
            }
            Ok(())
        });
        written.unwrap_or_else(|problem| panic!("{problem:?}"));
    }
    let config = serde_json::json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama",
        "hidden_size": 2048, "intermediate_size": 5632, "vocab_size": 32000, "rms_norm_eps": 1e-5,
        "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 128, "hidden_act": "silu",
        "num_hidden_layers": plan.params.iter().filter(|p| p.name.ends_with("q_proj.weight")).count(),
        "tie_word_embeddings": false,
    });
    fs::write(arguments.folder.join("config.json"), config.to_string())?;
    let index = serde_json::json!({ "metadata": {}, "weight_map": map });
    // Last: with it the checkpoint is complete.
    fs::write(arguments.folder.join("model.safetensors.index.json"), index.to_string())
}

/// A figure of this process in KiB.
fn status(name: &str) -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(f64::NAN)
}

fn main() -> std::io::Result<()> {
    let arguments = Arguments::parse();
    let plan = arguments.plan();
    if !arguments.folder.join("model.safetensors.index.json").is_file() {
        generate(&plan, &arguments)?;
    }
    let folder = Folder::open(&arguments.folder).unwrap_or_else(|problem| panic!("{problem:?}"));
    let shards = plan.placement.shard_elements() * DType::F32.size() * arguments.ranks;
    let (mut best, mut resident, mut loaded) = (f64::INFINITY, 0.0f64, Vec::new());
    for _ in 0..arguments.times {
        // The high-water mark of memory starts anew.
        let _ = fs::File::create("/proc/self/clear_refs").and_then(|mut file| file.write_all(b"5"));
        let before = status("VmRSS:");
        let started = Instant::now();
        loaded = runtime::load(Arc::clone(&plan), &folder).unwrap_or_else(|problem| panic!("{problem:?}"));
        best = best.min(started.elapsed().as_secs_f64());
        resident = resident.max((status("VmHWM:") - before) / 1024.0);
    }
    let line = serde_json::json!({
        "engine": "stepc",
        "folder": arguments.folder,
        "bytes": folder.bytes(),
        "ranks": arguments.ranks,
        "seconds": best,
        "gb_per_second": folder.bytes() as f64 / best / 1e9,
        "bytes_of_ranks": loaded.iter().map(|loaded| loaded.bytes).collect::<Vec<_>>(),
        "shards_mib": shards as f64 / (1 << 20) as f64,
        "resident_mib": resident,
    });
    println!("{line}");
    Ok(())
}

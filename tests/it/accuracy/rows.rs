//! The measurements of `tests/measurements`: published figures and the configurations they belong to.

use std::collections::BTreeMap;
use std::path::Path;
use stepc::plan::estimate::*;

/// One measurement with the job it was made with.
pub struct Row {
    pub id: String,
    pub model: String,
    pub device: String,
    pub machine: Machine,
    pub ascend: bool,
    pub shape: Shape,
    pub job: Job,
    pub outcome: Outcome,
    /// The first step, before the optimizer has made its moments, was measured.
    pub first_step: bool,
    /// The process group was faked: time has no communication in it.
    pub no_communication: bool,
    pub memory: Option<(Metric, f64)>,
    pub step: Option<f64>,
    pub note: String,
    pub source: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    Allocated,
    Reserved,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Ran,
    Oom,
}

/// The fields of one line by the names in the header.
pub type Fields = BTreeMap<String, String>;

/// Reads a file of `tests/measurements`: comma-separated, quotes around fields with commas.
pub fn table(name: &str) -> Vec<Fields> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/measurements").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut lines = text.lines().filter(|line| !line.starts_with('#')).map(split);
    let header = lines.next().unwrap();
    let fields = |line: Vec<String>| {
        assert_eq!(header.len(), line.len(), "{name}: {line:?}");
        header.iter().cloned().zip(line).collect()
    };
    lines.map(fields).collect()
}

fn split(line: &str) -> Vec<String> {
    let (mut fields, mut quoted) = (vec![String::new()], false);
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            c => fields.last_mut().unwrap().push(c),
        }
    }
    fields
}

/// All measurements.
pub fn rows() -> Vec<Row> {
    let models: BTreeMap<String, Shape> =
        table("models.csv").iter().map(|f| (f["name"].clone(), shape(f))).collect();
    let devices = devices();
    table("rows.csv").iter().map(|f| row(f, &models, &devices)).collect()
}

/// Machines by name, and whether they are NPUs.
pub type Devices = BTreeMap<String, (Machine, bool)>;

pub fn devices() -> Devices {
    table("devices.csv").iter().map(|f| (f["name"].clone(), machine(f))).collect()
}

fn machine(f: &Fields) -> (Machine, bool) {
    let n = |key: &str| f[key].parse::<f64>().unwrap_or_else(|_| panic!("{}: {key}", f["name"]));
    let machine = Machine {
        memory: n("memory_gib") * (1u64 << 30) as f64,
        flops: n("flops"),
        bandwidth: n("bandwidth"),
        devices_per_node: n("devices_per_node") as u64,
        intra: Link { bandwidth: n("intra"), latency: 10e-6 },
        inter: Link { bandwidth: n("inter"), latency: 20e-6 },
        reached: Reached { compute: n("compute"), memory: n("memory"), link: n("link"), launch: n("launch") },
    };
    (machine, f["ascend"] == "1")
}

fn row(f: &Fields, models: &BTreeMap<String, Shape>, devices: &Devices) -> Row {
    let flags: Vec<&str> = f["flags"].split_whitespace().collect();
    let number = |key: &str| f[key].parse::<f64>().ok();
    let metric = match f["metric"].as_str() {
        "allocated" => Metric::Allocated,
        _ => Metric::Reserved,
    };
    let job = job(f, &flags);
    assert_eq!(job.layout.devices(), count(f, "devices"), "{}", f["id"]);
    Row {
        id: f["id"].clone(),
        model: f["model"].clone(),
        device: f["device"].clone(),
        machine: devices[&f["device"]].0,
        ascend: devices[&f["device"]].1,
        shape: models.get(&f["model"]).unwrap_or_else(|| panic!("no model {}", f["model"])).clone(),
        job,
        outcome: if f["outcome"] == "oom" { Outcome::Oom } else { Outcome::Ran },
        first_step: flags.contains(&"first-step"),
        no_communication: flags.contains(&"no-communication"),
        memory: number("peak_gib").map(|gib| (metric, gib)),
        step: number("step_s"),
        note: f["note"].clone(),
        source: f["source"].clone(),
    }
}

fn count(f: &Fields, key: &str) -> u64 {
    f[key].parse().unwrap_or_else(|_| panic!("{}: {key} = {:?}", f["id"], f[key]))
}

fn job(f: &Fields, flags: &[&str]) -> Job {
    let has = |flag: &str| flags.contains(&flag);
    let n = |key| count(f, key);
    let engine = match f["engine"].as_str() {
        "megatron" => Engine::Megatron,
        "mindspeed" => Engine::MindspeedFsdp2,
        "torchtitan" => Engine::TorchtitanFsdp2,
        other => panic!("engine {other}"),
    };
    let number = |text: &str| text.split(' ').nth(1).unwrap().parse().unwrap();
    let recompute = match f["recompute"].as_str() {
        "none" => Recompute::None,
        "full" => Recompute::Full,
        "full+projection" => Recompute::FullButProjection,
        "selective" => Recompute::Selective,
        "activations" => Recompute::Activations,
        "norms" => Recompute::Norms,
        text => Recompute::Layers(number(text)),
    };
    let loss = match f["loss"].as_str() {
        "plain" => Loss::Plain,
        text => Loss::Chunks(number(text)),
    };
    let optimizer = match f["optimizer"].as_str() {
        "fused" => Optimizer::Fused,
        "foreach" => Optimizer::Foreach,
        _ => Optimizer::PerTensor,
    };
    let mut precision = if engine == Engine::Megatron { Precision::MASTER } else { Precision::MIXED };
    if has("fp16") {
        precision.reduce = 2.0;
        precision.master = 8.0;
    }
    if has("reuse-fp32") {
        precision.master = 2.0;
    }
    if has("stored-bf16") {
        precision = Precision { stored: 2.0, moment: 2.0, ..precision };
    }
    precision.eight_bit = has("float8");
    Job {
        engine,
        layout: Layout {
            replicate: n("replicate"),
            fsdp: n("fsdp"),
            ep: n("ep"),
            ep_fsdp: n("ep_fsdp"),
            tp: n("tp"),
            cp: n("cp"),
            pp: n("pp"),
            context: if has("ulysses") { Context::Ulysses } else { Context::Ring },
            chunks: n("chunks"),
            last_layers: flags
                .iter()
                .find_map(|f| f.strip_prefix("last-layers="))
                .map(|n| n.parse().unwrap()),
            sequence_parallel: has("seq-parallel"),
            loss_parallel: has("loss-parallel"),
            whole_experts: false,
        },
        micro_batch: n("micro_batch"),
        accumulate: n("accumulate"),
        sequence: n("sequence"),
        recompute,
        loss,
        optimizer,
        precision,
        offload: Offload {
            optimizer: has("offload-optimizer") || has("swap-optimizer"),
            params: false,
            activations: has("offload-activations"),
        },
        cross_entropy: match () {
            () if has("loss-bf16") => CrossEntropy::Half,
            () if has("compile-loss") => CrossEntropy::Fused,
            () => CrossEntropy::Eager,
        },
        compile: has("compile"),
        reshard: !has("no-reshard"),
        reduce_last: has("reduce-last"),
        prefetch: 1,
        imbalance: 1.0,
    }
}

/// A model of `models.csv`: `32x gqa HEADS KV_HEADS HEAD_DIM mlp INNER`, runs of layers with semicolons between.
fn shape(f: &Fields) -> Shape {
    let number = |key: &str| f[key].parse::<f64>().unwrap();
    Shape {
        hidden: number("hidden"),
        vocab: number("vocab"),
        tied: f["tied"] == "1",
        runs: f["layers"].split("; ").map(run).collect(),
        mtp: f["mtp"].split("; ").filter(|text| !text.is_empty()).map(|text| run(text).layer).collect(),
        mtp_heads: 0,
    }
}

fn run(text: &str) -> Run {
    let words: Vec<&str> = text.split_whitespace().collect();
    let numbers = |from: usize, to: usize| -> Vec<u64> {
        words[from..to].iter().map(|w| w.parse().unwrap_or_else(|_| panic!("{text}"))).collect()
    };
    let (attention, at) = match words[1] {
        kind @ ("gqa" | "alibi") => {
            let n = numbers(2, 5);
            let grouped = AttentionShape::grouped(n[0], n[1], n[2]);
            (AttentionShape { alibi: kind == "alibi", ..grouped }, 5)
        }
        _ => {
            let n = numbers(2, 8);
            (AttentionShape::latent(n[0], [n[1], n[2]], [n[3], n[4], n[5]]), 8)
        }
    };
    let n: Vec<f64> = numbers(at + 1, words.len()).iter().map(|&n| n as f64).collect();
    let ffn = match words[at] {
        "mlp" => FfnShape::Dense { inner: n[0] },
        _ => FfnShape::Moe { experts: n[0], top_k: n[1], inner: n[2], shared: n[3] },
    };
    let count = words[0].trim_end_matches('x').parse().unwrap();
    Run { layer: LayerShape { attention, ffn }, count }
}

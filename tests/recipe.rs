//! The recipe layer from files to values: the shipped recipes, the rules of merging, and what bad recipes are told.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::path::Path;
use stepc::base::host::{MemoryHost, OsHost};
use stepc::base::{DType, Host, SourceMap};
use stepc::diag::render::{self, Style, render};
use stepc::diag::{Severity, Sink};
use stepc::recipe::{
    DeviceKind, Ffn, Gate, Layout, Loaded, MtpHead, Optimizer, QkNorm, Request, Resolved, Scaling, Schedule,
    Score, Via, Weights, load,
};

/// A small recipe that resolves without a word, to be broken in one place at a time.
const SMALL: &str = r#"
model tiny {
  vocab  = 512
  hidden = 64
  layers = 4
  norm rms { eps = 1e-6 }
  attention full { heads = 4, kv_heads = 2, head_dim = 16, rope { theta = 1e4 } }
  attention sliding: full { heads = 6, window = 16 }
  mlp dense { inner = 128 }
  moe sparse { experts = 8, top_k = 2, inner = 32, router { score = sigmoid } }
  layer i {
    attention = if i % 2 == 0 { full } else { sliding }
    ffn       = if i < 1 { dense } else { sparse }
    if i == layers - 1 { sparse { clamp = 7.0 } }
  }
}

recipe small {
  model tiny { }
  cluster cpu { devices = 4 }
  parallel { ep = 2 }
  data {
    source text { path = "data/*.txt" }
    tokenizer = "data/tokenizer.json"
    sequence  = 64
  }
  train {
    steps = 10
    global_batch = 8
    optimizer adamw { lr = 1e-3 }
    schedule cosine { warmup = 2, min_lr = 1e-4 }
  }
  checkpoint { dir = "out" }
  profile short for cpu {
    train { steps = 5 }
  }
}
"#;

/// A request resolved, and everything that was said about it.
struct Outcome {
    resolved: Option<Resolved>,
    said: String,
    quiet: bool,
}

fn load_from(host: &dyn Host, request: &Request) -> (Option<Loaded>, SourceMap, Sink) {
    let (mut sources, mut sink) = (SourceMap::default(), Sink::default());
    let loaded = load(host, request, &mut sources, &mut sink);
    (loaded, sources, sink)
}

fn resolve(host: &dyn Host, request: &Request) -> Outcome {
    let (loaded, sources, mut sink) = load_from(host, request);
    let profile = request.profile.as_deref();
    let resolved = loaded.and_then(|loaded| loaded.resolve(profile, &mut sink));
    let found = sink.finish();
    let style = Style { color: false, width: 100, unicode: true };
    let errors = found.iter().any(|d| d.severity == Severity::Error);
    assert_eq!(resolved.is_none(), errors, "an error and a recipe, or neither: {found:?}");
    Outcome {
        resolved,
        quiet: found.is_empty(),
        said: render(&found, &sources, render::Format::Human, style),
    }
}

fn small(edits: &[(&str, &str)], profile: Option<&str>, set: &[&str]) -> Outcome {
    let mut text = SMALL.to_owned();
    for (from, to) in edits {
        assert!(text.contains(from), "nothing to edit: {from}");
        text = text.replacen(from, to, 1);
    }
    let host = MemoryHost::new().with("run/small.step", text);
    let set = set.iter().map(|set| (*set).to_owned()).collect();
    let profile = profile.map(str::to_owned);
    resolve(&host, &Request { path: "run/small.step".into(), recipe: None, profile, set })
}

fn good(outcome: Outcome) -> Resolved {
    assert!(outcome.quiet, "{}", outcome.said);
    outcome.resolved.expect("nothing was said against it")
}

fn shipped(name: &str, profile: Option<&str>) -> Resolved {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("recipes").join(name);
    good(resolve(&OsHost, &Request { path, profile: profile.map(str::to_owned), ..Request::default() }))
}

// ---- what ships

#[test]
fn the_flagship_is_the_released_architecture() {
    let recipe = shipped("step35_flash.step", None).recipe;
    let model = &recipe.model;
    assert_eq!((model.vocab, model.hidden, model.layers, model.blocks.len()), (128896, 4096, 45, 45));
    assert_eq!((model.norm.eps, model.norm.offset, model.tie_embeddings), (1e-5, 1.0, false));
    for (index, layer) in model.blocks.iter().enumerate() {
        let attention = &layer.attention;
        let full = index % 4 == 0;
        assert_eq!((attention.heads, attention.window), if full { (64, None) } else { (96, Some(512)) });
        assert_eq!((attention.kv_heads, attention.head_dim, attention.qk_norm), (8, 128, QkNorm::Head));
        assert_eq!(attention.gate, Gate::PerHead);
        let rope = &attention.rope;
        assert_eq!((rope.theta, rope.fraction), if full { (5e6, 0.5) } else { (1e4, 1.0) });
        match &rope.scaling {
            Scaling::Llama3(scaling) => {
                assert!(full);
                let figures = (scaling.factor, scaling.original, scaling.low, scaling.high);
                assert_eq!(figures, (2.0, 131072, 1.0, 32.0));
            }
            other => assert!(!full && *other == Scaling::None),
        }
        match &layer.ffn {
            Ffn::Dense(mlp) => assert_eq!((index < 3, mlp.inner, mlp.clamp), (true, 11264, None)),
            Ffn::Moe(moe) => {
                assert!((3..=44).contains(&index));
                assert_eq!((moe.experts, moe.top_k, moe.inner), (288, 8, 1280));
                assert_eq!(moe.clamp, (index >= 43).then_some(7.0));
                let shared = moe.shared.as_ref().expect("a shared expert");
                assert_eq!((shared.inner, shared.clamp), (1280, (index == 44).then_some(16.0)));
                let router = &moe.router;
                assert_eq!((router.score, router.bias, router.normalize), (Score::Sigmoid, true, true));
                assert_eq!((router.scale, router.precision), (3.0, DType::F32));
            }
        }
    }
    let mtp = model.mtp.as_ref().expect("multi-token prediction");
    assert_eq!((mtp.layers, mtp.attention.heads, mtp.head), (3, 96, MtpHead::Own));
    assert_eq!(model.names.moe.bias, "moe.router_bias");
    assert_eq!(model.names.moe.shared_down, "share_expert.down_proj.weight");
    assert_eq!(model.names.mtp.head, "transformer.shared_head.output.weight");
    assert_eq!(model.names.moe.layout, Layout::Stacked);
}

#[test]
fn the_flagship_runs_on_twelve_nodes() {
    let recipe = shipped("step35_flash.step", None).recipe;
    assert_eq!((recipe.cluster.devices(), recipe.cluster.device.kind), (192, DeviceKind::Npu));
    let parallel = &recipe.parallel;
    assert_eq!((parallel.fsdp, parallel.ep, parallel.ep_fsdp, parallel.prefetch), (192, 96, 2, 1));
    assert_eq!(recipe.train.global_batch, 192);
    assert_eq!(recipe.data.sequence, 4096);
    let Optimizer::AdamW(adamw) = &recipe.train.optimizer else { panic!("AdamW") };
    assert_eq!((adamw.lr, adamw.betas, adamw.eps), (1e-5, [0.9, 0.95], 1e-8));
    assert!(matches!(&recipe.train.schedule, Schedule::Cosine(cosine) if cosine.min_lr == 1e-6));
    // A path is relative to the file that wrote it, also where another field refers to it.
    let Weights::Folder(folder) = &recipe.model.weights else { panic!("weights from a folder") };
    assert!(folder.ends_with("recipes/hf_weights/Step-3.5-Flash"));
    assert_eq!(folder, &recipe.data.tokenizer);
}

#[test]
fn the_laptop_profile_shrinks_everything() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("recipes/step35_flash.step");
    let (loaded, _, mut sink) = load_from(&OsHost, &Request { path, ..Request::default() });
    let loaded = loaded.expect("it loads");
    assert_eq!(loaded.profile_for(DeviceKind::Cpu), Some("laptop"));
    assert_eq!(loaded.profile_for(DeviceKind::Npu), None);
    loaded.check_all(&mut sink);
    assert!(sink.is_empty());

    let recipe = shipped("step35_flash.step", Some("laptop")).recipe;
    assert_eq!((recipe.cluster.name.as_str(), recipe.cluster.devices()), ("cpu", 2));
    assert_eq!(recipe.model.weights, Weights::Scratch);
    assert!(recipe.model.mtp.is_none());
    assert_eq!(recipe.model.blocks.len(), 8);
    // `sliding` copies `full` as the profile left it, and keeps what it says itself.
    let sliding = &recipe.model.blocks[1].attention;
    assert_eq!((sliding.heads, sliding.head_dim, sliding.window), (6, 32, Some(64)));
    assert_eq!((sliding.rope.theta, sliding.rope.fraction), (1e4, 1.0));
    let Ffn::Moe(last) = &recipe.model.blocks[7].ffn else { panic!("experts in the last layer") };
    assert_eq!((last.experts, last.clamp), (16, Some(7.0)));
    let Optimizer::AdamW(adamw) = &recipe.train.optimizer else { panic!("AdamW") };
    assert_eq!((adamw.lr, adamw.weight_decay), (4e-3, 0.01));
    assert_eq!(recipe.parallel.precision.params, DType::F32);
}

#[test]
fn every_model_of_the_library_resolves() {
    let figures = [("llama.step", "llama3_8b", 32, 1), ("qwen3_moe.step", "qwen3_30b_a3b", 48, 8)];
    for (file, model, layers, ep) in figures {
        let text = format!(
            r#"use "models/{file}"
            use "devices/atlas.step"
            recipe run {{
              model {model} {{ }}
              cluster atlas_a2 {{ }}
              parallel {{ ep = {ep} }}
              data {{ source text {{ path = "a.txt" }}, tokenizer = "t.json", sequence = 4Ki }}
              train {{ steps = 1, optimizer adamw {{ lr = 1e-5 }} }}
            }}"#
        );
        let host = MemoryHost::new().with("a.step", text);
        let recipe = good(resolve(&host, &Request { path: "a.step".into(), ..Request::default() })).recipe;
        assert_eq!(recipe.model.blocks.len(), layers);
        assert_eq!(recipe.model.names.attention.q, "self_attn.q_proj.weight");
        // Defaults that follow other values.
        assert_eq!(
            (recipe.parallel.fsdp, recipe.parallel.ep_fsdp, recipe.train.global_batch),
            (8, 8 / ep, 8)
        );
    }
}

// ---- merging

#[test]
fn a_base_can_be_overridden_and_extended() {
    let llama = "use \"models/llama.step\"\nmodel stretched: llama31_8b { layers = 2 }\nrecipe";
    let edits = [
        ("recipe", llama),
        ("model tiny { }", "model stretched { attention { head_dim = 64 } }"),
        ("ep = 2", "ep = 1"),
    ];
    let model = good(small(&edits, None, &[])).recipe.model;
    assert_eq!((model.layers, model.vocab, model.blocks[0].attention.head_dim), (2, 128256, 64));
    assert!(
        matches!(&model.blocks[1].attention.rope.scaling, Scaling::Llama3(scaling) if scaling.factor == 8.0)
    );
}

#[test]
fn profiles_replace_choices_and_whole_clusters() {
    let profile = "profile short for cpu {
        cluster mine { device = cpu, devices_per_node = 2, intra_node { bandwidth = 1GB }, inter_node { bandwidth = 1GB } }
        parallel { ep = 1 }
        train { schedule constant { warmup = 1 } }
        model { moe { experts = 4, shared { inner = 16 } } }
        checkpoint none
    }
    profile shorter: short { train { steps = 3 }, model { moe sparse { shared none } } }
    profile unused {";
    let edits = [("profile short for cpu {", profile)];
    let short = good(small(&edits, Some("short"), &[])).recipe;
    assert_eq!((short.cluster.name.as_str(), short.cluster.devices()), ("mine", 2));
    assert!(matches!(&short.train.schedule, Schedule::Constant(constant) if constant.warmup == 1));
    assert!(short.checkpoint.is_none());
    let experts = |layer: &Ffn| match layer {
        Ffn::Moe(moe) => Some((moe.experts, moe.shared.is_some())),
        Ffn::Dense(_) => None,
    };
    assert_eq!(experts(&short.model.blocks[1].ffn), Some((4, true)));
    let shorter = good(small(&edits, Some("shorter"), &[])).recipe;
    assert_eq!((shorter.train.steps, experts(&shorter.model.blocks[1].ffn)), (3, Some((4, false))));
}

#[test]
fn set_goes_over_everything_and_keeps_the_chain() {
    let set = [
        "train.steps=7",
        "model.sparse.experts = 16",
        "model.attention.full.heads=8",
        "train.optimizer.lr=2e-3",
    ];
    let resolved = good(small(&[], Some("short"), &set));
    assert_eq!(resolved.recipe.train.steps, 7);
    assert_eq!(resolved.recipe.model.blocks[0].attention.heads, 8);
    let chain: Vec<_> = resolved.origins.chain("train.steps").iter().map(|origin| origin.via).collect();
    assert_eq!(chain, [Via::Set, Via::Profile, Via::Recipe]);
    let chain: Vec<_> =
        resolved.origins.chain("model.moe sparse.experts").iter().map(|origin| origin.via).collect();
    assert_eq!(chain, [Via::Set, Via::Item]);
    assert!(resolved.origins.span("train.optimizer.lr").is_some());
    assert!(resolved.origins.span("train.seed").is_none());
    assert_eq!(resolved.origins.nearest("train.seed"), resolved.origins.span("train"));
    assert!(resolved.origins.iter().any(|(path, _)| path == "model.attention full.rope.theta"));
}

#[test]
fn set_can_open_a_block() {
    let recipe = good(small(
        &[("checkpoint { dir = \"out\" }", "")],
        None,
        &["checkpoint.dir=\"o\"", "parallel.precision.params=f32"],
    ))
    .recipe;
    assert_eq!(recipe.checkpoint.map(|checkpoint| checkpoint.every), Some(10));
    assert_eq!(recipe.parallel.precision.params, DType::F32);
}

#[test]
fn layers_may_override_by_their_number() {
    let body = "let late = i > 1\n if late { moe sparse { clamp = 1.0 * i }, full { window = 8 * (i + 1) } }\n attention =";
    let model = good(small(&[("attention = if i", &format!("{body} if i"))], None, &[])).recipe.model;
    let clamps = model.blocks.iter().map(|layer| match &layer.ffn {
        Ffn::Moe(moe) => moe.clamp,
        Ffn::Dense(_) => None,
    });
    let clamps: Vec<_> = clamps.collect();
    assert_eq!(clamps, [None, None, Some(2.0), Some(7.0)]);
    assert_eq!(model.blocks[2].attention.window, Some(24));
    assert_eq!(model.blocks[0].attention.window, None);
}

#[test]
fn expressions_have_their_values() {
    let values = [
        ("ceil_div(7, 2) * 4", 16),
        ("max(1, 2, min(9, 3)) + len([1, 2]) + sum(0..4)", 11),
        ("floor(7 / 2)", 3),
        ("10 + ceil_div(-7, 2) + ceil_div(7, -2) + ceil_div(-7, -2)", 8),
        ("log2(1024)", 10),
        ("[4, 5, 6][2]", 6),
        ("if cluster.device.kind == cpu && !false { 21 } else { 1 }", 21),
        ("floor(2GiB / 1GiB)", 2),
        ("model.experts * model.top_k + cluster.devices", 20),
        ("train.steps", 10),
        ("1Ki + 1K", 2024),
        ("if [1, 2] == [1, 2] && 30min == 0.5h && 22% < 0.5 { 1 } else { 0 }", 1),
        ("-7 % 4", 1),
    ];
    for (text, value) in values {
        let recipe = good(small(&[], None, &[&format!("train.seed = {text}")])).recipe;
        assert_eq!(recipe.train.seed, value, "{text}");
    }
}

#[test]
fn a_let_can_hold_a_word_or_the_name_of_a_block() {
    let edits = [
        ("model tiny {", "let kind = sliding\nlet mode = full\nmodel tiny {"),
        ("else { sliding }", "else { kind }"),
        ("ep = 2", "ep = 2, recompute = mode"),
    ];
    let recipe = good(small(&edits, None, &[])).recipe;
    assert_eq!(recipe.model.blocks[1].attention_name, "sliding");
    assert_eq!(recipe.parallel.recompute.word(), "full");
}

#[test]
fn thousands_of_layers_are_quick() {
    let start = std::time::Instant::now();
    let recipe = good(small(&[], None, &["model.layers = 5000"])).recipe;
    assert_eq!(recipe.model.blocks.len(), 5000);
    assert!(start.elapsed().as_secs() < 5);
}

// ---- what bad recipes are told

/// A title, edits of the small recipe, `--set` arguments.
type Case<'c> = (&'c str, &'c [(&'c str, &'c str)], &'c [&'c str]);

/// Holds what is said of every case, as the user sees it, against the snapshot.
fn told(name: &str, cases: &[Case<'_>]) {
    let told = cases.iter().map(|(title, edits, set)| {
        let outcome = small(edits, None, set);
        assert!(!outcome.quiet, "{title}: nothing was said");
        format!("#### {title}\n{}\n", outcome.said)
    });
    insta::assert_snapshot!(name, told.collect::<String>());
}

#[test]
fn wrong_values() {
    told(
        "values",
        &[
            ("size for a count", &[("sequence  = 64", "sequence = 64GiB")], &[]),
            ("number for a whole one", &[("steps = 10", "steps = 10 / 4")], &[]),
            ("whole number written as another", &[("steps = 10", "steps = 10.0")], &[]),
            ("text for a number", &[("lr = 1e-3", "lr = \"fast\"")], &[]),
            ("list of the wrong length", &[("lr = 1e-3", "lr = 1e-3, betas = [0.9]")], &[]),
            ("out of bounds in a list", &[("lr = 1e-3", "lr = 1e-3, betas = [0.9, 1.0]")], &[]),
            ("word that is none", &[("parallel {", "parallel { recompute = ful,")], &[]),
            ("name that is none", &[("steps = 10", "steps = stepz * 2")], &[]),
            ("word for a path", &[("\"data/tokenizer.json\"", "model.weights")], &[]),
            ("unknown reference", &[("global_batch = 8", "global_batch = cluster.device")], &[]),
            ("unknown block in a reference", &[("global_batch = 8", "global_batch = clustr.devices")], &[]),
            ("unknown unit", &[("sequence  = 64", "sequence = 64GIB")], &[]),
            ("unknown function", &[("steps = 10", "steps = maxx(1, 2)")], &[]),
            ("wrong arguments", &[("steps = 10", "steps = ceil_div(1)")], &[]),
            ("units that do not go together", &[("steps = 10", "steps = 1GiB + 3")], &[]),
            ("division by zero", &[("steps = 10", "steps = 10 / (4 - 4)")], &[]),
            ("overflow", &[("steps = 10", "steps = 9000000000000000000 * 2")], &[]),
            ("index", &[("steps = 10", "steps = [1, 2][2]")], &[]),
            ("condition", &[("steps = 10", "steps = if 1 { 2 } else { 3 }")], &[]),
            (
                "cycle of fields",
                &[("steps = 10", "steps = global_batch"), ("global_batch = 8", "global_batch = steps + 0")],
                &[],
            ),
            (
                "cycle of lets",
                &[("recipe small", "let a = b + 1\nlet b = a\nrecipe small"), ("steps = 10", "steps = a")],
                &[],
            ),
            (
                "cycle through a default",
                &[("cluster cpu { devices = 4 }", "cluster cpu { devices = parallel.fsdp }")],
                &[],
            ),
            ("negative", &[("global_batch = 8", "global_batch = -8")], &[]),
            ("zero", &[("layers = 4", "layers = 0"), ("window = 16", "window = 0")], &[]),
            ("clamp", &[("clamp = 7.0", "clamp = 0")], &[]),
        ],
    );
}

#[test]
fn wrong_structure() {
    told(
        "structure",
        &[
            ("unknown field", &[("kv_heads = 2", "kv_haeds = 2")], &[]),
            ("unknown block", &[("schedule cosine", "shedule cosine")], &[]),
            ("field for a block", &[("parallel {", "parallel { precision = bf16,")], &[]),
            ("block for a field", &[("steps = 10", "steps { }")], &[]),
            ("key twice", &[("ep = 2", "ep = 2\n    ep = 4")], &[]),
            ("block twice", &[("parallel { ep = 2 }", "parallel { ep = 2 }\n  parallel { ep = 4 }")], &[]),
            (
                "two of one kind",
                &[(
                    "cluster cpu { devices = 4 }",
                    "cluster cpu { devices = 4 }\n  cluster cpu2 { device = cpu }",
                )],
                &[],
            ),
            (
                "missing fields",
                &[("steps = 10", ""), ("optimizer adamw { lr = 1e-3 }", "optimizer adamw { }")],
                &[],
            ),
            ("missing block", &[("optimizer adamw { lr = 1e-3 }", "")], &[]),
            ("no layers", &[("attention = if i % 2 == 0 { full } else { sliding }", "")], &[]),
            ("unknown choice", &[("schedule cosine", "schedule cosin")], &[]),
            ("choice without a word", &[("schedule cosine {", "schedule {")], &[]),
            ("unknown norm", &[("norm rms { eps = 1e-6 }", "norm layer { eps = 1e-6 }")], &[]),
            ("set what is derived", &[("vocab  = 512", "vocab = 512, experts = 4")], &[]),
            ("nameless block", &[("source text {", "source {")], &[]),
            ("stray if", &[("steps = 10", "steps = 10\n if true { seed = 1 }")], &[]),
            ("unknown model", &[("model tiny { }", "model tinny { }")], &[]),
            ("model of the library", &[("model tiny { }", "model llama3_8b { }")], &[]),
            ("unknown device", &[("cluster cpu { devices = 4 }", "cluster cpu { device = gpu0 }")], &[]),
            ("unknown base", &[("sliding: full", "sliding: ful")], &[]),
            ("bases in a circle", &[("attention full {", "attention full: sliding {")], &[]),
            ("items in a circle", &[("model tiny {", "model other: tiny { }\nmodel tiny: other {")], &[]),
            ("unknown attention", &[("else { sliding }", "else { slidin }")], &[]),
            (
                "unknown blocks of multi-token prediction",
                &[("hidden = 64", "hidden = 64, mtp { layers = 1, attention = fulll, ffn = full }")],
                &[],
            ),
            ("unknown override", &[("sparse { clamp", "sparze { clamp")], &[]),
            ("unknown field of a layer", &[("ffn       =", "mlp =")], &[]),
            ("unknown item", &[("recipe small", "divice x { }\nrecipe small")], &[]),
            ("unknown target", &[("for cpu", "for tpu")], &[]),
            (
                "require",
                &[(
                    "checkpoint {",
                    "require parallel.ep * 8 == cluster.devices else \"eight each\"\n  checkpoint {",
                )],
                &[],
            ),
            ("set: unknown field", &[], &["train.step=1"]),
            ("set: unknown block", &[], &["trian.steps=1"]),
            ("set: which one", &[], &["model.attention.heads=1"]),
            ("set: a layer", &[], &["model.layer.attention=full"]),
            ("let twice", &[("recipe small", "let a = 1\nlet a = 2\nrecipe small")], &["train.seed=4"]),
            ("set: wrong type", &[], &["train.steps=fast"]),
        ],
    );
}

#[test]
fn wrong_together() {
    told(
        "together",
        &[
            ("experts and ep", &[("experts = 8", "experts = 9")], &[]),
            ("experts and ep, set", &[], &["parallel.ep=3"]),
            ("ep without experts", &[("{ dense } else { sparse }", "{ dense } else { dense }")], &[]),
            ("expert groups and devices", &[("ep = 2", "ep = 2, ep_fsdp = 3")], &[]),
            ("fsdp and devices", &[("ep = 2", "ep = 2, fsdp = 3")], &[]),
            ("precision", &[("ep = 2", "ep = 2, precision { params = f32, reduce = bf16 }")], &[]),
            ("batch", &[("global_batch = 8", "global_batch = 10")], &[]),
            ("warmup", &[("warmup = 2", "warmup = 10")], &[]),
            ("min_lr", &[("min_lr = 1e-4", "min_lr = 1e-2")], &[]),
            ("checkpoints", &[("dir = \"out\"", "dir = \"out\", every = 100")], &[]),
            ("kv_heads", &[("kv_heads = 2", "kv_heads = 3")], &[]),
            ("rope", &[("theta = 1e4", "theta = 1e4, fraction = 0.2")], &[]),
            (
                "rope scaling",
                &[(
                    "theta = 1e4",
                    "theta = 1e4, scaling llama3 { factor = 2, original = 64, low = 4, high = 1 }",
                )],
                &[],
            ),
            ("top_k", &[("top_k = 2", "top_k = 9")], &[]),
            ("layer names", &[("hidden = 64", "hidden = 64, names { layer = \"model.layers\" }")], &[]),
            ("expert names", &[("hidden = 64", "hidden = 64, names { moe { layout = stacked } }")], &[]),
            ("number of devices", &[("devices = 4", "devices = 4, nodes = 3, devices_per_node = 2")], &[]),
        ],
    );
}

#[test]
fn wrong_files() {
    let request = |path: &str| Request { path: path.into(), ..Request::default() };
    let model = "model m { vocab = 1 }";
    let host = MemoryHost::new()
        .with("model.step", model)
        .with("two.step", "recipe a { }\nrecipe b { }")
        .with("a.step", "use \"b.step\"\nrecipe r { }")
        .with("b.step", "use \"x/../a.step\"")
        .with("lost.step", "use \"models/step53.step\"\nuse \"nowhere.step\"\nrecipe r { }")
        .with("binary.step", [0xff, 0xfe])
        .with("uses_binary.step", "use \"binary.step\"\nrecipe r { }");
    let mut told = String::new();
    for path in
        ["none.step", "binary.step", "model.step", "two.step", "a.step", "lost.step", "uses_binary.step"]
    {
        let outcome = resolve(&host, &request(path));
        told += &format!("#### {path}\n{}\n", outcome.said);
    }
    let outcome = resolve(&host, &Request { recipe: Some("c".into()), ..request("two.step") });
    told += &format!("#### no such recipe\n{}\n", outcome.said);
    let folder = env!("CARGO_MANIFEST_DIR");
    let outcome = resolve(&OsHost, &request(folder));
    told += &format!("#### a folder\n{}\n", outcome.said.replace(folder, "/folder"));
    told += &format!("#### unknown profile\n{}\n", small(&[], Some("shrt"), &[]).said);
    insta::assert_snapshot!("files", told);
}

#[cfg(unix)]
#[test]
fn a_circle_through_links_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::symlink(".", folder.path().join("link")).expect("a link");
    std::fs::write(folder.path().join("a.step"), "use \"link/a.step\"\nrecipe r { }").expect("a file");
    let outcome = resolve(&OsHost, &Request { path: folder.path().join("a.step"), ..Request::default() });
    assert!(outcome.said.contains("step::recipe::use_cycle"), "{}", outcome.said);
}

#[test]
fn independent_mistakes_are_told_together() {
    let edits = [
        ("vocab  = 512", "vocab = 0"),
        ("steps = 10", "steps = true"),
        ("ep = 2", "ep = 1.5"),
        ("\"data/*.txt\"", "3"),
    ];
    let said = small(&edits, None, &["train.seed=x"]).said;
    for code in [
        "`vocab` is 0",
        "`steps` is a count of steps",
        "`ep` is a count",
        "`path` is a path",
        "`x` names no value",
    ] {
        assert!(said.contains(code), "{code} is not in\n{said}");
    }
    assert!(!said.contains("step::train::"), "follow-on noise in\n{said}");
}

#[test]
fn a_check_reads_every_profile_and_finds_idle_names() {
    let text =
        SMALL.replace("steps = 5", "steps = fife").replace("recipe small {", "let idle = 1\nrecipe small {");
    let host = MemoryHost::new().with("a.step", text);
    let (loaded, sources, mut sink) =
        load_from(&host, &Request { path: "a.step".into(), ..Request::default() });
    loaded.expect("it loads").check_all(&mut sink);
    let style = Style { color: false, width: 100, unicode: true };
    insta::assert_snapshot!("check", render(&sink.finish(), &sources, render::Format::Human, style));
}

#[test]
fn evaluation_is_bounded() {
    let mut text = String::from("let x0 = 1\n");
    for level in 1..60 {
        text += &format!("let x{level} = x{0} + x{0}\n", level - 1);
    }
    let outcome =
        small(&[("recipe small", &(text + "recipe small")), ("steps = 10", "steps = x59")], None, &[]);
    assert!(outcome.said.contains("step::value::too_deep"), "{}", outcome.said);
    let chain: String = (0..500).map(|level| format!("let x{level} = 1 + x{}\n", level + 1)).collect();
    let outcome =
        small(&[("recipe small", &(chain + "recipe small")), ("steps = 10", "steps = x0")], None, &[]);
    assert!(outcome.said.contains("step::value::too_deep"), "{}", outcome.said);
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(20_261_201), ..ProptestConfig::with_cases(300) })]

    #[test]
    fn no_assignment_panics(text in "\\PC{0,40}") {
        small(&[], None, &[&text]);
    }

    #[test]
    fn no_damaged_recipe_panics(
        start in 0..SMALL.len(),
        length in 0..40_usize,
        put in "(\\{|\\}|: full|none|if |layer|moe sparse|, |=|i|\\[|-|99999999999|0|profile x: short|require |let steps = )?",
    ) {
        let mut text = SMALL.to_owned();
        text.replace_range(start..(start + length).min(SMALL.len()), &put);
        let host = MemoryHost::new().with("a.step", text);
        let (loaded, _, mut sink) = load_from(&host, &Request { path: "a.step".into(), ..Request::default() });
        if let Some(loaded) = loaded {
            loaded.check_all(&mut sink);
        }
    }

    #[test]
    fn no_plausible_assignment_panics(
        path in "(train|model|parallel|cluster|data|checkpoint|sparse|full|layer|names)(\\.(moe|sparse|full|layer|i|steps|ep|shared|router|device|rope|scaling|heads|none)){1,3}",
        value in "[-!(]{0,2}(none|[0-9]{1,19}|0\\.[0-9]{1,3}|1e30[0-9]|[0-9]GiB|[0-9]min|model\\.(experts|layers|moe)|cluster\\.device(s)?|train\\.steps|\\[1, 2\\]|0\\.\\.9|\"a\")( ?[-+*/%<=.]{1,2} ?(0|7|9223372036854775807|2GiB|model\\.top_k|\\[\\]))?\\)?",
    ) {
        small(&[], None, &[&format!("{path}={value}")]);
    }
}

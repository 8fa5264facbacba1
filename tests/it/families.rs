//! Every family that `stepc import hf` knows: its configuration becomes a model whose logits and gradients are those of
//! transformers (`tests/golden/make_families.py`), and published configurations have the parameters that they are known for.

use crate::support::{Fixed, Tensors, difference, sequence, train};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use stepc::base::host::{MemoryHost, OsHost};
use stepc::base::{DType, SourceMap};
use stepc::diag::{Sink, render};
use stepc::model::Model;
use stepc::plan::{Plan, Task, compile};
use stepc::recipe::{Request, Resolved, load};
use stepc::runtime::forward;
use stepc::weights::Folder;
use tempfile::TempDir;

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// The model of a folder, under a name.
fn imported(folder: &Path, name: &str) -> String {
    let imported = stepc::import::hf(&OsHost, folder, name);
    imported.unwrap_or_else(|problems| panic!("{problems:#?}")).item
}

/// A folder with a published configuration.
fn published(config: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let config = tests().join("configs").join(format!("{config}.json"));
    std::fs::copy(config, folder.path().join("config.json")).unwrap();
    folder
}

/// A recipe around a model that `items` hold, which trains one step on one sequence.
fn resolve(items: &str, name: &str, sequence: usize) -> Resolved {
    let text = format!(
        "{items}\nrecipe golden {{
           model {name} {{}}
           cluster cpu {{ devices = 1 }}
           parallel {{ prefetch = 0, precision {{ params = f32 }} }}
           data {{ source none {{ path = \"none.txt\" }}, tokenizer = \"none.json\", sequence = {sequence} }}
           train {{ steps = 1, global_batch = 1, micro_batch = 1, optimizer adamw {{ lr = 1e-3 }} }}
         }}"
    );
    let host = MemoryHost::new().with("golden.step", text.as_str());
    let request = Request { path: "golden.step".into(), ..Request::default() };
    let (mut sources, mut sink) = (SourceMap::default(), Sink::default());
    let resolved = load(&host, &request, &mut sources, &mut sink).and_then(|l| l.resolve(None, &mut sink));
    let found = render::render(&sink.finish(), &sources, render::Format::Human, crate::support::style());
    resolved.unwrap_or_else(|| panic!("{found}\n{text}"))
}

struct Golden {
    folder: PathBuf,
    tensors: Tensors,
}

impl Golden {
    fn new(family: &str) -> Golden {
        let folder = tests().join("golden/families").join(family);
        let file = Folder::open(&folder.join("golden.safetensors")).unwrap();
        let read = |name: &str| {
            let shape = file.tensor(name).unwrap().shape.clone();
            let mut values = vec![0.0; shape.iter().product::<u64>() as usize];
            file.read_elements(name, 0..values.len() as u64, &mut values).unwrap();
            (name.to_owned(), (shape, values))
        };
        let names: Vec<String> = file.names().map(str::to_owned).collect();
        let tensors = names.iter().map(|name| read(name)).collect();
        Golden { folder, tensors }
    }

    fn tokens(&self) -> Vec<u32> {
        let bytes = std::fs::read(self.folder.join("tokens.json")).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }

    fn values(&self, name: &str) -> &[f32] {
        &self.tensors[name].1
    }
}

fn matches(family: &str) {
    let golden = Golden::new(family);
    let tokens = golden.tokens();
    let recipe = resolve(&imported(&golden.folder, "imported"), "imported", tokens.len()).recipe;
    let plan = |task| Arc::new(compile(&recipe, None, task)) as Arc<Plan>;
    let weights = Folder::open(&golden.folder).unwrap_or_else(|problem| panic!("{problem:?}"));
    let feed = Fixed(vec![sequence(tokens)]);

    let logits =
        forward(plan(Task::Forward), &feed, Some(&weights)).unwrap_or_else(|p| panic!("{p:?}")).remove(0);
    let (error, _) = difference(&logits, golden.values("logits"));
    assert!(error < 1e-4, "{family}: logits are off by {error}");

    let trained = train(&plan(Task::Train), &feed, Some(&weights), 1);
    let (loss, wanted) = (trained.reports[0].loss, f64::from(golden.values("loss")[0]));
    assert!((loss - wanted).abs() < 1e-5, "{family}: loss {loss} for {wanted}");
    let wanted = golden.tensors.iter().filter_map(|(name, v)| Some((name.strip_prefix("gradient ")?, &v.1)));
    let mut seen = 0;
    for (name, wanted) in wanted {
        let Some((_, own)) = trained.gradients.get(name) else { panic!("{family}: no gradient of {name}") };
        let step = own.len().div_ceil(48);
        let norm = own.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
        let samples: Vec<f32> = own.iter().copied().step_by(step).collect();
        let (error, largest) = difference(&samples, &wanted[1..]);
        assert!(
            error <= 1e-4 * largest.max(1e-4),
            "{family}: gradient of {name} is off by {error} of {largest}"
        );
        let off = (norm / f64::from(wanted[0]) - 1.0).abs();
        assert!(off < 1e-4, "{family}: norm of the gradient of {name} is {norm} for {}", wanted[0]);
        seen += 1;
    }
    let moved = trained.gradients.values().filter(|(_, values)| values.iter().any(|x| *x != 0.0)).count();
    assert_eq!(moved, seen, "{family}: tensors with a gradient");
}

macro_rules! families {
    ($($family:ident)*) => { $(
        #[test]
        fn $family() {
            matches(stringify!($family));
        }
    )* };
}

families! {
    deepseek_v2 deepseek_v2_groups deepseek_v3 ernie4_5_moe gemma gemma2 gemma3 gemma3_text glm4_moe gpt_oss hunyuan_v1_moe
    llama minimax_m2 mistral mixtral olmoe phi3 qwen2 qwen2_moe qwen3 qwen3_moe
}

#[test]
fn published_configurations_have_their_parameters() {
    let file = tests().join("golden/families/counts.json");
    let counts: std::collections::BTreeMap<String, u64> =
        serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    assert!(counts.len() > 15);
    for (name, wanted) in counts {
        let item = imported(published(&name).path(), "imported");
        let model = Model::build(&resolve(&item, "imported", 4096).recipe.model, DType::Bf16);
        assert_eq!(model.counts().total, wanted, "{name}");
    }
}

/// Models of the library, with the name of their file and of their published configuration.
const LIBRARY: [(&str, &str); 20] = [
    ("deepseek_v2_lite", "deepseek_v2"),
    ("deepseek_v3", "deepseek_v3"),
    ("ernie45_21b_a3b", "ernie45"),
    ("gemma_7b", "gemma"),
    ("gemma2_9b", "gemma2"),
    ("gemma3_1b", "gemma3"),
    ("glm45_air", "glm45"),
    ("gpt_oss_20b", "gpt_oss"),
    ("hunyuan_a13b", "hunyuan"),
    ("llama31_8b", "llama"),
    ("minimax_m2", "minimax_m2"),
    ("mistral_7b", "mistral"),
    ("mixtral_8x7b", "mixtral"),
    ("olmoe_1b_7b", "olmoe"),
    ("phi4", "phi4"),
    ("qwen25_7b", "qwen2"),
    ("qwen15_moe_a27b", "qwen2_moe"),
    ("qwen3_8b", "qwen3"),
    ("qwen3_30b_a3b", "qwen3_moe"),
    ("step35_flash", "step35"),
];

#[test]
fn the_library_has_what_is_published() {
    let configs = std::fs::read_dir(tests().join("configs")).unwrap();
    let json = configs.filter(|file| file.as_ref().unwrap().path().extension().is_some_and(|e| e == "json"));
    assert_eq!(json.count(), LIBRARY.len(), "a configuration without its model");
    for (name, file) in LIBRARY {
        let imported = resolve(&imported(published(file).path(), name), name, 4096).recipe.model;
        let library = resolve(&format!("use \"models/{file}.step\""), name, 4096).recipe.model;
        assert_eq!(library, imported, "{name}");
    }
}

//! The whole Step-3.5-Flash on the meta device against the facts of the released checkpoint: names, shapes, types, counts.

use crate::support::{plan, resolve};
use std::collections::BTreeMap;
use stepc::base::DType;
use stepc::model::{CheckpointTensor, Model};
use stepc::plan::{self as plans, Task};

fn flagship() -> Model {
    Model::build(&resolve("recipes/step35_flash.step", None, &[]).recipe.model, DType::Bf16)
}

fn tensors(model: &Model) -> BTreeMap<String, CheckpointTensor> {
    model.params.iter().flat_map(|p| p.tensors()).map(|t| (t.name.clone(), t)).collect()
}

#[test]
fn counts_are_those_of_the_release() {
    let counts = flagship().counts();
    assert_eq!(counts.total, 196_956_130_368);
    assert_eq!(counts.total + counts.mtp, 199_384_301_376);
    assert_eq!(counts.mtp, 3 * 809_390_336);
    assert_eq!(counts.active, 11_459_365_952);
    assert_eq!(counts.experts, 190_253_629_440);
    assert_eq!((counts.tensors, counts.mtp_tensors), (753, 804 - 753));
}

#[test]
fn every_tensor_has_the_name_shape_and_type_of_the_release() {
    let mut left = tensors(&flagship());
    let mut expect = |name: String, shape: &[u64], dtype: DType| {
        let tensor = left.remove(&name).unwrap_or_else(|| panic!("{name} is missing"));
        assert_eq!((tensor.shape.as_slice(), tensor.dtype), (shape, dtype), "{name}");
    };
    let bf16 = DType::Bf16;
    expect("model.embed_tokens.weight".into(), &[128_896, 4096], bf16);
    expect("model.norm.weight".into(), &[4096], bf16);
    expect("lm_head.weight".into(), &[128_896, 4096], bf16);
    for i in 0..48 {
        let mut layer = |name: &str, shape: &[u64]| expect(format!("model.layers.{i}.{name}"), shape, bf16);
        let heads = if i % 4 == 0 && i < 45 { 64 } else { 96 };
        layer("input_layernorm.weight", &[4096]);
        layer("post_attention_layernorm.weight", &[4096]);
        layer("self_attn.q_proj.weight", &[heads * 128, 4096]);
        layer("self_attn.k_proj.weight", &[1024, 4096]);
        layer("self_attn.v_proj.weight", &[1024, 4096]);
        layer("self_attn.o_proj.weight", &[4096, heads * 128]);
        layer("self_attn.g_proj.weight", &[heads, 4096]);
        layer("self_attn.q_norm.weight", &[128]);
        layer("self_attn.k_norm.weight", &[128]);
        if (3..45).contains(&i) {
            layer("moe.gate_proj.weight", &[288, 1280, 4096]);
            layer("moe.up_proj.weight", &[288, 1280, 4096]);
            layer("moe.down_proj.weight", &[288, 4096, 1280]);
            layer("share_expert.gate_proj.weight", &[1280, 4096]);
            layer("share_expert.up_proj.weight", &[1280, 4096]);
            layer("share_expert.down_proj.weight", &[4096, 1280]);
            expect(format!("model.layers.{i}.moe.gate.weight"), &[288, 4096], DType::F32);
            expect(format!("model.layers.{i}.moe.router_bias"), &[288], DType::F32);
        } else {
            layer("mlp.gate_proj.weight", &[11_264, 4096]);
            layer("mlp.up_proj.weight", &[11_264, 4096]);
            layer("mlp.down_proj.weight", &[4096, 11_264]);
        }
        if i >= 45 {
            let mut mtp = |name: &str, shape: &[u64]| expect(format!("model.layers.{i}.{name}"), shape, bf16);
            mtp("enorm.weight", &[4096]);
            mtp("hnorm.weight", &[4096]);
            mtp("eh_proj.weight", &[4096, 8192]);
            mtp("transformer.shared_head.norm.weight", &[4096]);
            mtp("transformer.shared_head.output.weight", &[128_896, 4096]);
        }
    }
    assert!(left.is_empty(), "no other tensors: {:?}", left.keys().take(5).collect::<Vec<_>>());
}

#[test]
fn bytes_are_those_of_the_release() {
    let bytes: u64 =
        tensors(&flagship()).values().map(|t| t.shape.iter().product::<u64>() * t.dtype.size()).sum();
    assert_eq!(bytes, 398_867_717_376);
}

#[test]
fn every_trained_parameter_is_placed_once_and_shards_are_even() {
    let plan = plan("recipes/step35_flash.step", None, &[], Task::Train);
    let placed: Vec<_> = plan.placement.units.iter().flat_map(|u| u.params.iter().map(|p| p.param)).collect();
    let mut all: Vec<_> = placed.iter().chain(&plan.placement.frozen).collect();
    all.sort();
    let trained = plan.params.iter().filter(|p| p.in_training()).count();
    assert_eq!(all.len(), trained);
    assert!(all.windows(2).all(|pair| pair[0] != pair[1]), "no parameter twice");
    let even = (plan.counts.total - 42 * 288) as f64 / 192.0;
    assert!(
        (plan.placement.shard_elements() as f64 / even - 1.0).abs() < 1e-5,
        "a rank holds its even share"
    );
}

#[test]
fn a_plan_survives_its_file() {
    let plan = plan("recipes/step35_flash.step", None, &[], Task::Train);
    let text = plans::write(&plan).unwrap();
    let read =
        plans::read(std::path::Path::new("plan.ron"), &text).unwrap_or_else(|problem| panic!("{problem:?}"));
    assert!(read == *plan, "what is read is what was written");
}

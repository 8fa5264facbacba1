//! `stepc import hf`: what is written, and what is refused with the key that is to blame.

use crate::command::Desk;
use crate::support::snapshot;
use std::path::Path;

fn config(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/configs").join(format!("{name}.json"));
    std::fs::read_to_string(path).unwrap()
}

/// A piece of a configuration, and what takes its place.
type Edit<'e> = (&'e str, &'e str);

#[test]
fn a_model_is_written_once() {
    let desk = Desk::new();
    desk.write("Gemma-2-9B/config.json", &config("gemma2"));
    let seen = desk.session(&[
        &["import", "hf", "Gemma-2-9B"],
        &["import", "hf", "Gemma-2-9B"],
        &["import", "hf", "Gemma-2-9B", "-o", "no/such/folder.step"],
        &["fmt", "--check", "gemma_2_9b.step"],
    ]);
    snapshot("import", &(seen + &std::fs::read_to_string(desk.path("gemma_2_9b.step")).unwrap()));
}

/// The text model of a configuration of several kinds of input, with the values that the released file is silent about.
#[test]
fn a_text_model_is_taken_out_of_its_wrapper() {
    let desk = Desk::new();
    let config = r#"{"model_type": "gemma3", "vision_config": {"hidden_size": 1152}, "mm_tokens_per_image": 256,
        "text_config": {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240,
        "num_hidden_layers": 34, "sliding_window": 1024, "rope_scaling": {"factor": 8.0, "rope_type": "linear"}}}"#;
    desk.write("gemma-3-4b-it/config.json", config);
    desk.write("whole/config.json", &config.replace("text_config", "audio_config"));
    desk.write(
        "apart/config.json",
        &config.replace("\"sliding_window\"", "\"experts\": 3, \"sliding_window\""),
    );
    let seen = desk.session(&[
        &["import", "hf", "gemma-3-4b-it"],
        &["import", "hf", "whole"],
        &["import", "hf", "apart"],
    ]);
    snapshot("import_wrapped", &(seen + &std::fs::read_to_string(desk.path("gemma_3_4b_it.step")).unwrap()));
}

#[test]
fn what_a_recipe_cannot_express_is_refused() {
    let desk = Desk::new();
    let edits: &[(&str, &str, &[Edit<'_>])] = &[
        ("activation", "llama", &[("\"silu\"", "\"relu\"")]),
        ("scaling", "llama", &[("\"llama3\"", "\"dynamic\"")]),
        ("dropout", "qwen2", &[("\"attention_dropout\": 0.0", "\"attention_dropout\": 0.1")]),
        ("unknown", "llama", &[("\"vocab_size\"", "\"logit_scale\": 0.5, \"vocab_size\"")]),
        ("misspelt", "llama", &[("\"rms_norm_eps\"", "\"rms_norm_epsilon\"")]),
        ("inside", "llama", &[("\"factor\": 8.0", "\"factor\": 8.0, \"power\": 2")]),
        (
            "several",
            "mixtral",
            &[
                ("\"silu\"", "\"gelu\""),
                ("\"sliding_window\": null", "\"router_jitter_noise\": 0.1"),
                ("\"num_local_experts\": 8", "\"num_local_experts\": \"many\""),
            ],
        ),
        ("missing", "llama", &[("\"vocab_size\": 128256,", "")]),
        ("kind", "llama", &[("\"hidden_size\": 4096", "\"hidden_size\": \"wide\"")]),
        ("family", "llama", &[("\"model_type\": \"llama\"", "\"model_type\": \"mamba\"")]),
        ("sibling", "qwen3_moe", &[("\"qwen3_moe\"", "\"qwen3_moee\"")]),
        ("nameless", "llama", &[("\"model_type\": \"llama\",", "")]),
        ("layers", "gpt_oss", &[("\"full_attention\"", "\"linear_attention\"")]),
        ("linear", "minimax_m2", &[("\"attn_type_list\": [\n  1", "\"attn_type_list\": [\n  0")]),
        ("groups", "deepseek_v2", &[("\"greedy\"", "\"noaux_tc\"")]),
        (
            "gptq",
            "gpt_oss",
            &[("\"vocab_size\"", "\"quantization_config\": {\"quant_method\": \"gptq\"}, \"vocab_size\"")],
        ),
        ("heads", "qwen3", &[("\"num_key_value_heads\": 8", "\"num_key_value_heads\": 7")]),
    ];
    let mut commands = Vec::new();
    for (name, from, edits) in edits {
        let mut text = config(from);
        for (old, new) in *edits {
            assert!(text.contains(old), "{name}: {old}");
            text = text.replacen(old, new, 1);
        }
        desk.write(&format!("{name}/config.json"), &text);
        commands.push(["import", "hf", *name]);
    }
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0000\nsize 812\n";
    for (name, text) in [
        ("broken", "{ \"model_type\": "),
        ("list", "[]"),
        ("pointer", pointer),
        ("web", "<!doctype html><title>Sign in</title>"),
    ] {
        desk.write(&format!("{name}/config.json"), text);
        commands.push(["import", "hf", name]);
    }
    desk.write("empty/nothing.txt", "");
    desk.write("torn/config.json", &config("llama"));
    desk.write("torn/model.safetensors", "{}");
    commands.extend([["import", "hf", "empty"], ["import", "hf", "nowhere"], ["import", "hf", "torn"]]);
    let commands: Vec<_> = commands.iter().map(|command| &command[..]).collect();
    let seen = desk.session(&commands);
    snapshot("import_refused", &seen);
    for (name, ..) in edits {
        assert!(!desk.path(&format!("{name}.step")).exists(), "{name} was written");
    }
}

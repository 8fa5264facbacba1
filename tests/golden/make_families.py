"""Tiny models of every family that `stepc import hf` knows, made with transformers, and parameter counts of published ones.

    python make_families.py [FAMILY ...]

Writes `families/FAMILY/`: `config.json` and `model.safetensors` as `save_pretrained` writes them (bfloat16), and
the tokens, and in `golden.safetensors` the logits, the loss, and of the gradient of every tensor in the layout of the checkpoint
its norm and up to 48 of its elements at even distances. Everything is computed in float32 from the bfloat16 weights, with eager attention.

Then writes `families/counts.json`: parameters of the configurations in `../configs/`, counted on the meta device.
"""

import json
import pathlib
import shutil
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

HERE = pathlib.Path(__file__).parent
OUT = HERE / "families"
CONFIGS = HERE.parent / "configs"
SAMPLES = 48
SEQUENCE = 24

TRUNK = dict(
    vocab_size=96, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0,
)
HEADS = dict(TRUNK, head_dim=16)
YARN = dict(rope_type="yarn", rope_theta=1e4, factor=4.0, original_max_position_embeddings=16)

# Every switch that a published model of the family sets is set here, and sizes are such that a mix-up of two shows.
FAMILIES = {
    "llama": dict(HEADS, intermediate_size=56, mlp_bias=True, attention_bias=True),
    "qwen2": dict(TRUNK, intermediate_size=56, tie_word_embeddings=True, num_hidden_layers=3,
                  use_sliding_window=True, sliding_window=6, max_window_layers=2),
    "qwen2_moe": dict(TRUNK, intermediate_size=56, moe_intermediate_size=24, shared_expert_intermediate_size=40,
                      num_experts=6, num_experts_per_tok=2, num_hidden_layers=3, mlp_only_layers=[1]),
    "qwen3": dict(HEADS, intermediate_size=56),
    "qwen3_moe": dict(HEADS, intermediate_size=56, moe_intermediate_size=24, num_experts=6, num_experts_per_tok=2,
                      norm_topk_prob=True, decoder_sparse_step=2, num_hidden_layers=3),
    "mistral": dict(HEADS, intermediate_size=56, sliding_window=7),
    "mixtral": dict(TRUNK, intermediate_size=40, num_local_experts=4, num_experts_per_tok=2),
    "olmoe": dict(TRUNK, intermediate_size=24, num_experts=6, num_experts_per_tok=2, clip_qkv=0.6),
    "gemma": dict(HEADS, intermediate_size=56, num_key_value_heads=1),
    "gemma2": dict(HEADS, intermediate_size=56, num_hidden_layers=3, sliding_window=6, query_pre_attn_scalar=24,
                   attn_logit_softcapping=2.0, final_logit_softcapping=3.0),
    "gemma3_text": dict(HEADS, intermediate_size=56, num_hidden_layers=3, sliding_window=6, query_pre_attn_scalar=24,
                        layer_types=["sliding_attention", "sliding_attention", "full_attention"],
                        rope_parameters=dict(
                            full_attention=dict(rope_type="linear", factor=8.0, rope_theta=1e6),
                            sliding_attention=dict(rope_type="default", rope_theta=1e4))),
    "phi3": dict(TRUNK, intermediate_size=56, sliding_window=9, original_max_position_embeddings=16,
                 rope_parameters=dict(rope_type="longrope", rope_theta=1e4, partial_rotary_factor=0.5,
                                      short_factor=[1.0, 1.25], long_factor=[1.5, 3.0])),
    "gpt_oss": dict(HEADS, intermediate_size=24, num_local_experts=4, num_experts_per_tok=2, sliding_window=6,
                    swiglu_limit=0.9, rope_parameters=dict(YARN, truncate=False, beta_fast=32.0, beta_slow=1.0)),
    "glm4_moe": dict(HEADS, intermediate_size=56, moe_intermediate_size=24, n_routed_experts=6, num_experts_per_tok=2,
                     n_shared_experts=2, first_k_dense_replace=1, routed_scaling_factor=2.5, use_qk_norm=True,
                     attention_bias=True, num_mtp_layers=0),
    "ernie4_5_moe": dict(HEADS, intermediate_size=56, moe_intermediate_size=24, moe_num_experts=6, moe_k=2,
                         moe_num_shared_experts=2, moe_layer_start_index=1),
    "hunyuan_v1_moe": dict(HEADS, intermediate_size=24, num_experts=6, moe_topk=2,
                           rope_parameters=dict(rope_type="dynamic", rope_theta=1e4, alpha=100.0, factor=1.0)),
    "minimax_m2": dict(HEADS, intermediate_size=24, num_local_experts=6, num_experts_per_tok=2,
                       rope_parameters=dict(rope_type="default", rope_theta=5e6, partial_rotary_factor=0.5)),
    "deepseek_v2": dict(TRUNK, num_key_value_heads=4, intermediate_size=56, moe_intermediate_size=24,
                        n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=2, first_k_dense_replace=1,
                        routed_scaling_factor=1.5, topk_method="greedy", q_lora_rank=None, kv_lora_rank=20,
                        qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=10,
                        rope_parameters=dict(YARN, mscale=0.7, mscale_all_dim=0.7, beta_fast=32, beta_slow=1)),
    "deepseek_v2_groups": dict(TRUNK, model_type="deepseek_v2", num_key_value_heads=4, intermediate_size=56,
                               moe_intermediate_size=24, n_routed_experts=12, num_experts_per_tok=3, n_shared_experts=1,
                               first_k_dense_replace=1, routed_scaling_factor=4.0, topk_method="group_limited_greedy",
                               n_group=4, topk_group=2, q_lora_rank=24, kv_lora_rank=20, qk_nope_head_dim=12,
                               qk_rope_head_dim=8, v_head_dim=10),
    "deepseek_v3": dict(TRUNK, num_key_value_heads=4, intermediate_size=56, moe_intermediate_size=24,
                        n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=1, first_k_dense_replace=1,
                        routed_scaling_factor=2.5, n_group=4, topk_group=2, q_lora_rank=24, kv_lora_rank=20,
                        qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=10, num_mtp_layers=0,
                        rope_parameters=dict(YARN, mscale=1.0, mscale_all_dim=1.0, beta_fast=32, beta_slow=1)),
}
FAMILIES["gemma3"] = dict(
    text_config=FAMILIES["gemma3_text"], mm_tokens_per_image=4, image_token_index=95, boi_token_index=94, eoi_token_index=93,
    vision_config=dict(hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, image_size=28,
                       patch_size=14))


def spread(model, generator):
    """Random weights large enough that every part of the model changes the result; norms and biases around their start."""
    for name, value in list(model.named_parameters()) + list(model.named_buffers()):
        if not value.is_floating_point() or "inv_freq" in name or "embed_scale" in name:
            continue
        with torch.no_grad():
            noise = torch.randn(value.shape, generator=generator)
            matrix = value.dim() >= 2 and "bias" not in name
            noise *= 0.9 * value.shape[-1] ** -0.5 if matrix else 0.2
            value.copy_((noise if matrix else value + noise).bfloat16().float())


def saved(model):
    """The tensors as `save_pretrained` names and lays them out."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        return load_file(pathlib.Path(folder) / "model.safetensors"), (pathlib.Path(folder) / "config.json").read_text()


def samples(gradient):
    flat = gradient.flatten()
    step = -(-flat.numel() // SAMPLES)
    return torch.cat([flat.norm().reshape(1), flat[::step]])


def make(family, settings):
    generator = torch.manual_seed(7)
    config = AutoConfig.for_model(**{"model_type": family} | settings)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    spread(model, generator)
    tokens = torch.randint(3, config.get_text_config().vocab_size, (1, SEQUENCE), generator=generator)
    logits = model(tokens).logits
    loss = torch.nn.functional.cross_entropy(logits[0, :-1].float(), tokens[0, 1:])
    loss.backward()
    tensors, text = saved(model)
    for parameter in model.parameters():
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        parameter.data.copy_(gradient)
    for buffer in model.buffers():
        buffer.zero_()
    gradients, _ = saved(model)
    trained = {name for name, tensor in gradients.items() if tensor.abs().sum() > 0}

    folder = OUT / family
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(text)
    save_file({name: tensor.bfloat16() for name, tensor in tensors.items()}, folder / "model.safetensors")
    (folder / "tokens.json").write_text(json.dumps(tokens[0].tolist()) + "\n")
    golden = {"logits": logits[0].detach(), "loss": loss.detach().reshape(1)}
    golden |= {f"gradient {name}": samples(gradients[name]) for name in sorted(trained)}
    save_file({name: tensor.contiguous() for name, tensor in golden.items()}, folder / "golden.safetensors")
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{family}: loss {loss.item():.4f}, {len(tensors)} tensors, {size // 1000} kB")


def count(file):
    settings = json.loads(file.read_text())
    settings.pop("quantization_config", None)
    family = settings.pop("model_type")
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **settings))
    total = sum(parameter.numel() for parameter in model.parameters())
    # Biases of routers that no gradient reaches are buffers in some families and parameters in others.
    total += sum(b.numel() for name, b in model.named_buffers() if "correction_bias" in name)
    print(f"{file.stem}: {total}")
    return total


if __name__ == "__main__":
    torch.set_num_threads(1)
    for family in sys.argv[1:] or FAMILIES:
        make(family, FAMILIES[family])
    counts = {file.stem: count(file) for file in sorted(CONFIGS.glob("*.json"))}
    (OUT / "counts.json").write_text(json.dumps(counts, indent=1) + "\n")

"""Golden numbers for the kinds of attention: a tiny decoder around the attention modules of transformers.

    python make_attention.py [OUT_DIR] [family ...]

Needs torch 2.9.1 and transformers 5.24.0 (PyPI). Every family runs its own attention, rotary and norm modules, eager, float32 on one
CPU thread, inside of the same plain decoder: embedding, h += attention(norm(h)), h += swiglu(norm(h)), norm, head. What a family
does elsewhere is left out, so a number that differs here differs because of attention. Losses are of float64.
"""
import copy
import importlib
import json
import math
import os
import sys

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)

B, S, V, H, I, L = 2, 32, 64, 32, 32, 2
SIZES = dict(hidden_size=H, intermediate_size=I, num_hidden_layers=L, vocab_size=V, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, attention_dropout=0.0, pad_token_id=None)


def rope(theta, kind="default", **rest):
    return dict(rope_theta=theta, rope_type=kind, **rest)


YARN = dict(factor=4.0, original_max_position_embeddings=16, beta_fast=1.0, beta_slow=0.1)
KINDS = ["sliding_attention", "full_attention"]
# family -> module, prefix of its classes, configuration, and what the attention layers see at most
FAMILIES = dict(
    qwen2=("qwen2", "Qwen2", dict(rope_parameters=rope(1e4)), [None, None]),
    gpt_oss=("gpt_oss", "GptOss", dict(head_dim=16, rope_parameters=rope(1e4, "yarn", truncate=False, **YARN),
                                       layer_types=KINDS, sliding_window=8, attention_bias=True), [8, None]),
    deepseek_v3=("deepseek_v3", "DeepseekV3", dict(
        num_key_value_heads=4, q_lora_rank=24, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=12,
        rope_interleave=True, rope_parameters=rope(1e4, "yarn", mscale=0.8, mscale_all_dim=0.6, **YARN)), [None, None]),
    deepseek_v2=("deepseek_v2", "DeepseekV2", dict(
        num_key_value_heads=4, q_lora_rank=None, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=12,
        rope_parameters=rope(1e4)), [None, None]),
    glm4_moe=("glm4_moe", "Glm4Moe", dict(head_dim=16, attention_bias=True, use_qk_norm=True,
                                          rope_parameters=rope(1e4, partial_rotary_factor=0.5)), [None, None]),
    minimax_m2=("minimax_m2", "MiniMaxM2", dict(head_dim=16, rope_parameters=rope(1e4, partial_rotary_factor=0.5)),
                [None, None]),
    gemma2=("gemma2", "Gemma2", dict(head_dim=16, query_pre_attn_scalar=8, attn_logit_softcapping=2.0, layer_types=KINDS,
                                     sliding_window=8, rope_parameters=rope(1e4)), [8, None]),
    gemma3=("gemma3", "Gemma3", dict(head_dim=16, query_pre_attn_scalar=8, layer_types=KINDS, sliding_window=8,
                                     rope_parameters=dict(sliding_attention=rope(1e2),
                                                          full_attention=rope(1e4, "linear", factor=8.0))), [8, None]),
    phi3=("phi3", "Phi3", dict(
        original_max_position_embeddings=16, sliding_window=None, eos_token_id=None, bos_token_id=None,
        rope_parameters=rope(1e4, "longrope", partial_rotary_factor=0.75, original_max_position_embeddings=16,
                             short_factor=[1.0, 1.1, 1.2], long_factor=[1.5, 2.5, 4.0])),
          [None, None]),
    olmoe=("olmoe", "Olmoe", dict(clip_qkv=0.8, rope_parameters=rope(1e4)), [None, None]),
    ernie4_5=("ernie4_5_moe", "Ernie4_5_Moe", dict(head_dim=8, use_bias=True, rope_parameters=rope(1e4)), [None, None]),
    hunyuan=("hunyuan_v1_moe", "HunYuanMoEV1", dict(head_dim=16, rope_parameters=rope(1e4)), [None, None]),
)


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(H, I, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(I, H, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, attention, norm):
        super().__init__()
        self.self_attn, self.mlp = attention, Mlp()
        self.input_layernorm, self.post_attention_layernorm = norm(H), norm(H)


class Decoder(nn.Module):
    def __init__(self, family):
        super().__init__()
        module, prefix, settings, self.windows = FAMILIES[family]
        package = f"transformers.models.{module}."
        code = importlib.import_module(package + f"modeling_{module}")
        config = getattr(importlib.import_module(package + f"configuration_{module}"),
                         "Gemma3TextConfig" if family == "gemma3" else prefix + "Config")
        self.config = config(**{**SIZES, **settings})
        self.config._attn_implementation = "eager"
        norm = lambda n: getattr(code, prefix + "RMSNorm")(n, eps=1e-6)
        attention = getattr(code, prefix + "Attention")
        self.embed_tokens = nn.Embedding(V, H)
        self.layers = nn.ModuleList(Layer(attention(self.config, layer_idx=i), norm) for i in range(L))
        self.norm, self.head = norm(H), nn.Linear(H, V, bias=False)
        self.rotary = getattr(code, prefix + "RotaryEmbedding")(self.config)

    def forward(self, ids):
        h = self.embed_tokens(ids)
        positions = torch.arange(S)[None]
        near = positions[0][:, None] - positions[0]
        for i, layer in enumerate(self.layers):
            kinds = getattr(self.rotary, "layer_types", None)
            place = self.rotary(h, positions, **({"layer_type": self.config.layer_types[i]} if kinds else {}))
            if isinstance(place, tuple):
                place = tuple(part.to(h.dtype) for part in place)
            seen = (near >= 0) & (near < (self.windows[i] or S))
            mask = torch.zeros(S, S, dtype=h.dtype).masked_fill(~seen, torch.finfo(h.dtype).min)[None, None]
            x = layer.input_layernorm(h)
            h = h + layer.self_attn(x, position_embeddings=place, attention_mask=mask)[0]
            h = h + layer.mlp(layer.post_attention_layernorm(h))
        return self.head(self.norm(h))


def fill(model, seed):
    g = torch.Generator().manual_seed(seed)
    zero_centred = model.config.model_type.startswith("gemma")
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=g)
            if name.endswith("sinks") or name.endswith("bias"):
                p.copy_(0.5 * noise)
            elif p.dim() == 1:
                p.copy_(0.2 * noise + (0.0 if zero_centred else 1.0))
            elif "embed" in name:
                p.copy_(0.5 * noise)
            else:
                # Scores large enough to tell kinds of attention apart.
                gain = 1.6 if "q_" in name or "k_" in name or "qkv" in name else 1.0
                p.copy_(gain * noise / p.shape[-1] ** 0.5)


def names(tensors, config):
    """From the modules above to the names of a checkpoint; Phi's one projection becomes three."""
    out = {}
    for name, t in tensors.items():
        name = "lm_head.weight" if name == "head.weight" else "model." + name
        if "qkv_proj" in name:
            kv = config.num_key_value_heads * (H // config.num_attention_heads)
            for part, rows in zip("qkv", t.split([t.shape[0] - 2 * kv, kv, kv])):
                out[name.replace("qkv", part)] = rows.clone()
        else:
            out[name] = t.detach().clone()
    return out


def run(family, out, seed):
    model = Decoder(family)
    fill(model, seed)
    ids = torch.randint(0, V, (B, S), generator=torch.Generator().manual_seed(seed + 1))
    loss_of = lambda logits: F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    logits = model(ids)
    loss = loss_of(logits)
    loss.backward()
    with torch.no_grad():
        truth = copy.deepcopy(model).double()(ids)
    grads = {name: p.grad for name, p in model.named_parameters()}
    norm = math.sqrt(sum(g.double().square().sum().item() for g in grads.values()))
    folder = os.path.join(out, family)
    os.makedirs(folder, exist_ok=True)
    meta = {"format": "pt"}
    save_file(names(dict(model.named_parameters()), model.config), os.path.join(folder, "model.safetensors"), meta)
    save_file(names(grads, model.config), os.path.join(folder, "grads.safetensors"), meta)
    save_file({"logits": logits.detach()}, os.path.join(folder, "logits.safetensors"), meta)
    parameters = sum(p.numel() for p in model.parameters())
    facts = dict(input_ids=ids.tolist(), loss=loss.item(), loss_f64=loss_of(truth).item(), loss_if_wrong={},
                 num_parameters=parameters, num_trainable=parameters, curve=[dict(loss=loss.item(), grad_norm=norm)])
    json.dump(facts, open(os.path.join(folder, "golden.json"), "w"))
    error = (logits.double() - truth).abs().max().item()
    print(f"{family}: loss {loss.item():.7f} (f64 {facts['loss_f64']:.9f}), logits off by {error:.1e}, norm {norm:.4f}")


if __name__ == "__main__":
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "attention")
    wanted = sys.argv[2:] or list(FAMILIES)
    for number, name in enumerate(FAMILIES):
        if name in wanted:
            run(name, sys.argv[1] if len(sys.argv) > 1 else here, 100 + number)

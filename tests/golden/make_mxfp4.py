"""Writes mxfp4/: a tiny gpt-oss whose experts are 4-bit floats, and what transformers makes of them and of a text.

    python make_mxfp4.py
"""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import GptOssConfig, GptOssForCausalLM
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

torch.manual_seed(0)
folder = Path("mxfp4")
folder.mkdir(exist_ok=True)

config = GptOssConfig(
    vocab_size=64, hidden_size=64, intermediate_size=32, num_hidden_layers=2, num_local_experts=4, num_experts_per_tok=2,
    num_attention_heads=4, num_key_value_heads=2, head_dim=16, sliding_window=6, rms_norm_eps=1e-5,
    rope_parameters=dict(rope_type="default", rope_theta=1e4), tie_word_embeddings=False, max_position_embeddings=64,
)
model = GptOssForCausalLM(config).bfloat16()
packed, wide = {}, {}
for name, parameter in model.named_parameters():
    parameter.data.normal_(std=0.2)
    if name.endswith(("gate_up_proj", "down_proj")):
        experts, columns, rows = parameter.shape
        blocks = torch.randint(0, 256, (experts, rows, columns // 32, 16), dtype=torch.uint8)
        scales = torch.randint(120, 126, (experts, rows, columns // 32), dtype=torch.uint8)
        packed |= {f"{name}_blocks": blocks, f"{name}_scales": scales}
        parameter.data = convert_moe_packed_tensors(blocks, scales)
        wide[name] = parameter.data
    else:
        packed[name] = parameter.data

save_file(packed, folder / "model.safetensors", metadata={"format": "pt"})
tokens = torch.randint(0, 64, (1, 16))
with torch.no_grad():
    logits = model.float()(input_ids=tokens).logits[0]
# Every scale but the one that is no number, with every element.
every = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16).expand(1, 255, 16, 16).contiguous()
powers = torch.arange(255, dtype=torch.uint8).view(1, 255, 1).expand(1, 255, 16).contiguous()
save_file(
    wide | {"tokens": tokens.float(), "logits": logits.contiguous()}
    | {"every_blocks": every[:, ::15].contiguous(), "every_scales": powers[:, ::15].contiguous()}
    | {"every_wide": convert_moe_packed_tensors(every[:, ::15].contiguous(), powers[:, ::15].contiguous(), dtype=torch.float32)},
    folder / "wide.safetensors",
)
described = config.to_dict() | {"architectures": ["GptOssForCausalLM"], "quantization_config": {
    "quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router", "lm_head"],
}}
(folder / "config.json").write_text(json.dumps(described, indent=1, sort_keys=True, default=str) + "\n")

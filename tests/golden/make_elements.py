"""Writes elements.safetensors: how PyTorch rounds to bf16, f16 and float8_e4m3fn, and a matrix of block-scaled 8-bit floats.

    python make_elements.py
"""

import torch
from safetensors.torch import save_file

torch.manual_seed(0)
bits = torch.randint(-(2**31), 2**31 - 1, (512,), dtype=torch.int64).to(torch.int32)
halfway = torch.arange(0, 480, 0.5) * 2.0 ** torch.randint(-12, 1, (960,))
edges = torch.tensor([0.0, -0.0, 447.9, 448.0, 463.9, 464.0, 464.1, 479.9, 480.0, 1e9, 65504.0, 65520.0, 2**-9, 2**-10, 3 * 2**-11, 2**-6 * 0.999, 1e-8])
x = torch.cat([bits.view(torch.float32), torch.randn(512), halfway, edges, -edges])
x = x[x.isfinite()]

rows, columns, block = 131, 130, 128
w = torch.randn(rows, columns).to(torch.float8_e4m3fn)
scale = torch.rand(-(-rows // block), -(-columns // block)) + 0.01
spread = scale.repeat_interleave(block, 0)[:rows].repeat_interleave(block, 1)[:, :columns]

save_file(
    {
        "x": x,
        "bf16": x.bfloat16(),
        "f16": x.half(),
        "float8": x.to(torch.float8_e4m3fn),
        "every_float8": torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).float(),
        "w": w,
        "w_scale_inv": scale,
        "w_wide": w.float() * spread,
    },
    "elements.safetensors",
)

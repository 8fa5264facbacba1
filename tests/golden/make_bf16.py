"""Ten steps of the tiny Llama in bf16 with float32 master weights, as FSDP2's mixed precision does it.

Parameters are rounded to bf16 for the forward and the backward pass; gradients are cast to float32, clipped, and AdamW
updates the float32 masters. Writes `llama/bf16.json`: losses and norms, and how far bf16 logits and gradients are from
the float32 ones of `make_golden.py`. Run: python make_bf16.py
"""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

FOLDER = Path(__file__).parent / "llama"


def rms(x):
    return x.double().square().mean().sqrt().item()


def main():
    torch.manual_seed(0)
    golden = json.loads((FOLDER / "golden.json").read_text())
    ids = torch.tensor(golden["input_ids"])
    masters = AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32)
    model = AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.bfloat16)
    named = dict(masters.named_parameters())
    groups = [
        {"params": [p for p in named.values() if p.dim() >= 2], "weight_decay": 0.1},
        {"params": [p for p in named.values() if p.dim() < 2], "weight_decay": 0.0},
    ]
    adamw = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), eps=1e-8)
    facts = {"losses": [], "norms": []}
    for step in range(10):
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(named[name])
                parameter.grad = None
        logits = model(ids).logits.float()
        loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        for name, parameter in model.named_parameters():
            named[name].grad = parameter.grad.float()
        if step == 0:
            exact = load_file(FOLDER / "logits.safetensors")["logits"]
            facts["logits_error"] = rms(logits.detach() - exact) / rms(exact)
            exact = load_file(FOLDER / "grads.safetensors")
            facts["gradient_error"] = {
                name: rms(p.grad - exact[name]) / rms(exact[name]) for name, p in named.items()
            }
        norm = torch.nn.utils.clip_grad_norm_(named.values(), 1.0)
        adamw.step()
        facts["losses"].append(loss.item())
        facts["norms"].append(norm.item())
    (FOLDER / "bf16.json").write_text(json.dumps(facts, indent=1) + "\n")


main()

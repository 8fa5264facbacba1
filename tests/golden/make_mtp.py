"""Golden numbers of multi-token prediction (DeepSeek-V3, arXiv 2412.19437, eq. 21 to 25): a tiny Llama with two further layers.

    python make_mtp.py [OUT_DIR]

Needs torch 2.9.1 and safetensors.  Layer k of depth D reads the state of the layer before it and the embedding of the k-th
next token; its loss is the cross entropy of the token behind that, over the number of supervised tokens of the main loss,
times WEIGHT / D.  What would cross the end of a document is left out.  `step` has heads of its own and reads states, as the
layers of Step-3.5-Flash; `deepseek` has the model's head and reads normed states.  Computed in float64, written in float32.
"""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

import plain_ref as P

V, H, I, L, D, HEADS, KV, HD, EPS, THETA, WEIGHT = 96, 16, 24, 2, 2, 4, 2, 8, 1e-5, 1e4, 0.3
B, S, CUT = 2, 24, 10  # each sequence holds two documents


def weights():
    g = torch.Generator().manual_seed(7)
    W = {}

    def matrix(name, *shape):
        W[name] = torch.randn(*shape, generator=g, dtype=torch.float64) / shape[-1] ** 0.5

    def norm(name):
        W[name] = 1 + 0.2 * torch.randn(H, generator=g, dtype=torch.float64)

    matrix("model.embed_tokens.weight", V, H)
    for layer in range(L + D):
        p = f"model.layers.{layer}."
        if layer >= L:
            norm(p + "enorm.weight")
            norm(p + "hnorm.weight")
            matrix(p + "eh_proj.weight", H, 2 * H)
            norm(p + "shared_head.norm.weight")
            matrix(p + "shared_head.head.weight", V, H)
        for name, out in (("q", HEADS), ("k", KV), ("v", KV)):
            matrix(p + f"self_attn.{name}_proj.weight", out * HD, H)
        matrix(p + "self_attn.o_proj.weight", H, HEADS * HD)
        norm(p + "input_layernorm.weight")
        norm(p + "post_attention_layernorm.weight")
        matrix(p + "mlp.gate_proj.weight", I, H)
        matrix(p + "mlp.up_proj.weight", I, H)
        matrix(p + "mlp.down_proj.weight", H, I)
    norm("model.norm.weight")
    matrix("lm_head.weight", V, H)
    return {k: v.float().double() for k, v in W.items()}


def layer(W, p, x, cos, sin, document):
    h = P.rms_norm(x, W[p + "input_layernorm.weight"], EPS, False)
    q, k, v = (F.linear(h, W[p + f"self_attn.{n}_proj.weight"]).view(B, S, -1, HD).transpose(1, 2) for n in "qkv")
    q, k = P.rope(q, cos, sin), P.rope(k, cos, sin)
    k, v = (t.repeat_interleave(HEADS // KV, 1) for t in (k, v))
    score = q @ k.transpose(-1, -2) * HD ** -0.5
    seen = (torch.arange(S)[:, None] >= torch.arange(S)) & (document[:, None] == document)
    a = (score.masked_fill(~seen, float("-inf")).softmax(-1) @ v).transpose(1, 2).reshape(B, S, -1)
    x = x + F.linear(a, W[p + "self_attn.o_proj.weight"])
    return x + P.mlp(P.rms_norm(x, W[p + "post_attention_layernorm.weight"], EPS, False), W, p + "mlp.")


def ahead(ids, k, position):
    """The k-th next token, and whether it is in the same document."""
    shifted, place = torch.roll(ids, -k, 1), torch.roll(position, -k)
    return shifted, (place == position + k) & (torch.arange(S) + k < S)


def run(W, ids, own, normed):
    position = torch.tensor([*range(CUT), *range(S - CUT)])
    document = (torch.arange(S) >= CUT).long()
    angles = position.double()[:, None] * P.inv_freqs(THETA, HD, None, torch.float64)[None]
    cos, sin = torch.cat((angles, angles), -1).cos(), torch.cat((angles, angles), -1).sin()

    def loss(h, norm, head, depth):
        logits = F.linear(P.rms_norm(h, W[norm], EPS, False), W[head])
        target, there = ahead(ids, depth + 1, position)
        return F.cross_entropy(logits[:, there].reshape(-1, V), target[:, there].reshape(-1), reduction="sum")

    h = W["model.embed_tokens.weight"][ids]
    for i in range(L):
        h = layer(W, f"model.layers.{i}.", h, cos, sin, document)
    norm = "model.norm.weight"
    losses = [loss(h, norm, "lm_head.weight", 0)]
    for k in range(1, D + 1):
        p = f"model.layers.{L + k - 1}."
        shifted, there = ahead(ids, k, position)
        e = W["model.embed_tokens.weight"][shifted] * there[:, None]
        h = P.rms_norm(h, W[norm], EPS, False) if normed else h
        e, s = P.rms_norm(e, W[p + "enorm.weight"], EPS, False), P.rms_norm(h, W[p + "hnorm.weight"], EPS, False)
        h = layer(W, p, F.linear(torch.cat((e, s), -1), W[p + "eh_proj.weight"]), cos, sin, document)
        head = p + "shared_head.head.weight" if own else "lm_head.weight"
        norm = p + "shared_head.norm.weight"
        losses.append(loss(h, norm, head, k))
    supervised = B * (S - 2)
    return [value / supervised for value in losses]


if __name__ == "__main__":
    out = os.path.join(sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__)), "mtp")
    os.makedirs(out, exist_ok=True)
    W = weights()
    save_file({k: v.float().contiguous() for k, v in W.items()}, os.path.join(out, "model.safetensors"))
    ids = torch.randint(0, V, (B, S), generator=torch.Generator().manual_seed(3))
    facts = dict(input_ids=ids.tolist(), cut=CUT)
    for name, own, normed in (("step", True, False), ("deepseek", False, True)):
        leaves = {k: v.clone().requires_grad_() for k, v in W.items() if own or "shared_head.head" not in k}
        losses = run(leaves, ids, own, normed)
        (losses[0] + WEIGHT / D * sum(losses[1:])).backward()
        grads = {k: v.grad.float() for k, v in leaves.items()}
        save_file(grads, os.path.join(out, f"grads_{name}.safetensors"))
        norm = torch.sqrt(sum((v.grad ** 2).sum() for v in leaves.values()))
        facts[name] = dict(losses=[float(v.detach()) for v in losses], grad_norm=float(norm))
    json.dump(facts, open(os.path.join(out, "golden.json"), "w"))
    print(facts["step"], facts["deepseek"])

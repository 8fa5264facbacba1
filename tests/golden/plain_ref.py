"""Independent plain-torch forward and training step for the three golden architectures.

Works directly on a dict of Hugging Face tensor names, in any float dtype (the
golden run uses it in float64 as "truth"), no transformers import.  It is also
the most direct statement of the three architectures: it was checked
numerically against transformers and, for Step-3.5, against MindSpeed-LLM.
"""
import math

import torch
import torch.nn.functional as F


# ----------------------------------------------------------------- pieces
def rms_norm(x, w, eps, zero_centered):
    y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)
    return y * (w + 1 if zero_centered else w)


def inv_freqs(theta, rot_dim, scaling, dtype):
    """inv_freq is computed in float32 whatever the compute dtype (as HF does)."""
    f = 1.0 / (theta ** (torch.arange(0, rot_dim, 2, dtype=torch.int64).float() / rot_dim))
    if scaling:  # llama3 rule
        ctx, lo, hi, fac = (scaling["original_max_position_embeddings"], scaling["low_freq_factor"],
                            scaling["high_freq_factor"], scaling["factor"])
        wl = 2 * math.pi / f
        s = (ctx / wl - lo) / (hi - lo)
        mid = (1 - s) * f / fac + s * f
        f = torch.where(wl > ctx / lo, f / fac, torch.where(wl < ctx / hi, f, mid))
    return f.to(dtype)


def rope(x, cos, sin):
    """x [B,h,S,d]; cos/sin [S,r]; the first r channels rotate (half-split pairs i, i+r/2)."""
    r = cos.shape[-1]
    a, rest = x[..., :r], x[..., r:]
    a1, a2 = a[..., : r // 2], a[..., r // 2:]
    rot = torch.cat((-a2, a1), -1)
    return torch.cat((a * cos + rot * sin, rest), -1)


def attention(q, k, v, window):
    """q [B,h,S,d], k/v [B,kv,S,d]; query head j uses kv head j // (h/kv).
    Key t is visible from query s iff t <= s and (no window or s - t < window)."""
    B, h, S, d = q.shape
    g = h // k.shape[1]
    k = k.repeat_interleave(g, 1)
    v = v.repeat_interleave(g, 1)
    sc = q @ k.transpose(-1, -2) * d ** -0.5
    i = torch.arange(S)
    dead = i[None, :] > i[:, None]
    if window:
        dead = dead | (i[:, None] - i[None, :] >= window)
    sc = sc.masked_fill(dead, float("-inf"))
    return (sc.softmax(-1) @ v).transpose(1, 2)  # [B,S,h,d]


def swiglu(g, u, limit, clamp_before=False):
    if not limit:
        return F.silu(g) * u
    if clamp_before:  # what MindSpeed's expert-parallel path does
        return F.silu(g.clamp(max=limit)) * u.clamp(-limit, limit)
    return F.silu(g).clamp(max=limit) * u.clamp(-limit, limit)


def mlp(x, W, p, limit=0.0):
    return F.linear(swiglu(F.linear(x, W[p + "gate_proj.weight"]), F.linear(x, W[p + "up_proj.weight"]), limit),
                    W[p + "down_proj.weight"])


def moe(x, idx, wt, gate, up, down, limit, stats, clamp_before=False):
    out = torch.zeros_like(x)
    for e in range(gate.shape[0]):
        tok, slot = (idx == e).nonzero(as_tuple=True)
        if tok.numel() == 0:
            continue
        xe = x[tok]
        g, u = F.linear(xe, gate[e]), F.linear(xe, up[e])
        if stats is not None and limit:
            stats["clamped_gate"] += int((F.silu(g) > limit).sum())
            stats["clamped_up"] += int((u.abs() > limit).sum())
            stats["clamp_total"] += g.numel()
        y = F.linear(swiglu(g, u, limit, clamp_before), down[e]) * wt[tok, slot, None]
        out = out.index_add(0, tok, y)
    return out


def topk_margin(score, k):
    s = score.detach().sort(-1, descending=True)[0]
    return float((s[:, k - 1] - s[:, k]).min())


# ----------------------------------------------------------------- models
def forward(W, cfg, ids, stats=None, mut=()):
    """mut: names of deliberate mistakes (see golden.json loss_if_wrong); empty = the right model."""
    a = cfg["model_type"]
    dt = W["model.embed_tokens.weight"].dtype
    B, S = ids.shape
    eps = cfg["rms_norm_eps"]
    zc = a == "step3p5" and "norm_not_zero_centered" not in mut
    pos = torch.arange(S).to(dt)
    x = W["model.embed_tokens.weight"][ids]
    if a == "step3p5":
        moe_layers = {int(i) for i in cfg["moe_layers_enum"].split(",")}
    for l in range(cfg["num_hidden_layers"]):
        p = f"model.layers.{l}."
        # ---- attention
        hd = cfg.get("head_dim") or cfg["hidden_size"] // cfg["num_attention_heads"]
        scaling, window, partial = None, None, 1.0
        if a == "step3p5":
            sliding = cfg["layer_types"][l] == "sliding_attention"
            o = cfg["attention_other_setting"] if sliding else cfg
            nh, nkv = o["num_attention_heads"], o["num_attention_groups"]
            theta, partial = cfg["rope_theta"][l], cfg["partial_rotary_factors"][l]
            if cfg["layer_types"][l] in cfg["yarn_only_types"]:
                scaling = cfg["rope_scaling"]
            if sliding:
                window = cfg["sliding_window"]
        else:
            nh, nkv = cfg["num_attention_heads"], cfg["num_key_value_heads"]
            theta = cfg["rope_theta"]
        h = rms_norm(x, W[p + "input_layernorm.weight"], eps, zc)
        q = F.linear(h, W[p + "self_attn.q_proj.weight"]).view(B, S, nh, hd)
        k = F.linear(h, W[p + "self_attn.k_proj.weight"]).view(B, S, nkv, hd)
        v = F.linear(h, W[p + "self_attn.v_proj.weight"]).view(B, S, nkv, hd)
        if a != "llama":
            q = rms_norm(q, W[p + "self_attn.q_norm.weight"], eps, zc)
            k = rms_norm(k, W[p + "self_attn.k_norm.weight"], eps, zc)
        fr = pos[:, None] * inv_freqs(theta, int(hd * partial), scaling, dt)[None]
        cos, sin = torch.cat((fr, fr), -1).cos(), torch.cat((fr, fr), -1).sin()
        if "rope_interleaved" in mut:  # pairs (2i, 2i+1) instead of (i, i+r/2)
            r = cos.shape[-1]
            il = torch.stack((torch.arange(r // 2), torch.arange(r // 2) + r // 2), -1).reshape(-1)
            inv = torch.argsort(il)
            rp = lambda t: torch.cat((rope(t[..., :r][..., inv], cos, sin)[..., il], t[..., r:]), -1)
        else:
            rp = lambda t: rope(t, cos, sin)
        if "kv_head_modulo" in mut:  # query head j -> kv head j % kv instead of j // group
            order = torch.arange(nh).view(nh // nkv, nkv).t().reshape(-1)
            ao = torch.empty(B, S, nh, hd, dtype=dt)
            ao[:, :, order] = attention(rp(q[:, :, order].transpose(1, 2)), rp(k.transpose(1, 2)), v.transpose(1, 2), window)
        else:
            ao = attention(rp(q.transpose(1, 2)), rp(k.transpose(1, 2)), v.transpose(1, 2), window)
        if a == "step3p5" and "no_attention_gate" not in mut:
            ao = ao * torch.sigmoid(F.linear(h, W[p + "self_attn.g_proj.weight"])).unsqueeze(-1)
        x = x + F.linear(ao.reshape(B, S, nh * hd), W[p + "self_attn.o_proj.weight"])
        # ---- feed-forward
        h = rms_norm(x, W[p + "post_attention_layernorm.weight"], eps, zc)
        if a == "llama":
            y = mlp(h, W, p + "mlp.")
        elif a == "qwen3_moe":
            t = h.reshape(B * S, -1)
            pr = F.linear(t, W[p + "mlp.gate.weight"]).softmax(-1)
            wt, idx = pr.topk(cfg["num_experts_per_tok"], -1)
            if cfg["norm_topk_prob"]:
                wt = wt / wt.sum(-1, keepdim=True)
            if stats is not None:
                stats["margin"] = min(stats["margin"], topk_margin(pr, cfg["num_experts_per_tok"]))
            st = lambda n: torch.stack([W[f"{p}mlp.experts.{e}.{n}.weight"] for e in range(cfg["num_experts"])])
            y = moe(t, idx, wt, st("gate_proj"), st("up_proj"), st("down_proj"), 0.0, None).view(B, S, -1)
        elif l not in moe_layers:
            y = mlp(h, W, p + "mlp.", cfg["swiglu_limits_shared"][l])
        else:
            t = h.reshape(B * S, -1)
            pr = torch.sigmoid(F.linear(t, W[p + "moe.gate.weight"]))
            sel = pr + W[p + "moe.router_bias"]
            idx = sel.topk(cfg["moe_top_k"], -1)[1]
            wt = (sel if "bias_in_weights" in mut else pr).gather(1, idx)
            if "no_renormalize" not in mut:
                wt = wt / (wt.sum(-1, keepdim=True) + 1e-20)
            wt = wt * cfg["moe_router_scaling_factor"]
            if stats is not None:
                stats["margin"] = min(stats["margin"], topk_margin(sel, cfg["moe_top_k"]))
                nb = pr.topk(cfg["moe_top_k"], -1)[1]
                stats["bias_changed"] += int((idx.sort(-1)[0] != nb.sort(-1)[0]).any(-1).sum())
                stats["load"].append(torch.bincount(idx.reshape(-1), minlength=cfg["moe_num_experts"]).tolist())
            y = moe(t, idx, wt, W[p + "moe.gate_proj.weight"], W[p + "moe.up_proj.weight"],
                    W[p + "moe.down_proj.weight"], cfg["swiglu_limits"][l], stats,
                    "clamp_before_silu" in mut).view(B, S, -1)
            if "no_shared_expert" not in mut:
                y = y + mlp(h, W, p + "share_expert.", cfg["swiglu_limits_shared"][l])
        x = x + y
    x = rms_norm(x, W["model.norm.weight"], eps, zc)
    return F.linear(x, W["lm_head.weight"])


def loss_fn(logits, labels):
    """labels use the HF convention: same length as ids, position t is predicted from t-1, -100 ignored."""
    return F.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]), labels[:, 1:].reshape(-1), ignore_index=-100)


def new_stats():
    return dict(margin=float("inf"), bias_changed=0, clamped_gate=0, clamped_up=0, clamp_total=0, load=[])


# ----------------------------------------------------------------- training
def adamw_curve(W, cfg, ids, labels, steps, lr, betas, eps, wd, max_norm, frozen=()):
    """Hand-written AdamW (decoupled decay) + global-norm clip, torch semantics."""
    W = {k: v.clone().requires_grad_(k not in frozen) for k, v in W.items()}
    tr = [k for k in W if k not in frozen]
    m = {k: torch.zeros_like(W[k]) for k in tr}
    v = {k: torch.zeros_like(W[k]) for k in tr}
    out, g1 = [], None
    for t in range(1, steps + 2):
        st = new_stats()
        loss = loss_fn(forward(W, cfg, ids, st), labels)
        if t == steps + 1:
            return out, loss.item(), g1, {k: W[k].detach() for k in W}
        grads = dict(zip(tr, torch.autograd.grad(loss, [W[k] for k in tr])))
        if g1 is None:
            g1 = {k: g.clone() for k, g in grads.items()}
        norm = torch.sqrt(sum((g * g).sum() for g in grads.values()))
        coef = torch.clamp(max_norm / (norm + 1e-6), max=1.0)
        out.append(dict(step=t, loss=loss.item(), grad_norm=norm.item(), router_margin=st["margin"]))
        with torch.no_grad():
            for k in tr:
                g = grads[k] * coef
                W[k].mul_(1 - lr * (wd if W[k].dim() >= 2 else 0.0))
                m[k].mul_(betas[0]).add_(g, alpha=1 - betas[0])
                v[k].mul_(betas[1]).addcmul_(g, g, value=1 - betas[1])
                den = (v[k].sqrt() / math.sqrt(1 - betas[1] ** t)).add_(eps)
                W[k].addcdiv_(m[k], den, value=-lr / (1 - betas[0] ** t))

"""Golden numbers for stepc: tiny f32 models, weights in Hugging Face release layout.

    python make_golden.py [OUT_DIR] [arch ...]

Needs torch 2.9.1 and transformers 5.24.0 (PyPI).  Everything is float32 on CPU,
1 thread, eager attention, torch.use_deterministic_algorithms(True).
The float32 numbers come from transformers' own modules and torch.optim.AdamW;
plain_ref.py gives a second, independent float32 result and a float64 "truth".
"""
import hashlib
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import torch
import transformers
from safetensors.torch import save_file

import plain_ref as P

transformers.logging.set_verbosity_error()
torch.use_deterministic_algorithms(True)
torch.set_num_threads(1)

OPT = dict(lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, max_norm=1.0, steps=10)
B, S, V = 2, 48, 512

STEP35 = dict(
    architectures=["Step3p5ForCausalLM"], model_type="step3p5", torch_dtype="float32",
    hidden_size=64, intermediate_size=160, num_hidden_layers=6, vocab_size=V, rms_norm_eps=1e-5,
    max_seq_len=128, max_position_embeddings=128,
    num_attention_heads=4, num_attention_groups=2, head_dim=32,
    attention_other_setting=dict(attention_type="sliding_attention", num_attention_heads=6,
                                 num_attention_groups=2, head_dim=32, true_head_dim=32),
    layer_types=["full_attention", "sliding_attention", "sliding_attention", "sliding_attention",
                 "full_attention", "sliding_attention"],
    sliding_window=16,
    rope_theta=[5000000.0, 10000.0, 10000.0, 10000.0, 5000000.0, 10000.0],
    partial_rotary_factors=[0.5, 1.0, 1.0, 1.0, 0.5, 1.0],
    rope_scaling=dict(rope_type="llama3", factor=2.0, original_max_position_embeddings=64,
                      low_freq_factor=1.0, high_freq_factor=32.0),
    yarn_only_types=["full_attention"], use_rope_layers=[],
    use_qk_norm=True, use_head_wise_attn_gate=True, zero_centered=True, sink=False, att_impl_type="GQA",
    use_moe=True, moe_layers_enum="2,3,4,5", moe_every_n_layer=1, moe_layer_offset=0,
    moe_num_experts=8, moe_top_k=2, moe_intermediate_size=48, share_expert_dim=40, norm_expert_weight=True,
    moe_router_activation="sigmoid", moe_router_scaling_factor=3.0, use_moe_router_bias=True, need_fp32_gate=True,
    swiglu_limits=[0.0, 0.0, 0.0, 0.0, 1.25, 1.25], swiglu_limits_shared=[0.0, 0.0, 0.0, 0.0, 0.0, 1.0],
    num_nextn_predict_layers=0, tie_word_embeddings=False, bos_token_id=0, eos_token_id=[1, 2],
)
QWEN3 = dict(
    architectures=["Qwen3MoeForCausalLM"], model_type="qwen3_moe", torch_dtype="float32",
    hidden_size=64, intermediate_size=160, num_hidden_layers=4, vocab_size=V, rms_norm_eps=1e-6,
    num_attention_heads=4, num_key_value_heads=2, head_dim=32, hidden_act="silu", attention_bias=False,
    max_position_embeddings=128, rope_theta=1000000.0, rope_scaling=None, sliding_window=None, use_sliding_window=False,
    num_experts=8, num_experts_per_tok=2, moe_intermediate_size=48, norm_topk_prob=True, decoder_sparse_step=1,
    mlp_only_layers=[], router_aux_loss_coef=0.001, output_router_logits=False, tie_word_embeddings=False,
    attention_dropout=0.0,
)
LLAMA = dict(
    architectures=["LlamaForCausalLM"], model_type="llama", torch_dtype="float32",
    hidden_size=64, intermediate_size=160, num_hidden_layers=4, vocab_size=V, rms_norm_eps=1e-5,
    num_attention_heads=4, num_key_value_heads=2, head_dim=16, hidden_act="silu", attention_bias=False, mlp_bias=False,
    max_position_embeddings=128, rope_theta=500000.0, rope_scaling=None, tie_word_embeddings=False,
    attention_dropout=0.0,
)
SEEDS = dict(step3p5=3572, qwen3_moe=3109, llama=1111)


# ------------------------------------------------------------------ weights
def make_weights(cfg, seed):
    g = torch.Generator().manual_seed(seed)
    W = {}

    def lin(name, *shape):
        W[name] = torch.randn(*shape, generator=g) / shape[-1] ** 0.5

    def norm(name, n):
        W[name] = 0.2 * torch.randn(n, generator=g) + (0.0 if cfg["model_type"] == "step3p5" else 1.0)

    H, I, a = cfg["hidden_size"], cfg["intermediate_size"], cfg["model_type"]
    W["model.embed_tokens.weight"] = 0.5 * torch.randn(V, H, generator=g)
    moe_layers = {int(i) for i in cfg["moe_layers_enum"].split(",")} if a == "step3p5" else set()
    for l in range(cfg["num_hidden_layers"]):
        p = f"model.layers.{l}."
        hd = cfg["head_dim"]
        if a == "step3p5":
            o = cfg["attention_other_setting"] if cfg["layer_types"][l] == "sliding_attention" else cfg
            nh, nkv = o["num_attention_heads"], o["num_attention_groups"]
        else:
            nh, nkv = cfg["num_attention_heads"], cfg["num_key_value_heads"]
        lin(p + "self_attn.q_proj.weight", nh * hd, H)
        lin(p + "self_attn.k_proj.weight", nkv * hd, H)
        lin(p + "self_attn.v_proj.weight", nkv * hd, H)
        lin(p + "self_attn.o_proj.weight", H, nh * hd)
        if a != "llama":
            norm(p + "self_attn.q_norm.weight", hd)
            norm(p + "self_attn.k_norm.weight", hd)
        if a == "step3p5":
            lin(p + "self_attn.g_proj.weight", nh, H)
        norm(p + "input_layernorm.weight", H)
        norm(p + "post_attention_layernorm.weight", H)
        if a == "llama" or (a == "step3p5" and l not in moe_layers):
            lin(p + "mlp.gate_proj.weight", I, H)
            lin(p + "mlp.up_proj.weight", I, H)
            lin(p + "mlp.down_proj.weight", H, I)
        elif a == "step3p5":
            E, M, D = cfg["moe_num_experts"], cfg["moe_intermediate_size"], cfg["share_expert_dim"]
            lin(p + "moe.gate.weight", E, H)
            W[p + "moe.router_bias"] = 0.1 * torch.randn(E, generator=g)
            lin(p + "moe.gate_proj.weight", E, M, H)
            lin(p + "moe.up_proj.weight", E, M, H)
            lin(p + "moe.down_proj.weight", E, H, M)
            lin(p + "share_expert.gate_proj.weight", D, H)
            lin(p + "share_expert.up_proj.weight", D, H)
            lin(p + "share_expert.down_proj.weight", H, D)
        else:
            E, M = cfg["num_experts"], cfg["moe_intermediate_size"]
            lin(p + "mlp.gate.weight", E, H)
            for e in range(E):
                lin(p + f"mlp.experts.{e}.gate_proj.weight", M, H)
                lin(p + f"mlp.experts.{e}.up_proj.weight", M, H)
                lin(p + f"mlp.experts.{e}.down_proj.weight", H, M)
    norm("model.norm.weight", H)
    lin("lm_head.weight", V, H)
    return W


# --------------------------------------------- HF names <-> transformers modules
class Step35LM(torch.nn.Module):
    """transformers' text decoder for model_type step3p5 (class Step3p7TextModel) + untied lm_head."""

    def __init__(self, cfg):
        super().__init__()
        from transformers.models.step3p7.configuration_step3p7 import Step3p7TextConfig
        from transformers.models.step3p7.modeling_step3p7 import Step3p7TextModel
        c = Step3p7TextConfig(**{k: v for k, v in cfg.items() if k not in ("architectures", "model_type", "torch_dtype")})
        c._attn_implementation = "eager"
        self.model = Step3p7TextModel(c)
        # transformers defaults pad_token_id to 1, which would zero the gradient of embedding row 1;
        # the released config.json names no pad token, so no row is special here.
        self.model.embed_tokens.padding_idx = None
        self.lm_head = torch.nn.Linear(cfg["hidden_size"], cfg["vocab_size"], bias=False)

    def forward(self, ids):
        return self.lm_head(self.model(input_ids=ids, use_cache=False).last_hidden_state)


def build(cfg):
    """-> (module, get_logits, to_module(dict)->dict, to_hf(dict)->dict, frozen HF names)"""
    a = cfg["model_type"]
    if a == "step3p5":
        m = Step35LM(cfg)

        def to_module(W):
            out = {}
            for k, v in W.items():
                k2 = (k.replace("moe.gate.weight", "mlp.gate.weight")
                       .replace("moe.router_bias", "mlp.gate.e_score_correction_bias")
                       .replace("moe.down_proj.weight", "mlp.experts.down_proj")
                       .replace("share_expert.", "mlp.shared_experts."))
                if "moe.up_proj" in k:
                    continue
                if "moe.gate_proj" in k:
                    out[k.replace("moe.gate_proj.weight", "mlp.experts.gate_up_proj")] = torch.cat(
                        (v, W[k.replace("gate_proj", "up_proj")]), 1)
                    continue
                out[k2] = v
            return out

        def to_hf(D):
            out = {}
            for k, v in D.items():
                if k.endswith("mlp.experts.gate_up_proj"):
                    gt, up = v.chunk(2, 1)
                    p = k.replace("mlp.experts.gate_up_proj", "moe.")
                    out[p + "gate_proj.weight"], out[p + "up_proj.weight"] = gt.contiguous(), up.contiguous()
                else:
                    out[k.replace("mlp.gate.weight", "moe.gate.weight")
                         .replace("mlp.gate.e_score_correction_bias", "moe.router_bias")
                         .replace("mlp.experts.down_proj", "moe.down_proj.weight")
                         .replace("mlp.shared_experts.", "share_expert.")] = v
            return out

        return m, m.forward, to_module, to_hf, [f"model.layers.{i}.moe.router_bias" for i in map(int, cfg["moe_layers_enum"].split(","))]
    skip = ("architectures", "model_type", "torch_dtype")
    if a == "qwen3_moe":
        from transformers import Qwen3MoeConfig as C, Qwen3MoeForCausalLM as M
    else:
        from transformers import LlamaConfig as C, LlamaForCausalLM as M
    c = C(**{k: v for k, v in cfg.items() if k not in skip}, pad_token_id=None)
    c._attn_implementation = "eager"
    if a == "qwen3_moe":
        c._experts_implementation = "eager"
    m = M(c)
    assert m.model.embed_tokens.padding_idx is None
    E = cfg.get("num_experts", 0)

    def to_module(W):
        out = {k: v for k, v in W.items() if ".experts." not in k}
        for l in range(cfg["num_hidden_layers"] if E else 0):
            p = f"model.layers.{l}.mlp.experts."
            out[p + "gate_up_proj"] = torch.stack(
                [torch.cat((W[f"{p}{e}.gate_proj.weight"], W[f"{p}{e}.up_proj.weight"]), 0) for e in range(E)])
            out[p + "down_proj"] = torch.stack([W[f"{p}{e}.down_proj.weight"] for e in range(E)])
        return out

    def to_hf(D):
        out = {}
        for k, v in D.items():
            if k.endswith("experts.gate_up_proj"):
                for e in range(E):
                    gt, up = v[e].chunk(2, 0)
                    out[k.replace("gate_up_proj", f"{e}.gate_proj.weight")] = gt.contiguous()
                    out[k.replace("gate_up_proj", f"{e}.up_proj.weight")] = up.contiguous()
            elif k.endswith("experts.down_proj"):
                for e in range(E):
                    out[k.replace("down_proj", f"{e}.down_proj.weight")] = v[e].contiguous()
            else:
                out[k] = v
        return out

    return m, (lambda ids: m(input_ids=ids, use_cache=False).logits), to_module, to_hf, []


# ------------------------------------------------------------ deliberate mistakes
def wrong_variants(cfg):
    """name -> (changed config, mutation flags): losses an implementation shows if it gets one thing wrong."""
    a, c = cfg["model_type"], lambda **k: {**cfg, **k}
    v = dict(rope_interleaved=(cfg, ["rope_interleaved"]), kv_head_modulo=(cfg, ["kv_head_modulo"]))
    if a == "qwen3_moe":
        v["no_norm_topk_prob"] = (c(norm_topk_prob=False), [])
    if a == "step3p5":
        rs, L = cfg["rope_scaling"], cfg["num_hidden_layers"]
        v.update(
            norm_not_zero_centered=(cfg, ["norm_not_zero_centered"]), no_attention_gate=(cfg, ["no_attention_gate"]),
            no_llama3_rope_scaling=(c(rope_scaling={**rs, "factor": 1.0}), []),
            llama3_rope_scaling_on_every_layer=(c(yarn_only_types=["full_attention", "sliding_attention"]), []),
            one_rope_theta_5e6=(c(rope_theta=[5e6] * L), []), one_rope_theta_1e4=(c(rope_theta=[1e4] * L), []),
            partial_rotary_ignored=(c(partial_rotary_factors=[1.0] * L), []),
            window_minus_1=(c(sliding_window=cfg["sliding_window"] - 1), []), window_plus_1=(c(sliding_window=cfg["sliding_window"] + 1), []),
            no_window=(c(sliding_window=10 ** 6), []),
            bias_in_weights=(cfg, ["bias_in_weights"]), no_renormalize=(cfg, ["no_renormalize"]),
            no_router_scaling=(c(moe_router_scaling_factor=1.0), []), no_shared_expert=(cfg, ["no_shared_expert"]),
            no_clamp=(c(swiglu_limits=[0.0] * L, swiglu_limits_shared=[0.0] * L), []),
            routed_clamp_before_silu=(cfg, ["clamp_before_silu"]),
            shared_limit_used_for_routed=(c(swiglu_limits=cfg["swiglu_limits_shared"]), []),
        )
    return v


# ------------------------------------------------------------------ the run
def sha(t):
    return hashlib.sha256(t.detach().contiguous().numpy().astype("<f4").tobytes()).hexdigest()


def tstat(t):
    d = t.detach().double().reshape(-1)
    return dict(shape=list(t.shape), sum=float(d.sum()), abs_sum=float(d.abs().sum()), l2=float(d.norm()),
                first4=[float(x) for x in d[:4]])


def reldiff(a, b):
    """max |a-b| / max |b| over one tensor"""
    a, b = a.double(), b.double()
    return float((a - b).abs().max() / b.abs().max().clamp_min(1e-30))


def run(cfg, out_dir):
    a = cfg["model_type"]
    W = make_weights(cfg, SEEDS[a])
    g = torch.Generator().manual_seed(SEEDS[a] + 1)
    ids = torch.randint(0, V, (B, S), generator=g)
    ids[0, 0], ids[0, 7], ids[1, 3] = 0, 1, 1  # bos / eos / a would-be pad id: none of them is special
    labels = ids.clone()
    masked = labels.clone()
    masked[1, :9] = -100  # a second loss with ignored labels, as in SFT

    m, logits_of, to_module, to_hf, frozen = build(cfg)
    missing, unexpected = m.load_state_dict(to_module(W), strict=False)
    assert not unexpected and not [k for k in missing if "inv_freq" not in k], (missing, unexpected)
    m.train()
    params = dict(m.named_parameters())
    back = to_hf({k: v.detach() for k, v in m.state_dict().items() if "inv_freq" not in k})
    assert set(back) == set(W) and all(torch.equal(back[k], W[k]) for k in W), "name map is not a bijection"

    # ---- one forward/backward
    lg = logits_of(ids)
    loss = P.loss_fn(lg, labels)
    hf_loss = torch.nn.functional.cross_entropy(lg[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    assert torch.equal(loss, hf_loss)
    loss.backward()
    grads = to_hf({k: p.grad.clone() for k, p in params.items()})
    assert set(grads) == set(W) - set(frozen)
    lg, loss = lg.detach(), loss.detach()
    loss_masked = P.loss_fn(lg, masked)

    # ---- independent check: plain f32 and plain f64
    st = P.new_stats()
    W32 = {k: v.clone().requires_grad_(k not in frozen) for k, v in W.items()}
    lg32 = P.forward(W32, cfg, ids, st)
    l32 = P.loss_fn(lg32, labels)
    names = [k for k in W if k not in frozen]
    g32 = dict(zip(names, torch.autograd.grad(l32, [W32[k] for k in names])))
    W64 = {k: v.double() for k, v in W.items()}
    lg64 = P.forward(W64, cfg, ids)
    curve64, final64, g64, Wend64 = P.adamw_curve(W64, cfg, ids, labels, OPT["steps"], OPT["lr"], OPT["betas"], OPT["eps"],
                                                  OPT["weight_decay"], OPT["max_norm"], frozen)

    # ---- 10 AdamW steps with torch.optim on the transformers module
    dec = [p for p in params.values() if p.dim() >= 2]
    nod = [p for p in params.values() if p.dim() < 2]
    opt = torch.optim.AdamW([dict(params=dec, weight_decay=OPT["weight_decay"]), dict(params=nod, weight_decay=0.0)],
                            lr=OPT["lr"], betas=OPT["betas"], eps=OPT["eps"], foreach=False, fused=False)
    curve, snap1 = [], None
    for t in range(1, OPT["steps"] + 1):
        opt.zero_grad(set_to_none=True)
        ls = P.loss_fn(logits_of(ids), labels)
        ls.backward()
        gn = torch.nn.utils.clip_grad_norm_(list(params.values()), OPT["max_norm"], foreach=False)
        opt.step()
        curve.append(dict(step=t, loss=ls.item(), grad_norm=gn.item(), loss_f64=curve64[t - 1]["loss"],
                          grad_norm_f64=curve64[t - 1]["grad_norm"], router_margin_f64=curve64[t - 1]["router_margin"]))
        if t == 1:
            snap1 = to_hf({k: v.detach().clone() for k, v in params.items()})
    final = P.loss_fn(logits_of(ids), labels).item()
    end = to_hf({k: v.detach() for k, v in params.items()})

    def bad(Wb, c2, mu):
        x = P.forward(Wb, c2, ids, mut=mu)
        return dict(loss=float(P.loss_fn(x, labels)), logits_max_abs_change=float((x - lg64).abs().max()))

    wrong = {n: bad(W64, c2, mu) for n, (c2, mu) in wrong_variants(cfg).items()}
    if a == "step3p5":
        wrong["router_bias_ignored"] = bad({k: v * 0 if k.endswith("router_bias") else v for k, v in W64.items()}, cfg, ())

    d = os.path.join(out_dir, {"step3p5": "step35"}.get(a, a))
    os.makedirs(d, exist_ok=True)
    meta = {"format": "pt"}
    order = sorted(W)
    save_file({k: W[k].contiguous() for k in order}, os.path.join(d, "model.safetensors"), meta)
    save_file({k: grads[k].contiguous() for k in order if k in grads}, os.path.join(d, "grads.safetensors"), meta)
    save_file({"logits": lg.detach().contiguous()}, os.path.join(d, "logits.safetensors"), meta)
    save_file({k: end[k].contiguous() for k in order if k in end}, os.path.join(d, "params_after_10.safetensors"), meta)
    json.dump(cfg, open(os.path.join(d, "config.json"), "w"), indent=1)
    gdev = {k: reldiff(grads[k], g64[k]) for k in grads}
    worst = max(gdev, key=gdev.get)
    doc = dict(
        arch=a, made_by=f"make_golden.py torch {torch.__version__} transformers {transformers.__version__}, float32 CPU 1 thread eager deterministic",
        weights_seed=SEEDS[a], num_parameters=sum(v.numel() for v in W.values()),
        num_trainable=sum(W[k].numel() for k in W if k not in frozen), frozen=frozen,
        input_ids=ids.tolist(), labels=labels.tolist(),
        labels_note="HF convention: labels[t] is predicted from logits[t-1]; mean over B*(S-1)=94 positions; no label is ignored in `loss`",
        labels_masked=masked.tolist(),
        loss=float(loss), loss_f64=curve64[0]["loss"],
        loss_masked=float(loss_masked), loss_masked_f64=float(P.loss_fn(lg64, masked)),
        logits=dict(file="logits.safetensors", tensor="logits", shape=list(lg.shape), sha256_f32le=sha(lg),
                    sum=float(lg.detach().double().sum()), abs_sum=float(lg.detach().double().abs().sum()),
                    l2=float(lg.detach().double().norm()), first8=[float(x) for x in lg.detach()[0, 0, :8]],
                    last8=[float(x) for x in lg.detach()[-1, -1, -8:]]),
        grad_norm=curve[0]["grad_norm"], grads=dict(file="grads.safetensors", tensors={k: tstat(grads[k]) for k in sorted(grads)}),
        optimizer=dict(kind="AdamW", lr=OPT["lr"], betas=list(OPT["betas"]), eps=OPT["eps"],
                       weight_decay="0.1 on every trainable tensor with ndim>=2 (embedding, lm_head, all projections incl. g_proj, router gate and stacked experts), 0 on ndim<2 (norm weights)",
                       order="zero_grad; loss (same batch every step); backward; clip_grad_norm_(all trainable, 1.0): g *= min(1, 1.0/(norm+1e-6)); p *= 1-lr*wd; m,v; p -= lr/(1-b1^t) * m/(sqrt(v)/sqrt(1-b2^t)+eps)",
                       frozen="router_bias is not trained (requires_grad false, not in the norm)"),
        loss_if_wrong=dict(note="float64 result of the same weights and batch with one deliberate mistake; the right loss is loss_f64", **wrong),
        curve=curve, loss_after_10=final, loss_after_10_f64=final64,
        params_after_1={k: tstat(snap1[k]) for k in sorted(snap1)},
        params_after_10=dict(file="params_after_10.safetensors", tensors={k: tstat(end[k]) for k in sorted(end)}),
        observed_error=dict(
            logits_max_abs_f32_vs_f64=float((lg.double() - lg64).abs().max()),
            logits_max_abs_plain_f32_vs_transformers_f32=float((lg - lg32.detach()).abs().max()),
            loss_abs_f32_vs_f64=abs(float(loss) - curve64[0]["loss"]),
            grad_worst_rel_f32_vs_f64=dict(tensor=worst, max_abs_diff_over_max_abs=gdev[worst]),
            grad_worst_rel_plain_f32_vs_transformers_f32=max(reldiff(g32[k], grads[k]) for k in grads),
            curve_max_loss_abs_f32_vs_f64=max(abs(c["loss"] - c["loss_f64"]) for c in curve),
            curve_max_grad_norm_rel_f32_vs_f64=max(abs(c["grad_norm"] / c["grad_norm_f64"] - 1) for c in curve),
            params_after_10_max_abs_f32_vs_f64=max(float((end[k].double() - Wend64[k]).abs().max()) for k in end),
            params_after_10_mean_abs_f32_vs_f64=float(sum((end[k].double() - Wend64[k]).abs().sum() for k in end) / sum(end[k].numel() for k in end)),
        ),
        router=dict(min_topk_margin_step1=st["margin"], min_topk_margin_all_steps=min(c["router_margin_f64"] for c in curve),
                    tokens_whose_selection_the_bias_changes=st["bias_changed"], tokens_times_moe_layers=B * S * len(frozen),
                    load_per_moe_layer=st["load"], clamped_gate=st["clamped_gate"], clamped_up=st["clamped_up"], clamp_total=st["clamp_total"]) if a != "llama" else None,
    )
    json.dump(doc, open(os.path.join(d, "golden.json"), "w"), indent=1)
    print(f"{a}: params {doc['num_parameters']} loss {doc['loss']:.7f} (f64 {doc['loss_f64']:.9f}) gnorm {doc['grad_norm']:.6f} sha {doc['logits']['sha256_f32le'][:16]}")
    print("   curve", " ".join(f"{c['loss']:.5f}" for c in curve), "->", f"{final:.5f}")
    print("   ", json.dumps(doc["observed_error"]))
    print("   ", json.dumps(doc["router"]))
    print("    wrong:", " ".join(f"{k} loss{v['loss'] - doc['loss_f64']:+.1e} logits {v['logits_max_abs_change']:.1e};" for k, v in wrong.items()))


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    out = sys.argv[1] if len(sys.argv) > 1 else here
    want = sys.argv[2:] or ["step3p5", "qwen3_moe", "llama"]
    for c in (STEP35, QWEN3, LLAMA):
        if c["model_type"] in want:
            run(c, out)

"""Golden numbers of the router: group-limited choice and the loss that evens out the load of experts.

    python make_router.py router.json

Needs torch 2.9.1 and transformers 5.24.0 (PyPI).  The choice is that of transformers' DeepseekV3TopkRouter, the softmax loss
that of its Qwen3-MoE for one layer and one sequence (over top_k: it is top_k for an even load, ours 1); for the sigmoid the
scores are divided by their sum, as DeepSeek-V3 does (arXiv 2412.19437, eq. 17 to 20).  Gradients are autograd's.
"""
import json
import re
import sys

import torch
from transformers import DeepseekV3Config
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3TopkRouter
from transformers.models.qwen3_moe.modeling_qwen3_moe import load_balancing_loss_func

TOKENS, SEQUENCE, EXPERTS, K, GROUPS, KEPT, SCALE, WEIGHT = 12, 6, 16, 3, 4, 2, 2.5, 0.01


def flat(x):
    return x.detach().reshape(-1).tolist()


def groups(logits, bias, d_weight):
    config = DeepseekV3Config(hidden_size=EXPERTS, n_routed_experts=EXPERTS, num_experts_per_tok=K, n_group=GROUPS,
                              topk_group=KEPT, norm_topk_prob=True, routed_scaling_factor=SCALE)
    router = DeepseekV3TopkRouter(config)
    router.weight.data = torch.eye(EXPERTS)
    router.e_score_correction_bias = bias
    x = logits.clone().requires_grad_()
    _, weight, index = router(x)
    # Best first, as the choice is made.
    order = (torch.sigmoid(x).gather(1, index) + bias[index]).argsort(-1, descending=True)
    index, weight = index.gather(1, order), weight.gather(1, order)
    (weight * d_weight).sum().backward()
    free = (torch.sigmoid(logits) + bias).topk(K, -1)[1]
    moved = int((free.sort(-1)[0] != index.sort(-1)[0]).any(-1).sum())
    assert 0 < moved < TOKENS, "groups matter for some tokens"
    return dict(index=flat(index), weight=flat(weight), d_logits=flat(x.grad), moved=moved)


def balance(logits, sigmoid):
    x = logits.clone().requires_grad_()
    loss = 0
    for rows in x.split(SEQUENCE):
        scores = torch.sigmoid(rows) / torch.sigmoid(rows).sum(-1, keepdim=True) if sigmoid else rows.softmax(-1)
        share = torch.nn.functional.one_hot(rows.topk(K, -1)[1], EXPERTS).sum((0, 1)) / SEQUENCE
        one = EXPERTS / K * (share * scores.mean(0)).sum()
        if not sigmoid:
            theirs = load_balancing_loss_func((rows,), EXPERTS, K) / K
            assert abs(float((one - theirs).detach())) < 1e-6, (one, theirs)
        loss = loss + WEIGHT * one
    loss.backward()
    return dict(loss=float(loss.detach()), d_logits=flat(x.grad))


torch.manual_seed(20)
logits, bias, d_weight = torch.randn(TOKENS, EXPERTS), 0.2 * torch.randn(EXPERTS), torch.randn(TOKENS, K)
text = json.dumps(dict(
    sequence=SEQUENCE, experts=EXPERTS, k=K, groups=GROUPS, top_groups=KEPT, scale=SCALE, weight=WEIGHT,
    logits=flat(logits), bias=flat(bias), d_weight=flat(d_weight), index=flat(logits.topk(K, -1)[1]),
    grouped=groups(logits, bias, d_weight), softmax=balance(logits, False), sigmoid=balance(logits, True),
), indent=1)
lists = re.sub(r"\[\s+([^\]]*?)\s+\]", lambda found: "[" + re.sub(r",\s+", ", ", found[1]) + "]", text)
open(sys.argv[1], "w").write(lists + "\n")

"""What the two PyTorch peers share: the model, the batch, the optimizer and the measurement.

The model is transformers' own text decoder for Step-3.5 with an untied output head, in float32 on CPU. Every choice
that PyTorch offers (attention, experts, optimizer, allocator) is an option whose default is the fastest we measured.
"""

import argparse
import ctypes
import json
import os
import resource
import statistics
import time
from pathlib import Path

import torch
import transformers
from torch.nn.functional import cross_entropy
from transformers.integrations.moe import use_experts_implementation
from transformers.models.step3p7 import modeling_step3p7 as step
from transformers.models.step3p7.configuration_step3p7 import Step3p7TextConfig

CONFIG = Path(__file__).parents[1] / "bench_config.json"
SEED = 1234
MAX_NORM = 1.0


class StepLM(torch.nn.Module):
    """Step-3.5's decoder and output head: token ids [B, S] to logits [B, S, vocabulary]."""

    def __init__(self, config):
        super().__init__()
        self.model = step.Step3p7TextModel(config)
        self.model.embed_tokens.padding_idx = None  # transformers presumes a pad token; the model has none
        self.lm_head = torch.nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        torch.nn.init.normal_(self.lm_head.weight, std=0.02)

    def forward(self, ids):
        return self.lm_head(self.model(input_ids=ids, use_cache=False).last_hidden_state)


def arguments(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--sequences", type=int, default=4, help="sequences per step and process (default 4)")
    parser.add_argument("--length", type=int, default=512, help="tokens per sequence (default 512)")
    parser.add_argument("--steps", type=int, default=10, help="measured steps (default 10)")
    parser.add_argument("--warmup", type=int, default=2, help="steps before the measurement (default 2)")
    parser.add_argument("--threads", type=int, default=None, help="threads per process (default: all cores; FSDP2: 1)")
    parser.add_argument("--attention", choices=["sdpa", "eager"], default="sdpa")
    parser.add_argument("--experts", choices=["grouped_mm", "batched_mm", "eager"], default="grouped_mm")
    parser.add_argument("--optimizer", choices=["fused", "foreach", "loop"], default="fused")
    parser.add_argument("--allocator", choices=["keep", "glibc"], default="keep", help="keep: reuse freed memory")
    return parser.parse_args()


def keep_freed_memory():
    """Let glibc serve large blocks from its heap and keep them, which saves the page faults of each new tensor."""
    trim_threshold, mmap_max = -1, -4
    libc = ctypes.CDLL(None)
    libc.mallopt(mmap_max, 0)
    libc.mallopt(trim_threshold, 2**31 - 1)


def build(args):
    """The model of `bench_config.json` with seeded weights."""
    transformers.logging.set_verbosity_error()
    torch.manual_seed(SEED)
    use_experts_implementation(step.Step3p7Experts)  # transformers leaves this class on its slower loop
    raw = json.loads(CONFIG.read_text())
    foreign = ("architectures", "model_type", "torch_dtype")
    config = Step3p7TextConfig(**{k: v for k, v in raw.items() if k not in foreign})
    config._attn_implementation = args.attention
    model = StepLM(config).train()
    config._experts_implementation = args.experts
    return model


def optimizer_of(model, args):
    """AdamW; weight decay on matrices only."""
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    plain = [p for p in model.parameters() if p.dim() < 2]
    groups = [dict(params=decayed, weight_decay=0.1), dict(params=plain, weight_decay=0.0)]
    how = {"fused": dict(fused=True), "foreach": dict(foreach=True), "loop": dict(foreach=False)}[args.optimizer]
    return torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), eps=1e-8, **how)


def measure(model, args, rank=0, processes=1, before_step=lambda: None):
    """Train on this rank's share of one random batch; returns (seconds of each measured step, last loss)."""
    generator = torch.Generator().manual_seed(SEED)
    shape = (processes, args.sequences, args.length + 1)
    tokens = torch.randint(0, model.lm_head.out_features, shape, generator=generator)[rank]
    inputs, labels = tokens[:, :-1].contiguous(), tokens[:, 1:].flatten()
    optimizer = optimizer_of(model, args)
    seconds = []
    for _ in range(args.warmup + args.steps):
        before_step()
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = cross_entropy(model(inputs).flatten(0, 1), labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM, foreach=True)
        optimizer.step()
        value = loss.item()
        seconds.append(time.perf_counter() - start)
    return seconds[args.warmup :], value


def peak_rss_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def report(args, peer, seconds, loss, processes=1, rss=None):
    """Print the result as one JSON line: the median step, and the best one beside it."""
    median = statistics.median(seconds)
    tokens = processes * args.sequences * args.length
    print(
        json.dumps(
            dict(
                peer=peer,
                tokens_per_second=round(tokens / median, 1),
                seconds_per_step=round(median, 4),
                best_tokens_per_second=round(tokens / min(seconds), 1),
                peak_rss_mib=round(peak_rss_mib() if rss is None else rss, 1),
                loss=round(loss, 6),
                processes=processes,
                threads=torch.get_num_threads(),
                sequences=args.sequences,
                length=args.length,
                steps=args.steps,
                attention=args.attention,
                experts=args.experts,
                optimizer=args.optimizer,
                torch=torch.__version__,
                transformers=transformers.__version__,
                cpus=os.cpu_count(),
            )
        ),
        flush=True,
    )

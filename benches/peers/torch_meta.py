"""Peer of `cargo bench --bench plan`: PyTorch builds the flagship on the meta device and shards it with FSDP2.

python torch_meta.py [--ranks 192]

No process but this one: a fake process group stands for the ranks, so nothing is sent and nothing allocated. Each
layer, the embedding, and the head with the last norm are a unit, as in `torch_fsdp2.py`. This is what a rank does
before it knows the bytes of its shards; it gives neither activations, nor peak memory, nor time, which the plan
does. Prints one JSON line with the seconds of each part.
"""

import argparse
import json
import resource
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore

import peer
from torch_fsdp2 import shard

LAYERS, DENSE, FULL_EVERY = 45, 3, 4


def config():
    """The flagship's sizes, in the form of the laptop-size configuration beside this folder."""
    values = json.loads(peer.CONFIG.read_text())
    for foreign in ("architectures", "model_type", "torch_dtype"):
        del values[foreign]
    kinds = ["full_attention" if i % FULL_EVERY == 0 else "sliding_attention" for i in range(LAYERS)]
    sliding = values["attention_other_setting"] | {
        "num_attention_heads": 96, "num_attention_groups": 8, "head_dim": 128, "true_head_dim": 128,
    }
    values.update(
        vocab_size=128896, hidden_size=4096, intermediate_size=11264, num_hidden_layers=LAYERS, head_dim=128,
        num_attention_heads=64, num_attention_groups=8, attention_other_setting=sliding, sliding_window=512,
        layer_types=kinds, partial_rotary_factors=[0.5 if kind == "full_attention" else 1.0 for kind in kinds],
        rope_theta=[5e6 if kind == "full_attention" else 1e4 for kind in kinds],
        moe_layers_enum=",".join(str(i) for i in range(DENSE, LAYERS)), moe_num_experts=288, moe_top_k=8,
        moe_intermediate_size=1280, share_expert_dim=1280,
        swiglu_limits=[0.0] * (LAYERS - 2) + [7, 7], swiglu_limits_shared=[0.0] * (LAYERS - 1) + [16],
    )
    return values


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=192)
    ranks = parser.parse_args().ranks
    dist.init_process_group("fake", rank=0, world_size=ranks, store=FakeStore())
    mesh = init_device_mesh("cpu", (ranks,))
    start = time.perf_counter()
    with torch.device("meta"):
        model = peer.StepLM(peer.Step3p7TextConfig(**config())).to(torch.bfloat16)
    built = time.perf_counter()
    parameters = sum(p.numel() for p in model.parameters())
    shard(model, mesh)
    sharded = time.perf_counter()
    held = sum(p.to_local().numel() for p in model.parameters())
    print(json.dumps({
        "engine": "torch-meta", "ranks": ranks, "parameters": parameters, "held_by_rank_0": held,
        "build_seconds": built - start, "shard_seconds": sharded - built, "seconds": sharded - start,
        "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
